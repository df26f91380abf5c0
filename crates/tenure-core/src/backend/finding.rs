//! Findings of a diagnosis of a store: good and bad ones, each with advice.

use std::fmt;

use serde::Serialize;

/// The result of one check.
///
/// ```
/// # use tenure_core::{Finding, Level};
/// let findings = [
///     Finding::ok("persistence", "every write is synced"),
///     Finding::unknown("eviction", "CONFIG GET is forbidden", "allow it, or check maxmemory-policy"),
///     Finding::warning("clock", "it is 3 s behind", "run NTP").at("cache-1:6379"),
///     Finding::error("rights", "EVAL is forbidden", "grant +eval to this user"),
/// ];
/// assert_eq!(findings.iter().map(|finding| finding.level).max(), Some(Level::Error));
/// assert_eq!(findings[2].to_string(), "warning: clock at cache-1:6379: it is 3 s behind (run NTP)");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How severe it is.
    pub level: Level,
    /// Which check this is, as a stable identifier: `eviction`, `persistence`, `clock`.
    pub check: &'static str,
    /// The server that it is about, where a store has servers.
    pub place: Option<String>,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// No problem.
    Ok,
    /// The check was not possible, for instance because the server forbids it.
    Unknown,
    /// It works, but a guarantee may break if something else fails.
    Warning,
    /// It does not work.
    Error,
}

impl Finding {
    fn new(level: Level, check: &'static str, what: impl Into<String>, advice: Option<String>) -> Self {
        Self { level, check, place: None, what: what.into(), advice }
    }

    /// Creates the finding of a check without problems.
    pub fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, what, None)
    }

    /// Creates the finding of a check that was not possible.
    pub fn unknown(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Unknown, check, what, Some(advice.into()))
    }

    /// Creates the finding of a check that found a risk.
    pub fn warning(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Warning, check, what, Some(advice.into()))
    }

    /// Creates the finding of a check that found something broken.
    pub fn error(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Error, check, what, Some(advice.into()))
    }

    /// Sets the server that the finding is about.
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
