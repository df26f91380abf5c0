//! Raw configuration: keys with values and origins, from addresses, files and variables, before they are validated.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result, Settings};

use crate::config::address::WITHHELD;
use crate::config::duration::parse_duration;
use crate::config::keys::{self, About, Form, KEYS, Key, Type};
use crate::config::suggest::hint;

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
    pub(crate) fn wrong(&self, key: &str, why: impl fmt::Display) -> Error {
        Error::Config(match self {
            Self::Address(scheme) => format!("{scheme}: {key}: {why}"),
            Self::Variable(name) if *name == variable(key) => format!("{name}: {why}"),
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
pub(crate) fn variable(key: &str) -> String {
    format!("TENURE_{}", key.to_ascii_uppercase())
}

/// One key with its raw value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) text: String,
    pub(crate) from: Origin,
}

impl Setting {
    pub(crate) fn wrong(&self, why: impl fmt::Display) -> Error {
        self.from.wrong(self.key.name, why)
    }

    pub(crate) fn duration(&self) -> Result<Duration> {
        parse_duration(&self.text).map_err(|e| self.wrong(e))
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, expected: &str) -> Result<N> {
        self.text.parse().map_err(|_| self.wrong(format!("{:?}: expected {expected}", self.text)))
    }

    pub(crate) fn flag(&self) -> Result<bool> {
        self.number("true or false")
    }

    /// Parses one of several choices. The first is the default.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Result<T> {
        let names = || choices.iter().map(|(name, _)| *name);
        let found = choices.iter().find(|(name, _)| *name == self.text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let expected: Vec<&str> = names().collect();
            self.wrong(format!(
                "{:?}: expected {}{}",
                self.text,
                expected.join(" or "),
                hint(&self.text, names())
            ))
        })
    }

    /// The value with secrets masked.
    pub(crate) fn shown(&self) -> String {
        match self.key.form {
            Form::Secret => MASK.to_owned(),
            Form::Nodes => without_logins(&self.text),
            _ => self.text.clone(),
        }
    }
}

pub(crate) const MASK: &str = "***";

/// Masks logins. Nodes of a quorum may have their own logins, which may contain commas, and options, which are
/// dropped.
fn without_logins(nodes: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    for node in nodes.split(',') {
        let Some((login, host)) = node.rsplit_once('@') else {
            shown.push(node.split('?').next().unwrap_or_default().to_owned());
            continue;
        };
        let mut scheme = scheme(login);
        // A comma inside the login split it, so the parts before it may belong to it.
        while scheme.is_empty() && shown.iter().any(|before| before.contains("://") && !before.contains(MASK))
        {
            let before = shown.pop().unwrap_or_default();
            scheme = self::scheme(&before);
        }
        shown.push(format!("{scheme}{MASK}@{}", host.split('?').next().unwrap_or_default()));
    }
    shown.join(",")
}

fn scheme(node: &str) -> String {
    node.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default()
}

/// Pairs of keys that replace each other.
const INSTEAD: [(&str, &str); 2] =
    [("password", "password_file"), ("sentinel_password", "sentinel_password_file")];

/// All keys that are set.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Given {
    all: BTreeMap<&'static str, Setting>,
    /// Whether an address named the store.
    whole: bool,
}

impl Given {
    /// Adds a key of one source. Setting a key twice is an error, even with the same value.
    pub(crate) fn say(&mut self, key: &'static Key, text: impl Into<String>, from: &Origin) -> Result<()> {
        let setting = Setting { key, text: text.into(), from: from.clone() };
        match self.all.get(key.name) {
            Some(before) => Err(setting.wrong(twice(before, &setting))),
            None => {
                self.all.insert(key.name, setting);
                Ok(())
            }
        }
    }

    /// Resolves relative paths against this folder.
    pub(crate) fn relative_to(&mut self, folder: &Path) -> Result<()> {
        for setting in self.all.values_mut().filter(|s| s.key.form == Form::File) {
            let path = folder.join(&setting.text).into_os_string().into_string();
            setting.text = path.map_err(|path| {
                setting.wrong(format!("{} is not UTF-8: give the whole path", Path::new(&path).display()))
            })?;
        }
        Ok(())
    }

    /// Adds the keys of an address in the same source.
    pub(crate) fn say_all(&mut self, address: Self) -> Result<()> {
        self.whole |= address.whole;
        address.all.into_values().try_for_each(|s| match self.all.get(s.key.name) {
            // The error names the key, not the address, since the key is what can be left out.
            Some(own) => Err(own.wrong(twice(&s, own))),
            None => self.say(s.key, s.text, &s.from),
        })
    }

    pub(crate) fn named_by_address(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Overrides these keys with those of a source with higher precedence. If that source names a store by its
    /// address, all store keys here are dropped: a password must never be sent to another store than the one it was
    /// meant for.
    pub(crate) fn under(mut self, stronger: Self) -> Self {
        if stronger.whole {
            self.all.retain(|_, s| s.key.about == About::Client);
        }
        for (one, other) in INSTEAD {
            for (said, instead) in [(one, other), (other, one)] {
                if stronger.all.contains_key(said) {
                    self.all.remove(instead);
                }
            }
        }
        self.all.extend(stronger.all);
        self.whole |= stronger.whole;
        self
    }

    /// Overrides keys with those of `settings`.
    #[cfg(feature = "redis")]
    pub(crate) fn replace(&mut self, settings: Self) {
        self.all.extend(settings.all);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn forget(&mut self, keys: &[&str]) {
        self.all.retain(|key, _| !keys.contains(key));
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        self.all.get(key)
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Setting> {
        debug_assert!(Key::named(key).is_some(), "{key} is in the table");
        self.all.remove(key)
    }

    pub(crate) fn duration(&mut self, key: &str, into: &mut Duration) -> Result<()> {
        if let Some(setting) = self.take(key) {
            *into = setting.duration()?;
        }
        Ok(())
    }

    /// Takes a duration that must be at least `least`.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn at_least(&mut self, key: &str, least: Duration, into: &mut Duration) -> Result<()> {
        let Some(setting) = self.take(key) else { return Ok(()) };
        *into = setting.duration()?;
        if *into < least {
            return Err(setting.wrong(format!("{:?} is too short: {least:?} at least", *into)));
        }
        Ok(())
    }

    /// In the order of [`KEYS`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Setting> {
        KEYS.iter().filter_map(|key| self.all.get(key.name))
    }

    /// Whether any key of the store is set.
    pub(crate) fn has_store(&self) -> bool {
        self.iter().any(|s| s.key.about != About::Client)
    }

    /// Takes the type of store, and checks that it has all keys that are set.
    pub(crate) fn kind(&mut self) -> Result<(Type, Setting)> {
        let names = || Type::ALL.iter().map(|t| t.name());
        let expected = || names().collect::<Vec<_>>().join(", ");
        let Some(setting) = self.take("type") else {
            let missing = format!("missing: expected one of {}, or a url", expected());
            let first = self.iter().find(|s| s.key.about != About::Client);
            return Err(match first {
                Some(said) => said.wrong(format!("says nothing without a type; type is {missing}")),
                None => Error::Config(format!("type is {missing}; {} sets it", variable("type"))),
            });
        };
        if WITHHELD.strip_suffix(':') == Some(&setting.text) {
            let why = "it contains a password, which `tenure run` keeps from the command that it runs: name the store \
                       anew, or let the outer tenure hand it on with --share-store";
            return Err(setting.from.wrong(keys::URL, why));
        }
        let Some(kind) = Type::named(&setting.text) else {
            return Err(setting.wrong(format!(
                "{:?} is unknown: expected one of {}{}",
                setting.text,
                expected(),
                hint(&setting.text, names())
            )));
        };
        match self.iter().find(|s| !s.key.of.contains(&kind)) {
            Some(stranger) => Err(stranger.wrong(format!(
                "{}, and type is {} ({})",
                stranger.key.owners(),
                kind.name(),
                setting.from
            ))),
            None => Ok((kind, setting)),
        }
    }

    /// Takes the client settings.
    pub(crate) fn settings(&mut self, mut settings: Settings) -> Result<Settings> {
        self.duration("lease", &mut settings.lease)?;
        self.duration("call_timeout", &mut settings.call_timeout)?;
        self.duration("outage", &mut settings.outage)?;
        self.duration("close_timeout", &mut settings.close_timeout)?;
        let mut poll = Duration::ZERO;
        self.duration("poll", &mut poll)?;
        if !poll.is_zero() {
            settings.poll = Some(poll);
        }
        let mut warn_held = Duration::ZERO;
        self.duration("warn_held", &mut warn_held)?;
        if !warn_held.is_zero() {
            settings.warn_held = Some(warn_held);
        }
        if let Some(deadlocks) = self.take("deadlocks") {
            settings.deadlocks = deadlocks.text.parse().map_err(|e| deadlocks.wrong(e))?;
        }
        if let Some(durability) = self.take("durability") {
            settings.durability = durability.text.parse().map_err(|e| durability.wrong(e))?;
        }
        Ok(settings)
    }
}

fn twice(before: &Setting, now: &Setting) -> String {
    if before.from == now.from {
        return "is given twice".to_owned();
    }
    format!("is given twice, here and by {}", before.from)
}
