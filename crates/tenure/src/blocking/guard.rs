//! The guard of a hold, bound to its thread.

use std::marker::PhantomData;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::time::timeout;

use super::thread::{block_on, forward_blocking};
use crate::{Fence, Held, HoldId, Lost, Name, Result};

/// What an acquire returns: the thread holds the name until the guard is released or dropped, which lets the next
/// waiter in.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let lock = client.lock("orders");
/// let guard = lock.acquire()?;
/// println!("{} is held as {} for {:?}", guard.name(), guard.id(), guard.remaining());
/// assert!(guard.held().is_held() && guard.is_held() && guard.lost_for(Duration::from_millis(10)).is_none());
/// guard.keep_at_least(Duration::from_millis(1))?; // although it is released earlier
///
/// let inner = lock.acquire()?; // this thread enters again
/// assert_eq!(inner.reentry_count(), 2);
/// inner.release()?;
///
/// let id = guard.detach(); // held on, without a guard, until its lease ends
/// lock.release_by(id)?;
///
/// let guard = lock.acquire()?;
/// client.close()?; // releases everything
/// println!("{}", guard.lost()); // waits until it is lost
/// # Ok(()) }
/// ```
///
/// It cannot be sent to another thread, since its thread is the owner and re-enters what it holds. Other threads may
/// borrow it, to check before each side effect whether it is still held:
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let guard = client.lock("orders").acquire()?;
/// std::thread::scope(|s| {
///     s.spawn(|| guard.ensure(Duration::from_secs(1)).map(|()| { /* write, with guard.fence() */ }));
/// });
/// guard.release()
/// # }
/// ```
///
/// ```compile_fail,E0277
/// # let client = tenure::blocking::connect("memory:").unwrap();
/// let guard = client.lock("orders").acquire().unwrap();
/// std::thread::spawn(move || guard.release());
/// ```
///
/// Dropping never blocks: the release runs in the background, and the next acquire of this client waits for it. A
/// leaked guard (`std::mem::forget`) stays held, even after its thread has ended, until its `max_hold` is over, it is
/// released by force, or the client is closed. Later work on the same pool thread would re-enter it.
#[derive(Debug)]
#[must_use = "dropping a guard releases what it holds"]
pub struct Guard {
    inner: crate::Guard,
    thread: NotSend,
}

/// Makes a type `Sync` but not `Send`, like the guards of the standard library.
pub(super) type NotSend = PhantomData<MutexGuard<'static, ()>>;

impl Guard {
    pub(super) fn new(guard: crate::Guard) -> Self {
        Self { inner: guard, thread: PhantomData }
    }

    /// Returns the name that is held.
    pub fn name(&self) -> &Name {
        self.inner.name()
    }

    /// Returns the id of the hold in the store, for [`Lock::renew_by`](super::Lock::renew_by) and
    /// [`Lock::release_by`](super::Lock::release_by). A hold whose id was asked for is not passed on among the tasks of a
    /// client: see [`Settings::local_handover`](crate::Settings::local_handover).
    pub fn id(&self) -> HoldId {
        self.inner.id()
    }

    /// Returns the id for a record of what happened, which nobody uses to name the hold: it may still be passed on.
    #[doc(hidden)]
    pub fn recorded_id(&self) -> HoldId {
        self.inner.recorded_id()
    }

    /// Returns the fencing token: larger than that of every earlier grant of this name. `None` where the store has none.
    /// Pass it along with each write, and let the protected resource refuse a smaller one.
    pub fn fence(&self) -> Option<Fence> {
        self.inner.fence()
    }

    /// Returns how long it is certain to be held, by this machine's own clock. Zero when lost.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Whether it is certain to be held now.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Returns how many guards this owner has on this hold.
    pub fn reentry_count(&self) -> u32 {
        self.inner.reentry_count()
    }

    /// Fails unless it is certain to be held for another `d`: call it before an operation that takes that long.
    ///
    /// # Errors
    /// `Lost` when it is lost already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.inner.ensure(d)
    }

    /// A view of the hold for code that does not own the guard.
    pub fn held(&self) -> Held {
        self.inner.held()
    }

    /// Keeps it held for at least `least`; see [`tenure::Guard::keep_at_least`](crate::Guard::keep_at_least).
    ///
    /// # Errors
    /// As [`tenure::Guard::keep_at_least`](crate::Guard::keep_at_least).
    pub fn keep_at_least(&self, least: Duration) -> Result<()> {
        self.inner.keep_at_least(least)
    }

    /// Waits until it is lost. Does not return while it is held; [`Guard::lost_for`] has a limit.
    #[track_caller]
    pub fn lost(&self) -> Lost {
        block_on(async { Ok(self.inner.lost().await) })
            .expect("the background thread was started by the acquire")
    }

    /// Waits for at most `limit` until it is lost, and returns how. `None` if it is still held.
    #[track_caller]
    pub fn lost_for(&self, limit: Duration) -> Option<Lost> {
        block_on(async { Ok(timeout(limit, self.inner.lost()).await.ok()) })
            .expect("the background thread was started by the acquire")
    }

    forward_blocking! {
        /// Waits until somebody asks the holder to release it.
        ///
        /// ```
        /// # fn main() -> tenure::Result<()> {
        /// # use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        /// # let client = tenure::blocking::connect("memory:")?;
        /// let guard = client.lock("export").acquire()?;
        /// let stop = AtomicBool::new(false);
        /// std::thread::scope(|s| {
        ///     s.spawn(|| match guard.revoked() {
        ///         Ok(()) => stop.store(true, Relaxed),
        ///         Err(error) => println!("{error}"), // only ZooKeeper has such requests
        ///     });
        ///     // … export, and end when `stop` is set …
        /// });
        /// # guard.release() }
        /// ```
        ///
        /// # Errors
        /// As [`tenure::Guard::revoked`](crate::Guard::revoked).
        fn revoked(&self) -> ();
    }

    /// Waits for at most `limit` until somebody asks the holder to release it. Returns whether anybody has.
    ///
    /// ```
    /// # fn main() -> tenure::Result<()> {
    /// # use std::time::Duration;
    /// # let client = tenure::blocking::connect("memory:")?;
    /// let guard = client.lock("export").acquire()?;
    /// match guard.revoked_for(Duration::from_secs(1)) {
    ///     Ok(true) => return guard.release(),
    ///     Ok(false) => println!("nobody asked"),
    ///     Err(error) => println!("{error}"), // only ZooKeeper has such requests
    /// }
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// As [`tenure::Guard::revoked`](crate::Guard::revoked).
    #[track_caller]
    pub fn revoked_for(&self, limit: Duration) -> Result<bool> {
        block_on(async {
            match timeout(limit, self.inner.revoked()).await {
                Ok(asked) => asked.map(|()| true),
                Err(_) => Ok(false),
            }
        })
    }

    /// Releases it, and fails if it was no longer held.
    ///
    /// # Errors
    /// As [`tenure::Guard::release`](crate::Guard::release).
    #[track_caller]
    pub fn release(self) -> Result<()> {
        block_on(self.inner.release())
    }

    /// Releases it after work was done under it.
    #[track_caller]
    pub(super) fn finish(self) -> Result<()> {
        block_on(self.inner.finish())
    }

    /// Gives the guard up without releasing: the hold is no longer renewed and ends with its lease, or when it is
    /// released by its id; see [`tenure::Guard::detach`](crate::Guard::detach).
    pub fn detach(self) -> HoldId {
        self.inner.detach()
    }
}
