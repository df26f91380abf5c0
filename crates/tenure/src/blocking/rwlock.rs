//! The blocking read/write lock.

use super::Lock;
use super::thread::forward_blocking;
use crate::{Holder, Waiter};

/// A read/write lock. Readers share it, a writer has it alone; both are granted in the order of requests.
///
/// A thread that holds the write lock may also take the read lock, and release the write lock first (downgrade). Going
/// from read to write is an error at once.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # let client = tenure::blocking::connect("memory:")?;
/// let stock = client.rwlock("stock");
/// let writer = stock.write().acquire()?;
/// let reader = stock.read().acquire()?; // under its own write lock
/// writer.release()?;
/// assert!(stock.write().acquire().is_err(), "a reader does not become a writer");
/// reader.release()
/// # }
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
    /// The read lock, which is shared.
    pub fn read(&self) -> Lock {
        self.inner.read().into()
    }

    /// The write lock, which is exclusive.
    pub fn write(&self) -> Lock {
        self.inner.write().into()
    }

    forward_blocking! {
        /// Whether anyone holds either half, according to the store.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// All holders of either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// The first holder of either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// The waiters for either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Takes the lock from all holders of either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;
    }
}
