//! Work under a hold in one call: acquire, run, release.

use std::sync::Arc;
use std::time::Duration;

use super::thread::{block_on, forward_options};
use super::{Election, Guard, Lock};
use crate::{Error, Held, Result};

impl Lock {
    /// Acquires it, runs `work`, and releases it. Waits as [`Lock::acquire`] does.
    ///
    /// ```
    /// # fn main() -> tenure::Result<()> {
    /// # let client = tenure::blocking::connect("memory:")?;
    /// let fence = client.lock("orders/42").run(|held| {
    ///     held.ensure(std::time::Duration::from_secs(5))?; // before a write that takes that long
    ///     Ok::<_, tenure::Error>(held.fence())
    /// })?;
    /// assert!(fence.is_some());
    ///
    /// let lock = client.lock("orders/43");
    /// assert_eq!(lock.try_run(|_| Ok::<_, tenure::Error>(1))?, Some(1));
    /// assert_eq!(lock.try_run_for(std::time::Duration::from_secs(3), |_| Ok::<_, tenure::Error>(2))?, Some(2));
    /// # Ok(()) }
    /// ```
    ///
    /// A thread cannot be cancelled: `work` runs to its end even if the lock is lost meanwhile. When the release gets no
    /// answer, the result of `work` counts: it was held until then, and is free when its lease ends.
    ///
    /// # Errors
    /// The error of `work`; as [`Lock::acquire`]; `Lost` if it was lost before it was released.
    #[track_caller]
    pub fn run<T, E: From<Error>>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        run(self.acquire()?, work)
    }

    /// Runs `work` if it is free, as [`Lock::run`]; `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::run`].
    #[track_caller]
    pub fn try_run<T, E: From<Error>>(
        &self,
        work: impl FnOnce(Held) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.try_acquire()?.map(|guard| run(guard, work)).transpose()
    }

    /// Runs `work` if it is free within `wait`, as [`Lock::run`]; `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::run`].
    #[track_caller]
    pub fn try_run_for<T, E: From<Error>>(
        &self,
        wait: Duration,
        work: impl FnOnce(Held) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.try_acquire_for(wait)?.map(|guard| run(guard, work)).transpose()
    }
}

impl Election {
    /// Campaigns, runs `work`, and resigns; see [`Lock::run`].
    ///
    /// # Errors
    /// As [`Lock::run`] and [`Election::campaign`].
    #[track_caller]
    pub fn run<T, E: From<Error>>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        run(self.campaign()?, work)
    }
}

/// Work that is done at most once in a period, across all processes; see [`tenure::Once`](crate::Once).
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let report = client.once("report/daily", Duration::from_secs(23 * 3600)).note("replica 1"); // every midnight
/// let report = report.at_most(Duration::from_secs(3600)).at_least(Duration::from_secs(60));
/// assert_eq!(report.run(|_| Ok::<_, tenure::Error>("sent"))?, Some("sent"));
/// assert_eq!(report.run(|_| Ok::<_, tenure::Error>("sent"))?, None);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is run"]
pub struct Once {
    inner: crate::Once,
}

impl From<crate::Once> for Once {
    fn from(once: crate::Once) -> Self {
        Self { inner: once }
    }
}

impl Once {
    forward_options! {
        /// See [`tenure::Once::at_most`](crate::Once::at_most). The work is not stopped, but fails with `Lost`.
        fn at_most(self, limit: Duration);

        /// See [`tenure::Once::at_least`](crate::Once::at_least).
        fn at_least(self, least: Duration);

        /// Sets a note that is shown to people with the holder.
        fn note(self, note: impl Into<Arc<str>>);
    }

    /// Runs `work`, unless it was done in this period or another owner does it now: then the result is `None`.
    ///
    /// # Errors
    /// As [`tenure::Once::run`](crate::Once::run).
    #[track_caller]
    pub fn run<T, E: From<Error>>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<Option<T>, E> {
        let Some(guard) = block_on(self.inner.try_begin())?.map(Guard::new) else { return Ok(None) };
        let result = work(guard.held());
        if result.is_ok() {
            guard.keep_at_least(self.inner.period())?;
        }
        finish(guard, result).map(Some)
    }
}

fn run<T, E: From<Error>>(guard: Guard, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, E> {
    let result = work(guard.held());
    finish(guard, result)
}

fn finish<T, E: From<Error>>(guard: Guard, result: Result<T, E>) -> Result<T, E> {
    let released = guard.finish();
    let value = result?;
    released?;
    Ok(value)
}
