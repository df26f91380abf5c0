//! What a look at a store finds: good and bad news, each with what to do about it.

use std::fmt;

use serde::Serialize;

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, in a word that stays the same: `eviction`, `persistence`, `clock`.
    pub check: &'static str,
    /// Which server it is about, where a store has servers.
    pub place: Option<String>,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing to worry about.
    Ok,
    /// It could not be looked at, as when the server forbids it.
    Unknown,
    /// It works, and a promise may break when something else goes wrong.
    Warning,
    /// It does not work.
    Error,
}

impl Finding {
    fn new(level: Level, check: &'static str, what: impl Into<String>, advice: Option<String>) -> Self {
        Self { level, check, place: None, what: what.into(), advice }
    }

    /// Good news.
    pub fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, what, None)
    }

    /// What could not be looked at.
    pub fn unknown(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Unknown, check, what, Some(advice.into()))
    }

    /// A risk.
    pub fn warning(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Warning, check, what, Some(advice.into()))
    }

    /// What does not work.
    pub fn error(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Error, check, what, Some(advice.into()))
    }

    /// The same about this server.
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = Some(place.to_string());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.level, self.check)?;
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        write!(f, ": {}", self.what)?;
        match &self.advice {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_for_a_log() {
        let warning = Finding::warning("clock", "it is 3 s behind", "run NTP").at("h:1");
        assert_eq!(warning.to_string(), "warning: clock at h:1: it is 3 s behind (run NTP)");
        assert_eq!(Finding::ok("clock", "right").to_string(), "ok: clock: right");
        assert!(Level::Ok < Level::Unknown && Level::Warning < Level::Error);
    }
}
