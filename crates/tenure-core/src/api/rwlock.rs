//! The read/write lock: two halves, each a template of its own.

use crate::api::{Client, Lock};
use crate::backend::{Holder, Kind, Name, Result, Waiter};

/// A read/write lock. Readers share it, a writer has it alone. Both are served in the order of asking, so that
/// neither starves the other.
///
/// An owner that holds the write lock may take the read lock under it, and release the write lock first (downgrade).
/// The other way round is an error at once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let stock = client.rwlock("stock");
/// let (a, b) = (stock.read().acquire().await?, stock.read().acquire().await?);
/// assert!(stock.write().try_acquire().await?.is_none());
/// a.release().await?;
/// b.release().await?;
/// let writer = stock.write().acquire().await?;
/// # writer.release().await }
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

    /// The half that is shared.
    pub fn read(&self) -> Lock {
        Lock::new(&self.client, self.name.clone(), Kind::Read { under_write: None })
    }

    /// The half that excludes all.
    pub fn write(&self) -> Lock {
        Lock::new(&self.client, self.name.clone(), Kind::Write)
    }

    /// Whether anybody holds either half, as the store says.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn is_locked(&self) -> Result<bool> {
        self.write().is_locked().await
    }

    /// All who hold either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        self.write().holders().await
    }

    /// The first who holds either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holder(&self) -> Result<Option<Holder>> {
        self.write().holder().await
    }

    /// Who waits for either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn waiters(&self) -> Result<Vec<Waiter>> {
        self.write().waiters().await
    }

    /// Takes it from all who hold either half.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn force_release(&self) -> Result<bool> {
        self.write().force_release().await
    }
}
