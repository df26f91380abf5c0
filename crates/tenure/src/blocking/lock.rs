//! The blocking lock.

use std::sync::Arc;
use std::time::Duration;

use super::Guard;
use super::thread::{block_on, forward_blocking, forward_options};
use crate::{Durability, Family, HeldBy, Holder, Name, Owner, Result, Waiter};

/// A lock, or anything that is acquired like one: a half of a read/write lock, permits. The thread is its owner.
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
        /// Holds for `lease` and is never renewed. Without one the client's default lease applies, renewed until the
        /// guard is gone.
        fn lease(self, lease: Duration);

        /// Grants in the order of requests, across all processes. Read/write locks always do.
        fn fair(self);

        /// Acquires for this owner instead of the thread. Threads that use the same owner re-enter each other's holds.
        fn owner(self, owner: &Owner);

        /// Ends a hold after this long, even if its holder is alive: the guard turns lost and the name is freed.
        fn max_hold(self, limit: Duration);

        /// Keeps it held for at least this long; see [`tenure::Lock::at_least`](crate::Lock::at_least).
        fn at_least(self, least: Duration);

        /// How many replicas must have a grant before it counts; see
        /// [`tenure::Lock::durability`](crate::Lock::durability).
        fn durability(self, durability: Durability);

        /// Sets the token that identifies the hold in the store, instead of a random one; see
        /// [`tenure::Lock::token`](crate::Lock::token).
        fn token(self, token: impl Into<Arc<str>>);

        /// A note for people, shown with the holder.
        fn note(self, note: impl Into<Arc<str>>);
    }

    /// Acquires the lock, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`tenure::Lock::acquire`](crate::Lock::acquire); `Closed` when the client is closed meanwhile.
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard> {
        block_on(self.inner.acquire()).map(Guard::new)
    }

    /// Acquires the lock if it is free; `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_acquire())?.map(Guard::new))
    }

    /// Acquires the lock, waiting for at most `limit`; `None` if it was not free by then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_acquire_for(limit))?.map(Guard::new))
    }

    forward_blocking! {
        /// Whether anyone holds it, according to the store.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// The holder according to the store; the first one if there are several.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// All holders according to the store.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// The waiters that the store records; for a plain lock, one per process.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Asks the holder to give the lock up. Returns whether there was a holder to ask.
        ///
        /// # Errors
        /// As [`tenure::Lock::revoke`](crate::Lock::revoke).
        fn revoke(&self) -> bool;

        /// Takes the lock from its current holder. Returns whether there was one. The holder notices at its next
        /// renewal or at its release; the next grant has a larger fence.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;

        /// Takes the lock from one of the holders that [`Lock::holders`] returned. Returns whether it still held it.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn release_from(&self, holder: &Holder) -> bool;

        /// Releases a hold by its id or its token, from any process. Returns whether there was one.
        ///
        /// # Errors
        /// As [`tenure::Lock::release_by`](crate::Lock::release_by).
        fn release_by(&self, by: impl Into<HeldBy>) -> bool;

        /// Extends a hold by its id or its token, from any process. Returns whether there was one.
        ///
        /// # Errors
        /// As [`tenure::Lock::renew_by`](crate::Lock::renew_by).
        fn renew_by(&self, by: impl Into<HeldBy>) -> bool;
    }

    /// The name, if it is valid.
    ///
    /// # Errors
    /// `Config` if not.
    pub fn name(&self) -> Result<&Name> {
        self.inner.name()
    }

    /// The family: what sort of lock it is.
    pub fn family(&self) -> Family {
        self.inner.family()
    }

    pub(super) fn into_async(self) -> crate::Lock {
        self.inner
    }
}
