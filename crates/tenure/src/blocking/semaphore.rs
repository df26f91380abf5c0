//! The blocking semaphore with recorded permits.

use std::time::Duration;

use super::thread::forward_blocking;
use super::{Guard, Lock};
use crate::{HoldId, Holder, Result, Waiter};

/// A semaphore whose permits are recorded and leased, so that those of a dead holder are freed. A thread can hold
/// several: each acquire takes more of them.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let connections = client.semaphore("db", 10);
/// let three = connections.acquire_many(3)?;
/// let one = connections.acquire()?;
/// assert_eq!(connections.available()?, 6);
/// three.release()?;
///
/// assert!(connections.try_acquire_many(10)?.is_none()); // does not wait
/// let (two, three) = (connections.try_acquire()?, connections.try_acquire_for(Duration::from_secs(3))?);
/// let leased = connections.permits(2).lease(Duration::from_secs(60)).acquire()?; // with options of a lock
/// # one.release() }
/// ```
///
/// Tools can see who has permits, keep them alive, take them away, and change how many there are:
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let connections = client.semaphore("db", 10);
/// let id = connections.acquire_many(3)?.detach();
/// assert!(connections.is_locked()?);
/// assert_eq!(connections.holder()?.and_then(|holder| holder.hold_id()), Some(id));
/// assert_eq!((connections.holders()?.len(), connections.waiters()?.len()), (1, 0));
/// assert!(connections.renew_by(id, Duration::from_secs(60))?);
/// assert!(connections.release_by(id)?);
/// assert!(!connections.force_release()?); // nobody is left
///
/// connections.resize(20)?;
/// assert_eq!(connections.available()?, 20);
/// connections.forget_size()?; // the next one who gives a size sets it
/// # Ok(()) }
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
    /// Returns a template for `n` permits, for options such as [`Lock::lease`].
    pub fn permits(&self, n: u32) -> Lock {
        self.inner.permits(n).into()
    }

    /// Acquires one permit, waiting as long as none is free.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard> {
        self.permits(1).acquire()
    }

    /// Acquires `n` permits, all at once, with one guard, waiting as long as too few are free.
    ///
    /// # Errors
    /// As [`tenure::Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_many(&self, n: u32) -> Result<Guard> {
        self.permits(n).acquire()
    }

    /// Acquires one permit if one is free; `None` if not.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.permits(1).try_acquire()
    }

    /// Acquires `n` permits if that many are free; `None` if not.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<Option<Guard>> {
        self.permits(n).try_acquire()
    }

    /// Acquires one permit, waiting for at most `limit`; `None` if none was free by then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard>> {
        self.permits(1).try_acquire_for(limit)
    }

    forward_blocking! {
        /// Returns how many permits are free: negative if the size was reduced below the number in use.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn available(&self) -> i64;

        /// Changes the size. Permits in use stay in use: after a reduction no more are granted until enough have been
        /// released.
        ///
        /// # Errors
        /// As [`tenure::Semaphore::resize`](crate::Semaphore::resize).
        fn resize(&self, size: u32) -> ();

        /// Removes the stored size, so that the next size given applies. Permits in use stay in use. Returns whether a
        /// size was stored.
        ///
        /// # Errors
        /// As [`tenure::Semaphore::resize`](crate::Semaphore::resize).
        fn forget_size(&self) -> bool;

        /// Releases the permits of a hold by its id, from any process. Returns whether there were any.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn release_by(&self, id: HoldId) -> bool;

        /// Extends the permits of a hold by its id, from any process, to `lease` from now; never shortens. Returns
        /// whether there were any.
        ///
        /// # Errors
        /// As [`tenure::Semaphore::renew_by`](crate::Semaphore::renew_by).
        fn renew_by(&self, id: HoldId, lease: Duration) -> bool;

        /// Whether any permit is in use.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// Returns the holders of permits.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// Returns the first holder of permits.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// Returns the waiters for permits: one per process.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Takes the permits from all holders. Returns whether there were any.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;
    }
}
