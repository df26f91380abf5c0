//! The read/write lock: two halves, each with its own template.

use crate::api::{Client, Lock};
use crate::backend::{Holder, Kind, Name, Result, Waiter};

/// A read/write lock. Readers share it, a writer is exclusive. Both are served in FIFO order, so that neither starves
/// the other.
///
/// An owner that holds the write lock may also take the read lock, and then release the write lock (downgrade). An
/// upgrade from read to write fails at once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let stock = client.rwlock("stock");
/// let (a, b) = (stock.read().acquire().await?, stock.read().acquire().await?);
/// assert!(stock.write().try_acquire().await?.is_none());
/// a.release().await?;
/// b.release().await?;
///
/// let writer = stock.write().note("recount").acquire().await?;
/// assert!(stock.is_locked().await?);
/// let holder = stock.holder().await?.expect("the writer");
/// assert_eq!(holder.note.as_deref(), Some("recount"));
/// assert_eq!((stock.holders().await?.len(), stock.waiters().await?.len()), (1, 0));
/// stock.force_release().await?; // takes it from the writer
/// # drop(writer); Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct RwLock {
    client: Client,
    name: Result<Name>,
}

impl RwLock {
    pub(crate) fn new(client: &Client, name: Result<Name>) -> Self {
        Self { client: client.clone(), name }
    }

    /// Returns the read lock: the half that readers share.
    pub fn read(&self) -> Lock {
        Lock::new(&self.client, self.name.clone(), Kind::Read { under_write: None })
    }

    /// Returns the write lock: the exclusive half.
    pub fn write(&self) -> Lock {
        Lock::new(&self.client, self.name.clone(), Kind::Write)
    }

    /// Whether anybody holds either half, according to the store.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn is_locked(&self) -> Result<bool> {
        self.write().is_locked().await
    }

    /// Returns all holders of either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        self.write().holders().await
    }

    /// Returns the first holder of either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holder(&self) -> Result<Option<Holder>> {
        self.write().holder().await
    }

    /// Returns the waiters for either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn waiters(&self) -> Result<Vec<Waiter>> {
        self.write().waiters().await
    }

    /// Takes it from all holders of either half. Returns whether there were any.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn force_release(&self) -> Result<bool> {
        self.write().force_release().await
    }
}
