//! The blocking semaphore with recorded permits.

use std::time::Duration;

use super::thread::forward_blocking;
use super::{Guard, Lock};
use crate::{HoldId, Holder, Result, Waiter};

/// A semaphore of recorded, leased permits. A thread may hold many: each acquire takes more of them.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # let client = tenure::blocking::connect("memory:")?;
/// let connections = client.semaphore("db", 10);
/// let three = connections.acquire_many(3)?;
/// let one = connections.acquire()?;
/// assert_eq!(connections.available()?, 6);
/// three.release()?;
/// # one.release() }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct Semaphore {
    inner: crate::Semaphore,
}

impl From<crate::Semaphore> for Semaphore {
    fn from(semaphore: crate::Semaphore) -> Self {
        Self { inner: semaphore }
    }
}

impl Semaphore {
    /// A template for `n` permits, to set options such as [`Lock::lease`].
    pub fn permits(&self, n: u32) -> Lock {
        self.inner.permits(n).into()
    }

    /// Acquires one permit, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard> {
        self.permits(1).acquire()
    }

    /// Acquires `n` permits, all at once, under one guard, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; `Config` when `n` is 0, or more than the size given or stored.
    #[track_caller]
    pub fn acquire_many(&self, n: u32) -> Result<Guard> {
        self.permits(n).acquire()
    }

    /// Acquires one permit if one is free.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.permits(1).try_acquire()
    }

    /// Acquires `n` permits if that many are free.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<Option<Guard>> {
        self.permits(n).try_acquire()
    }

    /// Acquires one permit, waiting for at most `limit`.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard>> {
        self.permits(1).try_acquire_for(limit)
    }

    forward_blocking! {
        /// The number of free permits: negative when the semaphore was made smaller than what is in use.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn available(&self) -> i64;

        /// Changes the size. Permits in use stay in use: after shrinking, none are granted until enough were given
        /// back.
        ///
        /// # Errors
        /// As [`tenure::Semaphore::resize`](crate::Semaphore::resize).
        fn resize(&self, size: u32) -> ();

        /// Deletes the stored size, so that the next size given applies. Permits in use stay in use.
        ///
        /// # Errors
        /// As [`tenure::Semaphore::resize`](crate::Semaphore::resize).
        fn forget_size(&self) -> bool;

        /// Releases the permits of a hold by its id, from any process. `false` when there are none.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn release_by(&self, id: HoldId) -> bool;

        /// Renews the permits of a hold by its id for `lease` from now; never shortens. `false` when there are none.
        ///
        /// # Errors
        /// As [`tenure::Semaphore::renew_by`](crate::Semaphore::renew_by).
        fn renew_by(&self, id: HoldId, lease: Duration) -> bool;

        /// Whether any permit is in use.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// All holders of permits.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// The first holder of permits.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// The waiters for permits: one per process.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Takes the permits from all holders.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;
    }
}
