//! Configuration from the environment: one variable for each key.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::config::address;
use crate::config::keys::{self, Key, StoreType};
use crate::config::raw::{Origin, RawConfig, variable_name};

const CONFIG_FILE: &str = "TENURE_CONFIG";

/// Variables that `tenure run` sets for its command, without the prefix.
const SET_BY_RUN: &[&str] = &["NAME", "FENCE", "HOLD", "HOLDS"];

/// The file named by `TENURE_CONFIG`.
pub(super) fn file() -> Option<PathBuf> {
    std::env::var_os(CONFIG_FILE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(super) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> RawConfig {
    let ours = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        let short = name.strip_prefix("TENURE_")?;
        let others = name == CONFIG_FILE || SET_BY_RUN.contains(&short) || is_kubernetes_service(short);
        (!others && !value.is_empty()).then_some((name, value))
    };
    let variables: Vec<(String, OsString)> = variables.filter_map(ours).collect();
    let text_of = |key: &str| {
        let name = variable_name(key);
        variables.iter().find(|(other, _)| *other == name).and_then(|(_, value)| value.to_str())
    };
    let store = text_of("type").and_then(StoreType::named);
    let store = store.or_else(|| text_of(keys::URL).and_then(address::store_type));
    let (mut raw, mut url) = (RawConfig::default(), None);
    for (name, value) in &variables {
        let origin = Origin::Variable(name.clone());
        let short = name["TENURE_".len()..].to_ascii_lowercase();
        // Variable names are case-sensitive on Unix: `TENURE_Lease` is another variable.
        let key = Key::named(&short).filter(|key| *name == variable_name(key.name));
        let is_url = *name == variable_name(keys::URL);
        match (value.to_str(), key) {
            (Some(text), _) if is_url => url = Some(address::read(text, &origin)),
            (None, None) if is_url => url = Some(RawConfig::failed(origin.error(keys::URL, "is not UTF-8"))),
            (Some(text), Some(key)) => {
                let outcome = raw.set(key, text, &origin);
                raw.keep_error(outcome);
            }
            (None, Some(key)) => raw.keep_unread(key, origin.error(key.name, "is not UTF-8")),
            // Not an error: it may be meant for another program, or another version of this one.
            (_, None) => {
                let known = Key::of(store).map(|key| key.name).chain([keys::URL, "config"]);
                let hint =
                    keys::suggest(&short, known).map(|key| format!("; did you mean {}?", variable_name(key)));
                raw.warn(format!("{name}: unknown variable, ignored{}", hint.unwrap_or_default()));
            }
        }
    }
    if let Some(url) = url {
        raw.set_from_address(url);
    }
    raw
}

/// Whether Kubernetes sets this variable: it does so for a service named tenure or tenure-something.
fn is_kubernetes_service(short: &str) -> bool {
    short.ends_with("SERVICE_HOST") || short.split('_').any(|word| word == "PORT")
}
