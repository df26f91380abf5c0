//! Time as guards see it: a clock that keeps running while the machine is suspended, and one that tests control.
//!
//! `std::time::Instant` does not advance during suspend on Linux, so after a resume a guard would trust a lease that
//! the store ended long ago.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::time::Instant;

/// A point on a [`Clock`], in nanoseconds.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::backend::Time;
/// let sent = Time::from_nanos(1_000);
/// let answered = sent.after(Duration::from_nanos(500));
/// assert_eq!((answered.since(sent), answered.as_nanos()), (Duration::from_nanos(500), 1_500));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(u64);

impl Time {
    /// The latest possible time.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a time from nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this time plus `d`, at most [`Time::MAX`].
    #[must_use]
    pub fn after(self, d: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The time source of the core.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::backend::Clock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let clock = Clock::boot();
/// let begun = clock.now();
/// clock.sleep(Duration::from_millis(1)).await;
/// assert!(clock.is_boot() && clock.now().since(begun) >= Duration::from_millis(1));
///
/// // In a test, time passes when the test says so.
/// let clock = Clock::manual();
/// let due = clock.now().after(Duration::from_secs(3600));
/// clock.advance(Duration::from_secs(3600));
/// clock.sleep_until(due).await; // returns at once
///
/// // In a simulation, a clock can run fast; tokio's own may be paused.
/// let fast = Clock::simulated(1.01);
/// assert!(fast.now() <= fast.now());
/// # }
/// ```
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    Boot,
    Manual(Arc<watch::Sender<u64>>),
    /// The tokio clock since its first use, which a test may pause, multiplied by this rate.
    Simulated(f64, Arc<OnceLock<Instant>>),
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const RUNS_IN_SUSPEND: ClockId = ClockId::Boottime;
// On Apple systems this clock keeps running during sleep, unlike the one behind `Instant`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RUNS_IN_SUSPEND: ClockId = ClockId::Monotonic;

impl Clock {
    /// Returns the clock of the machine: the time since boot, including time in suspend.
    pub fn boot() -> Self {
        Self(Source::Boot)
    }

    /// Creates a clock that stays at one hour until [`Clock::advance`] moves it.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(watch::Sender::new(3_600_000_000_000))))
    }

    /// Returns the tokio clock, which a simulation may have paused, running `rate` times as fast. It begins at one hour
    /// with its first use, and can only be used inside of one tokio runtime.
    pub fn simulated(rate: f64) -> Self {
        Self(Source::Simulated(rate, Arc::default()))
    }

    /// Moves a manual clock and wakes the tasks that sleep on it.
    ///
    /// # Panics
    /// On the boot clock and on a simulated clock.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Boot => panic!("the boot clock cannot be moved"),
            Source::Simulated(..) => panic!("it moves by itself"),
            Source::Manual(now) => now.send_modify(|n| *n += by.as_nanos() as u64),
        }
    }

    /// Whether this is the boot clock of the machine.
    pub fn is_boot(&self) -> bool {
        matches!(self.0, Source::Boot)
    }

    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        match &self.0 {
            Source::Boot => {
                let t = clock_gettime(RUNS_IN_SUSPEND);
                Time(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
            }
            Source::Manual(now) => Time(*now.borrow()),
            Source::Simulated(rate, began) => {
                let now = Instant::now();
                let nanos = 3_600_000_000_000 + (now - *began.get_or_init(|| now)).as_nanos() as u64;
                Time((nanos as f64 * rate) as u64)
            }
        }
    }

    /// Sleeps until `at`. Timers do not advance during suspend, so a long sleep checks the clock once a second.
    pub async fn sleep_until(&self, at: Time) {
        match &self.0 {
            Source::Boot if at == Time::MAX => std::future::pending().await,
            Source::Boot => loop {
                let left = at.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(Duration::from_secs(1))).await;
            },
            Source::Simulated(rate, _) => {
                let left = at.since(self.now()).div_f64(*rate);
                tokio::time::sleep(left + Duration::from_nanos(1)).await;
            }
            Source::Manual(now) => {
                // The sender is alive as long as `self`, so waiting cannot fail.
                let _ = now.subscribe().wait_for(|n| *n >= at.0).await;
            }
        }
    }

    /// Sleeps for `d`.
    pub async fn sleep(&self, d: Duration) {
        self.sleep_until(self.now().after(d)).await;
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Boot => f.write_str("Clock::boot"),
            Source::Manual(now) => write!(f, "Clock::manual({} ns)", *now.borrow()),
            Source::Simulated(rate, _) => write!(f, "Clock::simulated({rate})"),
        }
    }
}

/// Returns the wall clock in microseconds since 1970: for fences and for display, never for leases.
///
/// ```
/// assert!(tenure_core::backend::wall_micros() > 1_700_000_000_000_000);
/// ```
pub fn wall_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

/// The safety margin for a store whose clock runs faster than ours: without it a hold could end there while it still
/// counts as valid here.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::backend::{Drift, Time};
/// let sent = Time::from_nanos(0);
/// let until = Drift::default().until(sent, Duration::from_secs(5));
/// assert_eq!(until.since(sent), Duration::from_millis(4_948)); // less 1 % and 2 ms
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Fraction of the lease that is subtracted.
    pub factor: f64,
    /// Constant that is subtracted in addition.
    pub plus: Duration,
}

impl Default for Drift {
    fn default() -> Self {
        Self { factor: 0.01, plus: Duration::from_millis(2) }
    }
}

impl Drift {
    /// Returns the end of validity of a lease whose request was sent at `sent`.
    pub fn until(&self, sent: Time, lease: Duration) -> Time {
        let margin = lease.mul_f64(self.factor) + self.plus;
        sent.after(lease.saturating_sub(margin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_taken_off_once() {
        let sent = Time::from_nanos(1_000);
        let until = Drift::default().until(sent, Duration::from_secs(5));
        assert_eq!(until.since(sent), Duration::from_millis(4948));
        assert_eq!(Drift::default().until(sent, Duration::from_millis(1)), sent);
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_its_sleepers() {
        let clock = Clock::manual();
        let (sleeper, at) = (clock.clone(), clock.now().after(Duration::from_secs(60)));
        let slept = tokio::spawn(async move { sleeper.sleep_until(at).await });
        clock.advance(Duration::from_secs(59));
        assert!(!slept.is_finished());
        clock.advance(Duration::from_secs(1));
        slept.await.unwrap();
    }
}
