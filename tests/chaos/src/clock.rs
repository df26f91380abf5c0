//! The clock of all histories.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The boot clock, which all processes of this machine share, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A duration in the unit of histories.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
