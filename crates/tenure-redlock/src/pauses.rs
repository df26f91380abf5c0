//! Backoff after a lost round, by name.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::{Name, Time};

#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<HashMap<Name, Pause>>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Time,
    /// Several clients got some of the nodes each: the wake-up by their releases must not make them collide again.
    split: bool,
}

impl Pauses {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Pause>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn set(&self, name: &Name, until: Time, split: bool, now: Time) {
        let mut pauses = self.lock();
        if pauses.len() >= 1000 {
            pauses.retain(|_, pause| pause.until > now);
        }
        pauses.insert(name.clone(), Pause { until, split });
    }

    /// The rest of the backoff, if it is not over.
    pub(super) fn left(&self, name: &Name, now: Time) -> Option<Duration> {
        let until = self.lock().get(name)?.until;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// A majority of nodes has signalled a change. Returns whether that ends the backoff.
    pub(super) fn hear(&self, name: &Name, now: Time) -> bool {
        let mut pauses = self.lock();
        if pauses.get(name).is_some_and(|pause| pause.split && pause.until > now) {
            return false;
        }
        pauses.remove(name);
        true
    }

    pub(super) fn clear(&self, name: &Name) {
        let mut pauses = self.lock();
        if !pauses.is_empty() {
            pauses.remove(name);
        }
    }
}
