//! Backoff while another process holds the file: a few short retries, then growing delays, up to a limit.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use tenure_core::backend::Background;

/// A transaction takes some tens of microseconds, so short retries usually succeed.
const SHORT: Duration = Duration::from_micros(50);
const SHORT_TRIES: u32 = 8;
const FIRST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Pause {
    limit: Duration,
    began: Option<Instant>,
    tries: u32,
    next: Duration,
}

impl Pause {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, began: None, tries: 0, next: FIRST }
    }

    /// The delay before the next retry, and whether it is a short one; `None` once the limit has passed.
    fn step(&mut self) -> Option<(Duration, bool)> {
        let began = *self.began.get_or_insert_with(Instant::now);
        if began.elapsed() >= self.limit {
            return None;
        }
        self.tries += 1;
        if self.tries <= SHORT_TRIES {
            return Some((SHORT, true));
        }
        let step = self.next.mul_f64(0.5 + random());
        self.next = (self.next * 3 / 2).min(LONGEST);
        Some((step, false))
    }

    /// Sleeps in the task, or in the thread for a short delay. Returns whether to retry.
    pub(crate) async fn wait(&mut self, background: &Background) -> bool {
        match self.step() {
            None => return false,
            Some((step, true)) => std::thread::sleep(step),
            Some((step, false)) => background.sleep(step).await,
        }
        true
    }

    /// Sleeps in the thread. Returns whether to retry.
    pub(crate) fn wait_here(&mut self) -> bool {
        let step = self.step();
        if let Some((step, _)) = step {
            std::thread::sleep(step);
        }
        step.is_some()
    }
}

/// Between 0 and 1. Each new `RandomState` has different keys.
fn random() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_longest_and_ends_at_the_limit() {
        let mut pause = Pause::new(Duration::from_secs(60));
        let steps: Vec<_> = (0..40).map_while(|_| pause.step()).collect();
        assert!(steps.iter().take(8).all(|(_, short)| *short));
        assert!(steps.iter().skip(8).all(|(step, short)| !short && *step <= LONGEST * 3 / 2));
        assert!(steps[39].0 >= LONGEST / 2);
        assert!(Pause::new(Duration::ZERO).step().is_none());
    }
}
