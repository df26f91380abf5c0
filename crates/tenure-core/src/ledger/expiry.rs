//! Expiry times, each on an identified clock.
//!
//! A boot clock says nothing about a timestamp made under another boot, or by another kernel that shares the file. Such
//! a timestamp is not treated as expired: each clock grants one full term from its first look, once per renewal.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time of a store, as it passes it to the ledger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// The clock of `tick`: a boot id, or zero for a store with a single clock.
    pub clock: u128,
    /// Microseconds on that clock.
    pub tick: u64,
    /// Wall clock in microseconds since 1970; only for fences and for display.
    pub wall: u64,
}

/// The end of a term, separately for each clock that has looked at it.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::ledger::{Expiry, Now};
/// let term = Duration::from_secs(10);
/// let at = |clock, seconds: u64| Now { clock, tick: seconds * 1_000_000, wall: 0 };
/// let mut expiry = Expiry::new(at(1, 100), term);
/// expiry.extend(at(1, 105), term);
/// assert_eq!(expiry.left(at(1, 110)), Duration::from_secs(5));
/// assert!(expiry.is_over(at(1, 115)));
///
/// // After a restart of the machine, its clock has another id: one full term from the first look.
/// assert!(expiry.adopt(at(2, 3), term));
/// assert!(!expiry.is_over(at(2, 12)) && expiry.is_over(at(2, 13)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expiry {
    clock: u128,
    at: u64,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    others: Vec<(u128, u64)>,
}

impl Expiry {
    /// Creates a term that starts now.
    pub fn new(now: Now, term: Duration) -> Self {
        Self { clock: now.clock, at: end(now, term), others: Vec::new() }
    }

    /// Extends to a term from now, if that is later. Never shortens.
    pub fn extend(&mut self, now: Now, term: Duration) {
        let at = self.at(now).unwrap_or(0).max(end(now, term));
        *self = Self { clock: now.clock, at, others: Vec::new() };
    }

    /// Grants one full term on this clock to a timestamp made under other clocks. Returns whether that was necessary.
    pub fn adopt(&mut self, now: Now, term: Duration) -> bool {
        match self.at(now) {
            Some(at) if at <= end(now, term) => return false,
            // More time left than was ever granted: a clock with the same id was reset.
            Some(_) => *self = Self::new(now, term),
            None => self.others.push((now.clock, end(now, term))),
        }
        true
    }

    /// Whether it has ended. It has not if this clock has never seen it.
    pub fn is_over(&self, now: Now) -> bool {
        self.at(now).is_some_and(|at| at <= now.tick)
    }

    /// Returns the remaining time.
    pub fn left(&self, now: Now) -> Duration {
        Duration::from_micros(self.at(now).unwrap_or(0).saturating_sub(now.tick))
    }

    fn at(&self, now: Now) -> Option<u64> {
        self.end_on(now.clock)
    }

    /// Returns the end on this clock; `None` if the clock has never seen it.
    pub(super) fn end_on(&self, clock: u128) -> Option<u64> {
        if self.clock == clock {
            return Some(self.at);
        }
        self.others.iter().find(|(other, _)| *other == clock).map(|(_, at)| *at)
    }
}

fn end(now: Now, term: Duration) -> u64 {
    now.tick.saturating_add(u64::try_from(term.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u128 = 1;
    const B: u128 = 2;

    fn at(clock: u128, seconds: u64) -> Now {
        Now { clock, tick: seconds * 1_000_000, wall: 0 }
    }

    #[test]
    fn another_boot_gives_one_full_term_once() {
        let term = Duration::from_secs(10);
        let mut e = Expiry::new(at(A, 1000), term);
        assert!(e.adopt(at(B, 5), term), "the first look of another clock stamps it");
        assert!(!e.is_over(at(B, 14)));
        assert!(!e.adopt(at(B, 14), term), "the second does not");
        assert!(e.is_over(at(B, 15)));
        assert!(!e.adopt(at(A, 1001), term), "its own clock still reads its own stamp");
        assert!(!e.is_over(at(A, 1009)));
        assert!(e.is_over(at(A, 1010)));
    }

    #[test]
    fn two_kernels_looking_in_turns_do_not_keep_a_dead_hold_alive() {
        let term = Duration::from_secs(10);
        let mut e = Expiry::new(at(A, 0), term);
        for s in 0..10 {
            e.adopt(at(B, 100 + s), term);
            e.adopt(at(A, s), term);
        }
        assert!(e.is_over(at(A, 10)) && e.is_over(at(B, 110)));
    }

    #[test]
    fn a_clock_that_began_anew_gives_one_full_term() {
        let term = Duration::from_secs(10);
        let mut e = Expiry::new(at(A, 1_000_000), term);
        assert!(e.adopt(at(A, 5), term));
        assert!(!e.adopt(at(A, 14), term));
        assert!(!e.is_over(at(A, 14)) && e.is_over(at(A, 15)));
    }

    #[test]
    fn renewal_never_shortens() {
        let mut e = Expiry::new(at(A, 0), Duration::from_secs(30));
        e.extend(at(A, 1), Duration::from_secs(2));
        assert_eq!(e.left(at(A, 1)), Duration::from_secs(29));
    }
}
