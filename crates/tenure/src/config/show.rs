//! Shows a configuration without secrets, and with the origin of each key.

use std::fmt;

use super::Config;
use crate::config::keys::ValueType;
use crate::config::raw::MASK;

/// One key of a [`Config`], as it may be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The key, such as `nodes`.
    pub key: &'static str,
    /// Its value; `***` instead of a password. Nodes are separated by commas.
    pub value: String,
    /// Its origin: a file with the line, a variable, or `address`.
    pub from: String,
}

impl Entry {
    /// Whether the value is or contains a password, which is masked.
    pub fn is_masked(&self) -> bool {
        self.value.contains(MASK)
    }
}

impl Config {
    /// Returns all keys that are set; the others have their defaults.
    ///
    /// ```
    /// # fn main() -> tenure::Result<()> {
    /// let config = tenure::Config::default().url("redis://:secret@cache-1?lease=10s")?;
    /// let password = config.entries().into_iter().find(|entry| entry.key == "password").unwrap();
    /// assert_eq!((password.value.as_str(), password.from.as_str()), ("***", "address"));
    /// assert!(password.is_masked());
    /// # Ok(()) }
    /// ```
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |s: &crate::config::raw::Setting| Entry {
            key: s.key.name,
            value: s.masked(),
            from: s.origin.to_string(),
        };
        self.raw.iter().map(entry).collect()
    }
}

/// TOML, with the origin of each line as a comment.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |s: &crate::config::raw::Setting| {
            let value = s.masked();
            // TOML has numbers that are written in one way only: 007 and +7 must be in quotes.
            let is_bare = match s.key.value_type {
                ValueType::Number => value.parse::<u64>().is_ok_and(|number| number.to_string() == value),
                ValueType::Bool => matches!(&*value, "true" | "false"),
                _ => false,
            };
            format!("{} = {}", s.key.name, if is_bare { value } else { quoted(&value) })
        };
        let lines: Vec<_> = self.raw.iter().map(|s| (line(s), &s.origin)).collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        lines.iter().try_for_each(|(line, from)| writeln!(f, "{line:<width$}  # {from}"))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Config");
        for entry in self.entries() {
            shown.field(entry.key, &entry.value);
        }
        shown.finish()
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
