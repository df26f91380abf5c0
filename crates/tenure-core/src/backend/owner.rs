//! Owners: identities that can re-enter what they hold. Never a thread or a task, because tasks move between threads
//! and the branches of `join!` share one task.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static AMBIENT: u64;
}

/// An identity that can re-enter its locks. Each acquire gets a fresh one unless the caller sets one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let me = tenure_core::Owner::new();
/// let lock = client.lock("orders/42").owner(&me);
/// let outer = lock.acquire().await?;
/// let inner = lock.acquire().await?; // the same owner enters again
/// assert_eq!(inner.reentry_count(), 2);
/// assert!(client.lock("orders/42").try_acquire().await?.is_none()); // anyone else does not
/// # drop((inner, outer)); Ok(()) }
/// ```
///
/// An owner is local to one client: two clients given the same owner exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Default for Owner {
    /// As [`Owner::new`]: each is a different one.
    fn default() -> Self {
        Self::new()
    }
}

impl Owner {
    /// Creates a new owner, different from all others.
    pub fn new() -> Self {
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// Makes this the owner of every acquire inside `work` that does not set another one. All branches inside,
    /// including those of `join!`, re-enter each other's locks; spawned tasks are not included.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let me = tenure_core::Owner::new();
    /// me.scope(async {
    ///     let outer = client.lock("orders/42").acquire().await?;
    ///     let inner = client.lock("orders/42").acquire().await?; // enters again
    ///     inner.release().await?;
    ///     outer.release().await
    /// })
    /// .await
    /// # }
    /// ```
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        AMBIENT.scope(self.0, work).await
    }

    pub(crate) fn from_id(id: u64) -> Self {
        Self(id)
    }

    pub(crate) fn id(&self) -> u64 {
        self.0
    }

    pub(crate) fn ambient() -> Option<u64> {
        AMBIENT.try_with(|owner| *owner).ok()
    }
}
