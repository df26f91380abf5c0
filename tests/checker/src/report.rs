//! What a check finds.

use std::fmt;

use crate::joined::OpId;

/// The checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The log contradicts itself: the recorder is wrong.
    Log,
    /// Holds that exclude each other overlap, or more permits are given out than there are.
    Overlap,
    /// Fences do not grow, or two holds have the same.
    Fence,
    /// A resource accepts a fence that is too old.
    Register,
    /// A guard says held after it was lost or released, or for longer than its lease.
    Revived,
    /// A free name stands while somebody waits for it.
    Stall,
    /// Somebody who came later is served first.
    Overtaken,
    /// Something is granted, or answered busy, while the store cannot answer.
    Unavailable,
    /// A call ends before its limit, or long after it.
    Limit,
    /// A latch opens early, or counts wrongly.
    Latch,
    /// An observer sees terms go back, or one that is not there.
    Term,
    /// Something is left in the store by those who ended.
    Leftover,
    /// Something panicked.
    Panic,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "log",
            Self::Overlap => "overlap",
            Self::Fence => "fence",
            Self::Register => "register",
            Self::Revived => "revived",
            Self::Stall => "stall",
            Self::Overtaken => "overtaken",
            Self::Unavailable => "unavailable",
            Self::Limit => "limit",
            Self::Latch => "latch",
            Self::Term => "term",
            Self::Leftover => "leftover",
            Self::Panic => "panic",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What found it.
    pub check: Check,
    /// The name; empty if it is about none.
    pub name: String,
    /// From when to when, by the boot clock.
    pub span: (u64, u64),
    /// The calls that show it.
    pub ops: Vec<OpId>,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.check)?;
        if !self.name.is_empty() {
            write!(f, " of {}", self.name)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// The longest time that a free name stood while a worker that ran waited for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// How long, in nanoseconds.
    pub nanos: u64,
    /// The name.
    pub name: String,
}

impl Stall {
    pub(crate) fn or(&mut self, nanos: u64, name: &str) {
        if nanos > self.nanos {
            *self = Self { nanos, name: name.to_owned() };
        }
    }
}

/// What was found in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All events.
    pub events: usize,
    /// All calls.
    pub operations: usize,
    /// Acquires that were granted.
    pub grants: usize,
    /// Acquires that found the name busy, or timed out.
    pub refused: usize,
    /// Calls that failed, certainly without an effect.
    pub failed: usize,
    /// Calls of which nobody knows whether they were executed: answered so, or never.
    pub unknown: usize,
    /// Overlaps where exclusion is not promised.
    pub overlaps: Vec<Violation>,
    /// Writes to resources that were computed from an older value than the one they replaced.
    pub lost_updates: usize,
    /// The longest stall while a fault was active.
    pub stall_under_faults: Stall,
    /// The longest stall while none was, after the last one or before the next.
    pub stall_after_healing: Stall,
    /// How long a call with a time limit went on after it.
    pub overrun: u64,
    /// Entries in the store that those who were killed left behind.
    pub leftovers: usize,
    /// What is broken.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// The first violation that this check found.
    pub fn of(&self, check: Check) -> Option<&Violation> {
        self.violations.iter().find(|violation| violation.check == check)
    }

    /// The names of the columns of [`Report::row`].
    pub const COLUMNS: [&'static str; 9] = [
        "operations",
        "grants",
        "unknown",
        "violations",
        "overlaps not promised against",
        "lost updates",
        "stall under faults",
        "stall after healing",
        "left by the dead",
    ];

    /// Its numbers, for a table with a line for each history.
    pub fn row(&self) -> [String; 9] {
        let stall = |stall: &Stall| match stall.nanos {
            0 => "–".to_owned(),
            nanos => seconds(nanos),
        };
        [
            self.operations.to_string(),
            self.grants.to_string(),
            self.unknown.to_string(),
            self.violations.len().to_string(),
            self.overlaps.len().to_string(),
            self.lost_updates.to_string(),
            stall(&self.stall_under_faults),
            stall(&self.stall_after_healing),
            self.leftovers.to_string(),
        ]
    }
}

/// A time for people.
pub(crate) fn seconds(nanos: u64) -> String {
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.0} µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}
