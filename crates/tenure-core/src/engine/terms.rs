//! What one guard asks of its hold.

use std::time::Duration;

use crate::backend::Durability;
use crate::engine::Settings;

/// The options of one guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// How long the store has to keep it, whatever becomes of the guard.
    pub(crate) least: Duration,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) durability: Durability,
}

impl Terms {
    /// The terms of an operation on a count: it has neither a lease nor replicas to wait for.
    pub(crate) fn of_a_count(settings: &Settings) -> Self {
        let (least, durability) = (Duration::ZERO, Durability::Master);
        Self { lease: settings.lease, least, renewed: false, max_hold: None, durability }
    }
}
