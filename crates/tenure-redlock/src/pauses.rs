//! How long after a lost round the next one may begin, by name.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::{Name, Time};

#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<HashMap<Name, Pause>>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Time,
    /// Several got some of the nodes: who hears that they let go must not run into them again.
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

    /// For how long there is to be no round.
    pub(super) fn left(&self, name: &Name, now: Time) -> Option<Duration> {
        let until = self.lock().get(name)?.until;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// Most nodes have said that something changed. Whether that ends the pause.
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
