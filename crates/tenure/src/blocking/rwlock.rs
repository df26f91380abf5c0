//! The blocking read/write lock.

use super::Lock;
use super::thread::forward_blocking;
use crate::{Holder, Waiter};

/// A read/write lock. Readers share it, a writer is exclusive. Both are served in FIFO order, so that neither starves
/// the other.
///
/// A thread that holds the write lock may also take the read lock, and then release the write lock (downgrade). An
/// upgrade from read to write fails at once.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # let client = tenure::blocking::connect("memory:")?;
/// let stock = client.rwlock("stock");
/// let writer = stock.write().acquire()?;
/// let reader = stock.read().acquire()?; // under its own write lock
/// writer.release()?;
/// assert!(stock.write().acquire().is_err(), "a reader does not become a writer");
///
/// assert!(stock.is_locked()?);
/// assert_eq!(stock.holder()?.and_then(|holder| holder.hold_id()), Some(reader.id()));
/// assert_eq!((stock.holders()?.len(), stock.waiters()?.len()), (1, 0));
/// stock.force_release()?; // takes it from the reader
/// # drop(reader); Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct RwLock {
    inner: crate::RwLock,
}

impl From<crate::RwLock> for RwLock {
    fn from(lock: crate::RwLock) -> Self {
        Self { inner: lock }
    }
}

impl RwLock {
    /// Returns the read lock: the half that readers share.
    pub fn read(&self) -> Lock {
        self.inner.read().into()
    }

    /// Returns the write lock: the exclusive half.
    pub fn write(&self) -> Lock {
        self.inner.write().into()
    }

    forward_blocking! {
        /// Whether anybody holds either half, according to the store.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// Returns all holders of either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// Returns the first holder of either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// Returns the waiters for either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Takes it from all holders of either half. Returns whether there were any.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;
    }
}
