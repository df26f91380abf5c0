//! What is told to one of those who wait for each other.

use std::fmt;
use std::sync::Arc;

use crate::backend::{HoldId, Name, Owner};

/// Owners that would wait for each other for ever. Nothing was changed: what they hold is still held.
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
    /// The name that was asked for.
    pub name: Name,
    /// Who waits for whom. The first is who was told; each waits for the next, and the last for the first.
    pub cycle: Vec<Link>,
}

/// One of those who wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Who.
    pub owner: Owner,
    /// What it holds, and the one before it in the circle waits for.
    pub holds: Name,
    /// That hold.
    pub hold: HoldId,
    /// What was said with it, for people.
    pub note: Option<Arc<str>>,
    /// What it waits for.
    pub waits_for: Name,
}

impl Deadlock {
    /// The circle in words.
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
