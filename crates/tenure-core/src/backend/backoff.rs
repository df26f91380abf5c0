//! Exponential backoff with jitter, for everything that is tried again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Chance;

/// The delay before the next try: it doubles with every failure in a row, up to a longest one, and is jittered so that
/// many clients of a store that comes back do not all return at the same moment.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::backend::{Backoff, Chance, jittered, random};
/// let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
/// assert!(backoff.failed() <= Duration::from_millis(15)); // sleep for that long, then try again
/// assert!(backoff.failed_by(&Chance::seeded(7)) <= Duration::from_millis(30)); // twice as long, repeatable
/// assert!(backoff.delay() <= Duration::from_millis(30)); // what is left of it now
/// backoff.worked();
/// assert_eq!(backoff.delay(), Duration::ZERO);
///
/// assert!(jittered(Duration::from_secs(2)) >= Duration::from_secs(1));
/// assert!((0.0..1.0).contains(&random()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    step: Duration,
    /// The earliest time of the next try.
    next: Option<Instant>,
}

impl Backoff {
    /// Creates a backoff without a failure yet.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, step: Duration::ZERO, next: None }
    }

    /// Records a failure. Returns the delay before the next try.
    pub fn failed(&mut self) -> Duration {
        self.failed_by(&Chance::default())
    }

    /// Records a failure, with the jitter drawn from `chance`. Returns the delay before the next try.
    pub fn failed_by(&mut self, chance: &Chance) -> Duration {
        self.step = (self.step * 2).clamp(self.first, self.longest);
        let delay = chance.jittered(self.step);
        self.next = Some(Instant::now() + delay);
        delay
    }

    /// Records a success: the next try needs no delay, and the next failure starts with the first delay.
    pub fn worked(&mut self) {
        *self = Self::new(self.first, self.longest);
    }

    /// Returns what is left of the delay.
    pub fn delay(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}

/// Returns a random duration from half to one and a half of `d`.
pub fn jittered(d: Duration) -> Duration {
    d.mul_f64(0.5 + random())
}

/// Returns a random number from 0 to 1, where nothing depends on its quality.
pub fn random() -> f64 {
    // Each new `RandomState` has other keys.
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_up_to_a_bound_and_begins_anew() {
        let longest = Duration::from_secs(1);
        let mut backoff = Backoff::new(Duration::from_millis(10), longest);
        assert_eq!(backoff.delay(), Duration::ZERO);
        assert!(backoff.failed() <= Duration::from_millis(15));
        let last = (0..12).map(|_| backoff.failed()).last().unwrap();
        assert!(last >= longest / 2 && last <= longest * 3 / 2, "{last:?}");
        assert!(backoff.delay() <= last);
        backoff.worked();
        assert_eq!(backoff.delay(), Duration::ZERO);
        assert!(backoff.failed() <= Duration::from_millis(15));
    }
}
