//! Raw configuration: keys with values and origins, from addresses, files and variables, before they are validated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result, Settings};

use crate::config::address::WITHHELD;
use crate::config::duration::parse_duration;
use crate::config::keys::{self, KEYS, Key, Scope, StoreType, ValueType};
use crate::config::suggest::did_you_mean;

/// The origin of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// An address with this scheme, from the program or the command line.
    Address(String),
    /// A line of a file, or of TOML text without a file.
    Line { file: Option<Arc<str>>, line: usize },
    /// An environment variable.
    Variable(String),
}

impl Origin {
    pub(crate) fn error(&self, key: &str, why: impl fmt::Display) -> Error {
        Error::Config(match self {
            Self::Address(scheme) => format!("{scheme}: {key}: {why}"),
            Self::Variable(name) if *name == variable_name(key) => format!("{name}: {why}"),
            here => format!("{here}: {key}: {why}"),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(_) => f.write_str("address"),
            Self::Line { file: Some(file), line } => write!(f, "{file}:{line}"),
            Self::Line { file: None, line } => write!(f, "line {line}"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// The environment variable of a key.
pub(crate) fn variable_name(key: &str) -> String {
    format!("TENURE_{}", key.to_ascii_uppercase())
}

/// One key with its raw value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

impl Setting {
    pub(crate) fn error(&self, why: impl fmt::Display) -> Error {
        self.origin.error(self.key.name, why)
    }

    /// The error for a key that is set twice. It is reported where it is set for the second time.
    fn duplicate_of(&self, other: &Self) -> Error {
        match self.origin == other.origin {
            true => self.error("is set twice"),
            false => self.error(format!("is set twice, here and by {}", other.origin)),
        }
    }

    pub(crate) fn duration(&self) -> Result<Duration> {
        parse_duration(&self.value).map_err(|e| self.error(e))
    }

    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn number<N: std::str::FromStr>(&self, expected: &str) -> Result<N> {
        self.value.parse().map_err(|_| self.error(format!("{:?}: expected {expected}", self.value)))
    }

    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn flag(&self) -> Result<bool> {
        self.number("true or false")
    }

    /// Parses one of several choices. The first is the default.
    #[cfg(any(feature = "sqlite", feature = "redis", feature = "zookeeper"))]
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Result<T> {
        let names = || choices.iter().map(|(name, _)| *name);
        let found = choices.iter().find(|(name, _)| *name == self.value);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let expected: Vec<&str> = names().collect();
            self.error(format!(
                "{:?}: expected {}{}",
                self.value,
                expected.join(" or "),
                did_you_mean(&self.value, names())
            ))
        })
    }

    /// The value with secrets masked.
    pub(crate) fn masked(&self) -> String {
        match self.key.value_type {
            ValueType::Secret => MASK.to_owned(),
            ValueType::Nodes => mask_logins(&self.value),
            // Refused, but shown until then.
            ValueType::Pairs if self.value.contains('@') => MASK.to_owned(),
            _ => self.value.clone(),
        }
    }
}

pub(crate) const MASK: &str = "***";

/// Masks logins. Nodes of a quorum may have their own logins, which may contain commas, and options, which are
/// dropped.
fn mask_logins(nodes: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    for node in nodes.split(',') {
        let Some((login, host)) = node.rsplit_once('@') else {
            shown.push(node.split('?').next().unwrap_or_default().to_owned());
            continue;
        };
        let mut scheme = scheme_of(login);
        // A comma inside the login split it, so the parts before it may belong to it.
        while scheme.is_empty() && shown.iter().any(|before| before.contains("://") && !before.contains(MASK))
        {
            let before = shown.pop().unwrap_or_default();
            scheme = scheme_of(&before);
        }
        shown.push(format!("{scheme}{MASK}@{}", host.split('?').next().unwrap_or_default()));
    }
    shown.join(",")
}

fn scheme_of(node: &str) -> String {
    node.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default()
}

/// Pairs of keys that replace each other.
const ALTERNATIVES: [(&str, &str); 2] =
    [("password", "password_file"), ("sentinel_password", "sentinel_password_file")];

/// Keys without which nothing else of some stores can be checked.
const REQUIRED: [&str; 2] = ["nodes", "master"];

/// All keys that are set.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct RawConfig {
    settings: BTreeMap<&'static str, Setting>,
    /// Whether an address sets the store.
    has_address: bool,
    /// What could not be read, and the keys among it.
    errors: Vec<Error>,
    unread: BTreeSet<&'static str>,
    /// What was ignored.
    warnings: Vec<String>,
}

impl RawConfig {
    /// A source that could not be read at all.
    pub(crate) fn failed(error: Error) -> Self {
        Self { errors: vec![error], unread: ["type"].into(), ..Self::default() }
    }

    /// Fails with the first thing that could not be read.
    pub(crate) fn strict(mut self) -> Result<Self> {
        if self.errors.is_empty() { Ok(self) } else { Err(self.errors.swap_remove(0)) }
    }

    /// Keeps the error of one key, so that the others are read too.
    pub(crate) fn keep_error(&mut self, outcome: Result<()>) {
        self.errors.extend(outcome.err());
    }

    /// Keeps the error of a key whose value has the wrong form.
    pub(crate) fn keep_unread(&mut self, key: &'static Key, error: Error) {
        self.unread.insert(key.name);
        self.errors.push(error);
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Everything that is wrong. Each check stops at its first error, so the key behind that error is left out, and the
    /// rest is checked again.
    pub(crate) fn problems(mut self) -> Vec<Error> {
        let mut problems = std::mem::take(&mut self.errors);
        let unread = std::mem::take(&mut self.unread);
        let is_known = self.get("type").is_some_and(|kind| StoreType::named(&kind.value).is_some());
        if !is_known && !unread.contains("type") {
            problems.extend(self.clone().take_store_type().err());
        }
        REQUIRED.iter().filter(|key| unread.contains(*key)).for_each(|key| self.replace(key));
        // Without a type only the settings of the client can be checked.
        let check = |raw: &Self| match is_known {
            true => raw.clone().validate(Settings::default()).err(),
            false => raw.clone().take_client_settings(Settings::default()).err(),
        };
        while let Some(error) = check(&self) {
            let changes = |key: &&'static str| {
                let mut others = self.clone();
                others.settings.remove(key);
                check(&others).as_ref() != Some(&error)
            };
            let optional = |key: &&str| *key != "type" && !REQUIRED.contains(key);
            match self.settings.keys().copied().filter(optional).find(changes) {
                Some(key) => drop(self.settings.remove(key)),
                None => REQUIRED.iter().for_each(|key| self.replace(key)),
            }
            let is_stuck = check(&self).as_ref() == Some(&error);
            problems.push(error);
            if is_stuck {
                break;
            }
        }
        problems
    }

    /// Puts a value that is valid anywhere in the place of a required one, if its store has that key.
    fn replace(&mut self, name: &'static str) {
        let (Some(key), Some(kind)) = (Key::named(name), self.get("type").cloned()) else { return };
        if StoreType::named(&kind.value).is_some_and(|store| key.stores.contains(&store)) {
            let setting = Setting { key, value: "localhost".to_owned(), origin: kind.origin };
            self.settings.insert(name, setting);
        }
    }

    /// Adds a key of one source. Setting a key twice is an error, even with the same value.
    pub(crate) fn set(&mut self, key: &'static Key, value: impl Into<String>, origin: &Origin) -> Result<()> {
        let setting = Setting { key, value: value.into(), origin: origin.clone() };
        match self.settings.get(key.name) {
            Some(before) => Err(setting.duplicate_of(before)),
            None => {
                self.settings.insert(key.name, setting);
                Ok(())
            }
        }
    }

    /// Resolves relative paths against this folder.
    pub(crate) fn resolve_paths(&mut self, folder: &Path) {
        for setting in self.settings.values_mut().filter(|s| s.key.value_type == ValueType::Path) {
            match folder.join(&setting.value).into_os_string().into_string() {
                Ok(path) => setting.value = path,
                Err(path) => self.errors.push(
                    setting
                        .error(format!("{} is not UTF-8: use an absolute path", Path::new(&path).display())),
                ),
            }
        }
    }

    /// Adds the keys of an address in the same source.
    pub(crate) fn set_from_address(&mut self, address: Self) {
        self.has_address |= address.has_address;
        for s in address.settings.values() {
            let outcome = match self.settings.get(s.key.name) {
                // The error names the key, not the address, since the key is what can be left out.
                Some(own) => Err(own.duplicate_of(s)),
                None => self.set(s.key, &s.value, &s.origin),
            };
            self.keep_error(outcome);
        }
        self.keep_notes(address);
    }

    fn keep_notes(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.unread.extend(other.unread);
        self.warnings.extend(other.warnings);
    }

    /// Marks the store as set by an address.
    pub(crate) fn with_address(mut self) -> Self {
        self.has_address = true;
        self
    }

    /// Overrides these keys with those of a source with higher precedence. If that source names a store by its
    /// address, all store keys here are dropped: a password must never be sent to another store than the one it was
    /// meant for.
    pub(crate) fn overridden_by(mut self, mut stronger: Self) -> Self {
        if stronger.has_address {
            self.settings.retain(|_, s| s.key.scope == Scope::Client);
        }
        for (one, other) in ALTERNATIVES {
            for (set, alternative) in [(one, other), (other, one)] {
                if stronger.settings.contains_key(set) {
                    self.settings.remove(alternative);
                }
            }
        }
        self.has_address |= stronger.has_address;
        self.settings.append(&mut stronger.settings);
        self.keep_notes(stronger);
        self
    }

    /// Overrides keys with those of `other`.
    pub(crate) fn extend(&mut self, other: Self) {
        self.settings.extend(other.settings);
    }

    pub(crate) fn remove(&mut self, keys: &[&str]) {
        self.settings.retain(|key, _| !keys.contains(key));
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.get(key)
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Setting> {
        debug_assert!(Key::named(key).is_some(), "{key} is in the table");
        self.settings.remove(key)
    }

    pub(crate) fn take_duration(&mut self, key: &str, into: &mut Duration) -> Result<()> {
        if let Some(setting) = self.take(key) {
            *into = setting.duration()?;
        }
        Ok(())
    }

    /// Takes a duration that must be at least `least`.
    pub(crate) fn take_duration_at_least(
        &mut self,
        key: &str,
        least: Duration,
        into: &mut Duration,
    ) -> Result<()> {
        let Some(setting) = self.take(key) else { return Ok(()) };
        *into = setting.duration()?;
        if *into < least {
            return Err(setting.error(format!("{:?} is too short: expected at least {least:?}", *into)));
        }
        Ok(())
    }

    /// In the order of [`KEYS`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Setting> {
        KEYS.iter().filter_map(|key| self.settings.get(key.name))
    }

    /// Whether any key of the store is set.
    pub(crate) fn has_store(&self) -> bool {
        self.iter().any(|s| s.key.scope != Scope::Client)
    }

    /// Takes the type of store, and checks that it has all keys that are set.
    pub(crate) fn take_store_type(&mut self) -> Result<(StoreType, Setting)> {
        let names = || StoreType::ALL.iter().map(|t| t.name());
        let expected = || names().collect::<Vec<_>>().join(", ");
        let Some(setting) = self.take("type") else {
            let missing = format!("missing: expected one of {}, or set url", expected());
            let first = self.iter().find(|s| s.key.scope != Scope::Client);
            return Err(match first {
                Some(first) => first.error(format!("has no effect without a type; type is {missing}")),
                None => Error::Config(format!(
                    "type is {missing}; the variable {} also sets it",
                    variable_name("type")
                )),
            });
        };
        if WITHHELD.strip_suffix(':') == Some(&setting.value) {
            let why = "the address contains a password, which `tenure run` does not pass to its command: configure the \
                       store again for the command, or add --share-store to the outer `tenure run`";
            return Err(setting.origin.error(keys::URL, why));
        }
        let Some(kind) = StoreType::named(&setting.value) else {
            return Err(setting.error(format!(
                "{:?} is unknown: expected one of {}{}",
                setting.value,
                expected(),
                did_you_mean(&setting.value, names())
            )));
        };
        match self.iter().find(|s| !s.key.stores.contains(&kind)) {
            Some(foreign) => Err(foreign.error(format!(
                "{}, but type is {} ({})",
                foreign.key.supported_by(),
                kind.name(),
                setting.origin
            ))),
            None => Ok((kind, setting)),
        }
    }

    /// Takes the client settings.
    pub(crate) fn take_client_settings(&mut self, mut settings: Settings) -> Result<Settings> {
        self.take_duration("lease", &mut settings.lease)?;
        self.take_duration("call_timeout", &mut settings.call_timeout)?;
        self.take_duration("outage", &mut settings.outage)?;
        self.take_duration("close_timeout", &mut settings.close_timeout)?;
        let mut poll = Duration::ZERO;
        self.take_duration("poll", &mut poll)?;
        if !poll.is_zero() {
            settings.poll = Some(poll);
        }
        let mut warn_held = Duration::ZERO;
        self.take_duration("warn_held", &mut warn_held)?;
        if !warn_held.is_zero() {
            settings.warn_held = Some(warn_held);
        }
        if let Some(bound) = self.take("local_handover") {
            let is_off = bound.value == "off";
            settings.local_handover =
                if is_off { None } else { Some(bound.duration()?).filter(|d| !d.is_zero()) };
        }
        if let Some(deadlocks) = self.take("deadlocks") {
            settings.deadlocks = deadlocks.value.parse().map_err(|e| deadlocks.error(e))?;
        }
        if let Some(durability) = self.take("durability") {
            settings.durability = durability.value.parse().map_err(|e| durability.error(e))?;
        }
        Ok(settings)
    }
}
