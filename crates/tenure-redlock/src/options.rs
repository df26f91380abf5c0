//! Options of a quorum.

use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::{Chance, Drift, Error, Result};

/// Options of a [`Quorum`](crate::Quorum). Start from `QuorumOptions::default()` and set fields.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuorumOptions {
    /// The number of rounds after which [`Lock::acquire`](tenure_core::Lock::acquire) gives up with [`Error::GaveUp`],
    /// although the lock is merely held by others; 0 for never, as on every other store. Default 0. A caller that gives
    /// a timeout waits for that long instead.
    pub tries: u32,
    /// The delay after a lost round: uniformly random within this range, and never shorter than the round took. Default
    /// 50 to 250 ms.
    pub retry_delay: RangeInclusive<Duration>,
    /// Timeout of each node; if `None`, a twentieth of the lease, within 5 to 400 ms.
    pub node_timeout: Option<Duration>,
    /// Subtracted from each lease, for clock drift between nodes. Default 1 % + 2 ms.
    pub drift: Drift,
    /// Longer leases are refused, because a restarted node must stay out of votes for longer than any lease. Default 60
    /// s.
    pub max_lease: Duration,
}

impl Default for QuorumOptions {
    fn default() -> Self {
        Self {
            tries: 0,
            retry_delay: Duration::from_millis(50)..=Duration::from_millis(250),
            node_timeout: None,
            drift: Drift::default(),
            max_lease: Duration::from_secs(60),
        }
    }
}

impl QuorumOptions {
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Config(format!("redlock: {what}")));
        let (from, to) = (self.retry_delay.start(), self.retry_delay.end());
        if from > to {
            return wrong(format!(
                "retry_delay is an empty range, from {from:?} to {to:?}: give the shorter one first"
            ));
        }
        if self.node_timeout.is_some_and(|t| t.is_zero()) {
            return wrong("node_timeout is 0, which leaves no time to answer".to_owned());
        }
        if !(0.0..0.5).contains(&self.drift.factor) {
            return wrong(format!("drift is {} of the lease: expected 0 to 0.5", self.drift.factor));
        }
        const LONGEST: Duration = Duration::from_secs(86_400);
        if self.drift.plus > LONGEST || self.node_timeout.is_some_and(|t| t > LONGEST) || *to > LONGEST {
            return wrong("drift, node_timeout and retry_delay may be at most a day".to_owned());
        }
        if self.max_lease < tenure_core::Claim::MIN_LEASE {
            let least = tenure_core::Claim::MIN_LEASE;
            return wrong(format!("max_lease is {:?}: expected at least {least:?}", self.max_lease));
        }
        Ok(())
    }

    pub(super) fn node_timeout(&self, lease: Duration) -> Duration {
        let part = (lease / 20).clamp(Duration::from_millis(5), Duration::from_millis(400));
        self.node_timeout.unwrap_or(part)
    }

    /// Returns the delay after a lost round that took `took`.
    pub(super) fn delay_after(&self, took: Duration, chance: &Chance) -> Duration {
        let (from, to) = (*self.retry_delay.start(), *self.retry_delay.end());
        (from + to.saturating_sub(from).mul_f64(chance.fraction())).max(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_node_has_a_twentieth_of_the_lease_within_bounds() {
        let mut options = QuorumOptions::default();
        for (lease, limit) in [(10, 5), (2_000, 100), (8_000, 400), (60_000, 400)] {
            assert_eq!(options.node_timeout(ms(lease)), ms(limit));
        }
        options.node_timeout = Some(ms(1_000));
        assert_eq!(options.node_timeout(ms(10)), ms(1_000));
    }

    #[test]
    fn a_delay_is_never_shorter_than_the_round() {
        let options = QuorumOptions::default();
        for _ in 0..1_000 {
            assert!((ms(50)..=ms(250)).contains(&options.delay_after(ms(3), &Chance::default())));
        }
        assert_eq!(options.delay_after(ms(900), &Chance::default()), ms(900));
    }

    #[test]
    fn invalid_options_are_refused() {
        let wrong: [fn(&mut QuorumOptions); 4] = [
            |o| o.retry_delay = ms(9)..=ms(1),
            |o| o.node_timeout = Some(Duration::ZERO),
            |o| o.drift.factor = 1.0,
            |o| o.max_lease = Duration::ZERO,
        ];
        for break_option in wrong {
            let mut options = QuorumOptions::default();
            assert!(options.check().is_ok());
            break_option(&mut options);
            assert!(options.check().unwrap_err().to_string().starts_with("redlock: "));
        }
    }
}
