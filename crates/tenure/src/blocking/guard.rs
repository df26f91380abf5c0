//! The proof of a hold, bound to the thread that has it.

use std::marker::PhantomData;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::time::timeout;

use super::thread::{wait, waits};
use crate::{Fence, HoldId, Lost, Name, Result};

/// Something held by a thread. Releasing or dropping it lets the next one in.
///
/// It cannot be sent to another thread, since the one that has it enters again what it holds. Other threads may
/// look at it, to ask before each effect whether it is still held:
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
/// Dropping never blocks: the release goes on in the background, and the next acquire of this client waits for it.
/// One that is leaked (`std::mem::forget`) stays held, also when its thread has ended, until its `max_hold` is over, it
/// is released by force, or the client is closed. Work that comes later to the same thread of a pool would enter it.
#[derive(Debug)]
#[must_use = "dropping a guard releases what it holds"]
pub struct Guard {
    inner: crate::Guard,
    thread: Bound,
}

/// Not `Send`, but `Sync`, as the guards of the standard library are.
pub(super) type Bound = PhantomData<MutexGuard<'static, ()>>;

impl Guard {
    pub(super) fn new(guard: crate::Guard) -> Self {
        Self { inner: guard, thread: PhantomData }
    }

    /// What is held.
    pub fn name(&self) -> &Name {
        self.inner.name()
    }

    /// The identity of the hold in the store. A permit can be renewed and released by it.
    pub fn id(&self) -> HoldId {
        self.inner.id()
    }

    /// The fencing token: larger than that of every earlier grant of this name. `None` where the store has none.
    /// Pass it along with each effect, and let what is protected refuse a smaller one.
    pub fn fence(&self) -> Option<Fence> {
        self.inner.fence()
    }

    /// For how long it is certain to be held, by this machine's own clock. Zero when lost.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Whether it is certain to be held at this moment.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// How many guards this owner has on this hold.
    pub fn holds(&self) -> u32 {
        self.inner.holds()
    }

    /// Fails unless it is certain to be held for another `d`: ask before an effect that takes that long.
    ///
    /// # Errors
    /// `Lost` when it is lost already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.inner.ensure(d)
    }

    /// Waits until it is lost. Never returns while it is held: see [`Guard::lost_for`].
    #[track_caller]
    pub fn lost(&self) -> Lost {
        wait(async { Ok(self.inner.lost().await) }).expect("the thread that it was acquired with")
    }

    /// Waits for at most `limit` until it is lost, and says how. `None` while it is held.
    #[track_caller]
    pub fn lost_for(&self, limit: Duration) -> Option<Lost> {
        wait(async { Ok(timeout(limit, self.inner.lost()).await.ok()) })
            .expect("the thread that it was acquired with")
    }

    waits! {
        /// Waits until somebody asks the holder to give way.
        ///
        /// # Errors
        /// As [`tenure::Guard::revoked`](crate::Guard::revoked).
        fn revoked(&self) -> ();
    }

    /// Waits for at most `limit` until somebody asks the holder to give way. Whether somebody did.
    ///
    /// # Errors
    /// As [`tenure::Guard::revoked`](crate::Guard::revoked).
    #[track_caller]
    pub fn revoked_for(&self, limit: Duration) -> Result<bool> {
        wait(async {
            match timeout(limit, self.inner.revoked()).await {
                Ok(asked) => asked.map(|()| true),
                Err(_) => Ok(false),
            }
        })
    }

    /// Releases it, and says whether it was still held.
    ///
    /// # Errors
    /// As [`tenure::Guard::release`](crate::Guard::release).
    #[track_caller]
    pub fn release(self) -> Result<()> {
        wait(self.inner.release())
    }

    /// Gives the guard up without releasing: the hold is not renewed any more and ends with its lease, or when it is
    /// released by its id; see [`tenure::Guard::detach`](crate::Guard::detach).
    pub fn detach(self) -> HoldId {
        self.inner.detach()
    }
}
