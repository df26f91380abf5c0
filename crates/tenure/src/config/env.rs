//! Configuration from the environment: one variable for each key.

use std::ffi::OsString;
use std::path::PathBuf;

use tenure_core::Result;

use crate::config::address;
use crate::config::keys::{self, KEYS, Key};
use crate::config::raw::{Origin, RawConfig, variable_name};

const CONFIG_FILE: &str = "TENURE_CONFIG";

/// Variables that `tenure run` sets for its command, without the prefix.
const SET_BY_RUN: &[&str] = &["NAME", "FENCE", "HOLD", "HOLDS"];

/// The file named by `TENURE_CONFIG`.
pub(super) fn file() -> Option<PathBuf> {
    std::env::var_os(CONFIG_FILE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(super) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<RawConfig> {
    let (mut raw, mut url) = (RawConfig::default(), None);
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(short) = name.strip_prefix("TENURE_") else { continue };
        if value.is_empty()
            || name == CONFIG_FILE
            || SET_BY_RUN.contains(&short)
            || is_kubernetes_service(short)
        {
            continue;
        }
        let origin = Origin::Variable(name.to_owned());
        let key = short.to_ascii_lowercase();
        let text = value.into_string().map_err(|_| origin.error(&key, "is not UTF-8"))?;
        if name == variable_name(keys::URL) {
            url = Some(address::parse(&text, &origin)?);
            continue;
        }
        match Key::named(&key) {
            // Variable names are case-sensitive on Unix: `TENURE_Lease` is another variable.
            Some(key) if name == variable_name(key.name) => raw.set(key, text, &origin)?,
            _ => {
                let known = KEYS.iter().map(|key| key.name).chain([keys::URL, "config"]);
                let hint =
                    keys::suggest(&key, known).map(|key| format!("; did you mean {}?", variable_name(key)));
                return Err(origin.error(&key, format!("unknown variable{}", hint.unwrap_or_default())));
            }
        }
    }
    url.map_or(Ok(()), |url| raw.set_from_address(url))?;
    Ok(raw)
}

/// Whether Kubernetes sets this variable: it does so for a service named tenure or tenure-something.
fn is_kubernetes_service(short: &str) -> bool {
    short.ends_with("SERVICE_HOST") || short.split('_').any(|word| word == "PORT")
}
