//! Retries while another process holds the file: a few short ones, then core's backoff, up to a limit.

use std::time::{Duration, Instant};

use tenure_core::backend::{Background, Backoff};

/// A transaction takes some tens of microseconds, so a few retries this close to each other usually succeed.
const SHORT_DELAY: Duration = Duration::from_micros(50);
const SHORT_RETRIES: u32 = 8;
const FIRST_DELAY: Duration = Duration::from_micros(200);
const LONGEST_DELAY: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct BusyRetry {
    limit: Duration,
    began: Option<Instant>,
    short_retries: u32,
    backoff: Backoff,
}

/// The delay before a retry.
#[derive(Debug)]
enum Delay {
    /// Shorter than what it takes to suspend the task: the thread sleeps.
    Short(Duration),
    Long(Duration),
}

impl BusyRetry {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, began: None, short_retries: 0, backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY) }
    }

    /// The delay before the next retry; `None` once the limit has passed.
    fn next_delay(&mut self) -> Option<Delay> {
        let began = *self.began.get_or_insert_with(Instant::now);
        if began.elapsed() >= self.limit {
            return None;
        }
        if self.short_retries < SHORT_RETRIES {
            self.short_retries += 1;
            return Some(Delay::Short(SHORT_DELAY));
        }
        Some(Delay::Long(self.backoff.failed()))
    }

    /// Waits before the next retry, without blocking the thread for longer than a short delay. Returns false once the
    /// limit has passed.
    pub(crate) async fn wait(&mut self, background: &Background) -> bool {
        match self.next_delay() {
            None => return false,
            Some(Delay::Short(delay)) => std::thread::sleep(delay),
            Some(Delay::Long(delay)) => background.sleep(delay).await,
        }
        true
    }

    /// Waits before the next retry by blocking the thread. Returns false once the limit has passed.
    pub(crate) fn wait_blocking(&mut self) -> bool {
        match self.next_delay() {
            None => return false,
            Some(Delay::Short(delay) | Delay::Long(delay)) => std::thread::sleep(delay),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_with_short_delays_grows_to_the_longest_and_ends_at_the_limit() {
        let mut retry = BusyRetry::new(Duration::from_secs(60));
        for _ in 0..SHORT_RETRIES {
            assert!(matches!(retry.next_delay(), Some(Delay::Short(_))));
        }
        let mut last = Duration::ZERO;
        for _ in 0..32 {
            let Some(Delay::Long(delay)) = retry.next_delay() else { panic!("the limit is far away") };
            assert!(delay <= LONGEST_DELAY * 3 / 2);
            last = delay;
        }
        assert!(last >= LONGEST_DELAY / 2);
        assert!(BusyRetry::new(Duration::ZERO).next_delay().is_none());
    }
}
