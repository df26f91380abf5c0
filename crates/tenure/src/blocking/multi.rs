//! Several locks, all or nothing: the blocking API.

use std::marker::PhantomData;
use std::time::Duration;

use tokio::time::timeout;

use super::Lock;
use super::guard::NotSend;
use super::thread::block_on;
use crate::{Fence, Lost, Name, Result};

/// Combines several locks into one: any kinds, from one client or several. No common order is needed.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # let client = tenure::blocking::connect("memory:")?;
/// let both = tenure::blocking::multi([client.lock("from"), client.lock("to")]);
/// let guard = both.acquire()?;
/// assert_eq!(guard.fences().len(), 2);
/// guard.release()
/// # }
/// ```
pub fn multi(locks: impl IntoIterator<Item = Lock>) -> MultiLock {
    MultiLock { inner: crate::multi(locks.into_iter().map(Lock::into_async)) }
}

/// Several locks that are acquired together, all or none; made by [`multi`].
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let both = tenure::blocking::multi([client.lock("from"), client.rwlock("to").write()]);
/// let guard = both.acquire()?;
/// std::thread::scope(|s| {
///     s.spawn(|| assert!(both.try_acquire().unwrap().is_none())); // another thread does not get them
///     s.spawn(|| assert!(both.try_acquire_for(Duration::from_millis(10)).unwrap().is_none()));
/// });
/// # guard.release() }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct MultiLock {
    inner: crate::MultiLock,
}

impl MultiLock {
    /// Acquires all, waiting as long as others hold one of them.
    ///
    /// # Errors
    /// As [`tenure::MultiLock::acquire`](crate::MultiLock::acquire).
    #[track_caller]
    pub fn acquire(&self) -> Result<MultiGuard> {
        block_on(self.inner.acquire()).map(MultiGuard::new)
    }

    /// Acquires all if all are free; `None` if one is not.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        Ok(block_on(self.inner.try_acquire())?.map(MultiGuard::new))
    }

    /// Acquires all, waiting for at most `limit`; `None` if they were not all free by then.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    #[track_caller]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<MultiGuard>> {
        Ok(block_on(self.inner.try_acquire_for(limit))?.map(MultiGuard::new))
    }
}

/// The guard of a [`MultiLock`]: several holds as one, bound to the thread as [`Guard`](super::Guard) is.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let guard = tenure::blocking::multi([client.lock("from"), client.lock("to")]).acquire()?;
/// assert!(guard.is_held() && guard.remaining() > Duration::from_secs(5));
/// if guard.lost_for(Duration::from_millis(10)).is_none() {
///     println!("both are held");
/// }
/// client.close()?; // releases everything
/// println!("{}", guard.lost()); // waits until one of them is lost
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping a guard releases what it holds"]
pub struct MultiGuard {
    inner: crate::MultiGuard,
    thread: NotSend,
}

impl MultiGuard {
    fn new(guard: crate::MultiGuard) -> Self {
        Self { inner: guard, thread: PhantomData }
    }

    /// Returns the fence of each lock.
    pub fn fences(&self) -> Vec<(&Name, Option<Fence>)> {
        self.inner.fences()
    }

    /// Whether all are certain to be held now.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Returns how long all are certain to be held.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Waits until one of them is lost.
    #[track_caller]
    pub fn lost(&self) -> Lost {
        block_on(async { Ok(self.inner.lost().await) })
            .expect("the background thread was started by the acquire")
    }

    /// Waits for at most `limit` until one of them is lost. `None` if all are still held.
    #[track_caller]
    pub fn lost_for(&self, limit: Duration) -> Option<Lost> {
        block_on(async { Ok(timeout(limit, self.inner.lost()).await.ok()) })
            .expect("the background thread was started by the acquire")
    }

    /// Releases all, even if one fails.
    ///
    /// # Errors
    /// As [`tenure::MultiGuard::release`](crate::MultiGuard::release).
    #[track_caller]
    pub fn release(self) -> Result<()> {
        block_on(self.inner.release())
    }
}
