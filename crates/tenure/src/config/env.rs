//! Configuration from the environment: one variable for each key.

use std::ffi::OsString;
use std::path::PathBuf;

use tenure_core::Result;

use crate::config::address::Parts;
use crate::config::keys::{self, KEYS, Key};
use crate::config::raw::{Given, Origin, variable};

const FILE: &str = "TENURE_CONFIG";

/// Variables that `tenure run` sets for the command that it runs.
const TOLD: &[&str] = &["NAME", "FENCE", "HOLD", "HOLDS"];

/// The file named by `TENURE_CONFIG`.
pub(super) fn file() -> Option<PathBuf> {
    std::env::var_os(FILE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(super) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Given> {
    let (mut given, mut url) = (Given::default(), None);
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(short) = name.strip_prefix("TENURE_") else { continue };
        if value.is_empty() || name == FILE || TOLD.contains(&short) || is_of_a_service(short) {
            continue;
        }
        let from = Origin::Variable(name.to_owned());
        let key = short.to_ascii_lowercase();
        let text = value.into_string().map_err(|_| from.wrong(&key, "is not UTF-8"))?;
        if name == variable(keys::URL) {
            url = Some(Parts::of(&text, &from)?.given()?);
            continue;
        }
        match Key::named(&key) {
            // Variable names are case-sensitive on Unix: `tenure_lease` and `TENURE_Lease` are other variables.
            Some(key) if name == variable(key.name) => given.say(key, text, &from)?,
            _ => {
                let known = KEYS.iter().map(|key| key.name).chain([keys::URL, "config"]);
                let hint = keys::meant(&key, known).map(|key| format!("; did you mean {}?", variable(key)));
                return Err(from.wrong(&key, format!("unknown variable{}", hint.unwrap_or_default())));
            }
        }
    }
    url.map_or(Ok(()), |url| given.say_all(url))?;
    Ok(given)
}

/// Whether Kubernetes sets this variable: it does so for a service named tenure or tenure-something.
fn is_of_a_service(short: &str) -> bool {
    short.ends_with("SERVICE_HOST") || short.split('_').any(|word| word == "PORT")
}
