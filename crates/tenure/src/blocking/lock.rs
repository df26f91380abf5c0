//! The blocking lock.

use std::sync::Arc;
use std::time::Duration;

use super::Guard;
use super::thread::{block_on, forward_blocking, forward_options};
use crate::{Durability, Family, HeldBy, Holder, Name, Owner, Result, Waiter};

/// A lock, or what is acquired like one: a half of a read/write lock, permits of a semaphore. The thread is its owner.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let lock = client.lock("orders/42").note("nightly run").max_hold(Duration::from_secs(600));
/// match lock.try_acquire_for(Duration::from_secs(3))? {
///     Some(guard) => guard.release()?,
///     None => println!("busy: {:?}", lock.holder()?),
/// }
///
/// let ten_seconds = client.lock("orders/42").fair().lease(Duration::from_secs(10)); // never renewed
/// let guard = ten_seconds.at_least(Duration::from_secs(1)).acquire()?; // waits
/// let another = client.lock("orders/42").owner(&tenure::Owner::new()).durability(tenure::Durability::Master);
/// assert!(another.try_acquire()?.is_none()); // does not wait
/// # guard.release() }
/// ```
///
/// Tools can see who holds it, and take it away:
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// # let guard = client.lock("orders/42").note("order service").acquire()?;
/// let lock = client.lock("orders/42");
/// if lock.is_locked()? {
///     println!("the {} {} has {} waiters", lock.family(), lock.name()?, lock.waiters()?.len());
/// }
/// for holder in lock.holders()? {
///     if holder.note.as_deref() == Some("order service") {
///         lock.release_from(&holder)?;
///     }
/// }
/// assert!(!lock.force_release()?); // nobody is left
/// assert!(guard.release().unwrap_err().is_lost());
///
/// let id = lock.acquire()?.detach(); // to be kept alive and released by its id
/// assert!(lock.clone().lease(Duration::from_secs(60)).renew_by(id)?);
/// assert!(lock.release_by(id)?);
///
/// for error in [lock.revoke().err(), lock.token("pipeline-7").try_acquire().err()] {
///     assert!(matches!(error, Some(tenure::Error::Unsupported { .. }))); // in memory; other stores have them
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct Lock {
    inner: crate::Lock,
}

impl From<crate::Lock> for Lock {
    fn from(lock: crate::Lock) -> Self {
        Self { inner: lock }
    }
}

impl Lock {
    forward_options! {
        /// Holds it for `lease`, without renewal. By default the lease of the client's settings applies, and is renewed
        /// until the guard is gone.
        fn lease(self, lease: Duration);

        /// Serves waiters in FIFO order, across all processes. Read/write locks always do.
        fn fair(self);

        /// Acquires for this owner instead of the thread. Threads with the same owner re-enter each other's holds.
        fn owner(self, owner: &Owner);

        /// Ends a hold after this long, even if its holder is alive: the guard becomes lost and the name is freed.
        fn max_hold(self, limit: Duration);

        /// Keeps it held for at least this long; see [`tenure::Lock::at_least`](crate::Lock::at_least).
        fn at_least(self, least: Duration);

        /// Sets how many copies must have stored a grant before it counts; see
        /// [`tenure::Lock::durability`](crate::Lock::durability).
        fn durability(self, durability: Durability);

        /// Sets the token that identifies the hold in the store, instead of a random one; see
        /// [`tenure::Lock::token`](crate::Lock::token).
        fn token(self, token: impl Into<Arc<str>>);

        /// Sets a note that is shown to people with the holder.
        fn note(self, note: impl Into<Arc<str>>);
    }

    /// Acquires it, waiting as long as others hold it.
    ///
    /// # Errors
    /// As [`tenure::Lock::acquire`](crate::Lock::acquire); `Closed` when the client is closed meanwhile.
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard> {
        block_on(self.inner.acquire()).map(Guard::new)
    }

    /// Acquires it if it is free; `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_acquire())?.map(Guard::new))
    }

    /// Acquires it, waiting for at most `limit`; `None` if others held it until then.
    ///
    /// # Errors
    /// As [`tenure::Lock::try_acquire_for`](crate::Lock::try_acquire_for).
    #[track_caller]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_acquire_for(limit))?.map(Guard::new))
    }

    forward_blocking! {
        /// Whether anybody holds it, according to the store.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// Returns the holder according to the store; the first one if there are several.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// Returns all holders according to the store.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// Returns the waiters that the store records; for a plain lock that is one per process.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Asks the holder to release it, and returns whether anybody was asked. Nobody is forced to release.
        ///
        /// # Errors
        /// As [`tenure::Lock::revoke`](crate::Lock::revoke).
        fn revoke(&self) -> bool;

        /// Takes it from all current holders, and returns whether there were any. A holder notices at its next renewal
        /// or release; the next grant has a larger fence.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;

        /// Takes it from one of the holders returned by [`Lock::holders`], and returns whether it still was a holder.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn release_from(&self, holder: &Holder) -> bool;

        /// Releases a hold by its id or its token, from any process, and returns whether there was one.
        ///
        /// # Errors
        /// As [`tenure::Lock::release_by`](crate::Lock::release_by).
        fn release_by(&self, by: impl Into<HeldBy>) -> bool;

        /// Extends a hold by its id or its token, from any process, to the lease of this template from now, and returns
        /// whether there was one.
        ///
        /// # Errors
        /// As [`tenure::Lock::renew_by`](crate::Lock::renew_by).
        fn renew_by(&self, by: impl Into<HeldBy>) -> bool;
    }

    /// Returns the name, if it is valid.
    ///
    /// # Errors
    /// `Config` if it is not.
    pub fn name(&self) -> Result<&Name> {
        self.inner.name()
    }

    /// Returns what it is: a lock, a fair lock, a read/write lock or permits of a semaphore.
    pub fn family(&self) -> Family {
        self.inner.family()
    }

    pub(super) fn into_async(self) -> crate::Lock {
        self.inner
    }
}
