//! The read/write lock, for threads.

use super::Lock;
use super::thread::waits;
use crate::{Holder, Waiter};

/// A read/write lock. Readers share it, a writer has it alone; both are served in the order of asking.
///
/// A thread that holds the write lock may take the read lock under it, and release the write lock first (downgrade).
/// The other way round is an error at once.
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
    /// The half that is shared.
    pub fn read(&self) -> Lock {
        self.inner.read().into()
    }

    /// The half that excludes all.
    pub fn write(&self) -> Lock {
        self.inner.write().into()
    }

    waits! {
        /// Whether anybody holds either half, as the store says.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn is_locked(&self) -> bool;

        /// All who hold either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holders(&self) -> Vec<Holder>;

        /// The first who holds either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn holder(&self) -> Option<Holder>;

        /// Who waits for either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn waiters(&self) -> Vec<Waiter>;

        /// Takes it from all who hold either half.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn force_release(&self) -> bool;
    }
}
