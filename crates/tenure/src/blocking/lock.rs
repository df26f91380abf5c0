//! The lock, for threads.

use std::sync::Arc;
use std::time::Duration;

use super::Guard;
use super::thread::{options, wait, waits};
use crate::{Durability, Family, HeldBy, Holder, Name, Owner, Result, Waiter};

/// A lock, or anything that is taken like one: a half of a read/write lock, permits. The thread is its owner.
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
    options! {
        /// Holds for `lease` and is never renewed. Without one the client's default lease applies, renewed until the
        /// guard is gone.
        fn lease(self, lease: Duration);

        /// Serves in the order of asking, across all processes. Read/write locks always do.
        fn fair(self);

        /// Acquires for this owner instead of the thread. Threads that name the same one enter each other's holds.
        fn owner(self, owner: &Owner);

        /// Ends a hold after this long, however alive its holder is: the guard turns lost and the name is freed.
        fn max_hold(self, limit: Duration);

        /// How many copies must have a grant before it counts; see
        /// [`tenure::Lock::durability`](crate::Lock::durability).
        fn durability(self, durability: Durability);

        /// Stands in the store by this word instead of a random one; see [`tenure::Lock::token`](crate::Lock::token).
        fn token(self, token: impl Into<Arc<str>>);

        /// A word for people, shown with the holder.
        fn note(self, note: impl Into<Arc<str>>);
    }

    /// Waits until it is held.
    ///
    /// # Errors
    /// As [`tenure::Lock::acquire`](crate::Lock::acquire); `Closed` when the client is closed meanwhile.
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard> {
        wait(self.inner.acquire()).map(Guard::new)
    }

    /// Takes it if it is free. `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(wait(self.inner.try_acquire())?.map(Guard::new))
    }

    /// Waits for at most `limit`. `None` if it was not free by then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    #[track_caller]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(wait(self.inner.try_acquire_for(limit))?.map(Guard::new))
    }

    waits! {
        /// Whether anybody holds it, as the store says.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// Who holds it, as the store says: the first if there are several.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// All who hold it, as the store says.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// Who waits for it, as far as the store records it: of a plain lock one per process.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Asks whoever holds it to give way, and says whether anybody was asked.
        ///
        /// # Errors
        /// As [`tenure::Lock::revoke`](crate::Lock::revoke).
        fn revoke(&self) -> bool;

        /// Takes it from whoever holds it now, and says whether anybody did. The holder learns it at its next renewal
        /// or at its release; the next grant has a larger fence.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;

        /// Takes it from one of those whom [`Lock::holders`] has shown, and says whether it still was one.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn release_from(&self, holder: &Holder) -> bool;

        /// Releases a hold by its id or its token, from anywhere, and says whether there was one.
        ///
        /// # Errors
        /// As [`tenure::Lock::release_by`](crate::Lock::release_by).
        fn release_by(&self, by: impl Into<HeldBy>) -> bool;

        /// Extends a hold by its id or its token, from anywhere, and says whether there was one.
        ///
        /// # Errors
        /// As [`tenure::Lock::renew_by`](crate::Lock::renew_by).
        fn renew_by(&self, by: impl Into<HeldBy>) -> bool;
    }

    /// The name, if it is a good one.
    ///
    /// # Errors
    /// `Config` if not.
    pub fn name(&self) -> Result<&Name> {
        self.inner.name()
    }

    /// What it is.
    pub fn family(&self) -> Family {
        self.inner.family()
    }

    pub(super) fn into_async(self) -> crate::Lock {
        self.inner
    }
}
