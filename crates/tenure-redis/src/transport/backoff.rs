//! Exponential backoff with jitter.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    step: Duration,
    /// The earliest time of the next try.
    next: Option<Instant>,
}

impl Backoff {
    /// How long to wait before the next try.
    pub(crate) fn delay(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn failed(&mut self) {
        self.step = (self.step * 2).clamp(FIRST, LONGEST);
        self.next = Some(Instant::now() + jittered(self.step));
    }

    pub(crate) fn worked(&mut self) {
        *self = Self::default();
    }
}

/// Clamps so that `Instant + d` cannot overflow: some callers use `Duration::MAX` for "forever".
pub(crate) fn bounded(d: Duration) -> Duration {
    d.min(Duration::from_secs(100 * 365 * 86_400))
}

/// A random duration from half to one and a half of `d`.
pub(crate) fn jittered(d: Duration) -> Duration {
    d.mul_f64(0.5 + random())
}

/// A random number from 0 to 1. Each new `RandomState` has other keys.
pub(crate) fn random() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_up_to_a_bound_and_begins_anew() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.delay(), Duration::ZERO);
        let mut longest = Duration::ZERO;
        for _ in 0..12 {
            backoff.failed();
            longest = longest.max(backoff.delay());
        }
        assert!(longest > LONGEST / 3 && longest <= LONGEST * 3 / 2, "{longest:?}");
        backoff.worked();
        assert_eq!(backoff.delay(), Duration::ZERO);
    }
}
