//! The error for a waiter that is part of a deadlock.

use std::fmt;
use std::sync::Arc;

use crate::backend::{HoldId, Name, Owner};

/// Owners that would wait for each other forever. Nothing was changed: what they hold is still held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{backend}: waiting for {name} would never end: {}; release what is held before waiting, take names in one order, \
     or take them together with multi",
    self.circle()
)]
#[non_exhaustive]
pub struct Deadlock {
    /// Scheme of the store.
    pub backend: &'static str,
    /// The name that was requested.
    pub name: Name,
    /// The cycle of waiting owners. The first one gets this error; each waits for the next, and the last for the first.
    pub cycle: Vec<Link>,
}

/// One owner in a deadlock cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The waiting owner.
    pub owner: Owner,
    /// The name that it holds and that the previous owner in the cycle waits for.
    pub holds: Name,
    /// The hold on that name.
    pub hold: HoldId,
    /// The note of that hold.
    pub note: Option<Arc<str>>,
    /// The name that it waits for.
    pub waits_for: Name,
}

impl Deadlock {
    /// Formats the cycle as text.
    pub(crate) fn circle(&self) -> String {
        let links: Vec<_> = self.cycle.iter().map(ToString::to_string).collect();
        links.join(", ")
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, holds, note, waits_for, .. } = self;
        write!(f, "owner {}", owner.id())?;
        if let Some(note) = note {
            write!(f, " ({note})")?;
        }
        write!(f, " holds {holds} and waits for {waits_for}")
    }
}
