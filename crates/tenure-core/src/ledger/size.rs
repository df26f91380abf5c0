//! The size of a semaphore. The first claim stores its limit. A size that came with a claim is forgotten when nobody has
//! used the semaphore for a day, since the next claim brings it again; one that was set explicitly stays.

use std::time::Duration;

use super::{Expiry, Ledger, Now};

/// How long the size of a semaphore that nobody uses is remembered.
pub(super) const IDLE: Duration = Duration::from_secs(86_400);

/// How much of that may pass before a use is written down, where claims and releases change the ledger for nothing else.
const UNWRITTEN: Duration = Duration::from_secs(3600);

impl Ledger {
    /// Counts the time without use from now on.
    pub(super) fn stay(&mut self, now: Now) {
        if let Some(idle) = &mut self.idle {
            idle.extend(now, IDLE);
        }
    }

    /// Forgets the size if nobody has used the semaphore for long. Returns whether anything has changed.
    pub(super) fn prune_size(&mut self, now: Now) -> bool {
        let Some(idle) = &mut self.idle else { return false };
        if !self.holders.is_empty() || !self.waiters.is_empty() {
            return false;
        }
        let dirty = idle.adopt(now, IDLE);
        if !idle.is_over(now) {
            return dirty;
        }
        (self.size, self.idle) = (None, None);
        true
    }

    /// Returns the size for a claim with this `limit`, which is stored if there is none. For stores that keep claims
    /// outside of the ledger, and so tell it whether permits are `in_use`: `None` if that is not known yet, but decides
    /// whether the stored size is forgotten. Then the answer is `None`, and the store asks again when it knows.
    ///
    /// ```
    /// # use tenure_core::ledger::{Ledger, Now};
    /// let at = |hours: u64| Now { clock: 0, tick: hours * 3_600_000_000, wall: 0 };
    /// let mut ledger = Ledger::default();
    /// assert_eq!(ledger.size_for(2, None, at(0)), Some(2));
    /// assert_eq!(ledger.size_for(9, None, at(23)), Some(2)); // used in time, and now again
    /// assert_eq!(ledger.size_for(9, None, at(47)), None); // a day later
    /// assert_eq!(ledger.clone().size_for(9, Some(true), at(47)), Some(2)); // held all the time
    /// assert_eq!(ledger.size_for(9, Some(false), at(47)), Some(9));
    /// ```
    pub fn size_for(&mut self, limit: u32, in_use: Option<bool>, now: Now) -> Option<u32> {
        let is_over = self.idle.as_ref().is_some_and(|idle| idle.is_over(now));
        match self.size {
            Some(_) if is_over && in_use.is_none() => return None,
            Some(_) if !is_over || in_use == Some(true) => {
                let is_due = |idle: &&mut Expiry| idle.left(now) < IDLE - UNWRITTEN;
                if let Some(idle) = self.idle.as_mut().filter(is_due) {
                    idle.extend(now, IDLE);
                    self.effects.dirty = true;
                }
            }
            _ => {
                (self.size, self.idle) = (Some(limit), Some(Expiry::new(now, IDLE)));
                self.effects.dirty = true;
            }
        }
        self.size
    }
}
