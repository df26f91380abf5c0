//! The delay after a lost round, by name. No client of this process starts another round for a name before its delay is
//! over, unless a majority of nodes signals a change.
//!
//! The delays come from `retry_delay` and are counted on the clock of the quorum, which tests drive by hand, so core's
//! `Backoff` does not serve here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::{Name, Time};

/// The number of names at which delays that are over are removed.
const SWEEP_AT: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct RoundBackoffs(Mutex<HashMap<Name, RoundBackoff>>);

#[derive(Clone, Copy, Debug)]
struct RoundBackoff {
    until: Time,
    /// Whether several clients got some of the nodes each: the wake-up by their releases must not make them collide
    /// again.
    is_split: bool,
}

impl RoundBackoffs {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, RoundBackoff>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn set(&self, name: &Name, until: Time, is_split: bool, now: Time) {
        let mut backoffs = self.lock();
        if backoffs.len() >= SWEEP_AT {
            backoffs.retain(|_, backoff| backoff.until > now);
        }
        backoffs.insert(name.clone(), RoundBackoff { until, is_split });
    }

    /// Returns what is left of the delay, if it is not over.
    pub(super) fn remaining(&self, name: &Name, now: Time) -> Option<Duration> {
        let until = self.lock().get(name)?.until;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// Called when a majority of nodes has signalled a change. Returns whether that ends the delay.
    pub(super) fn end_on_change(&self, name: &Name, now: Time) -> bool {
        let mut backoffs = self.lock();
        if backoffs.get(name).is_some_and(|backoff| backoff.is_split && backoff.until > now) {
            return false;
        }
        backoffs.remove(name);
        true
    }

    pub(super) fn clear(&self, name: &Name) {
        let mut backoffs = self.lock();
        if !backoffs.is_empty() {
            backoffs.remove(name);
        }
    }
}
