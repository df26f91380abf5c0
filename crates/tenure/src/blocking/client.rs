//! The blocking client.

use std::sync::Arc;
use std::time::Duration;

use super::thread::forward_blocking;
use super::{CountingSemaphore, Election, Latch, Lock, Once, RwLock, Semaphore};
use crate::backend::Backend;
use crate::{ClientId, Finding, Settings, Snapshot};

/// A blocking client of a store, which makes all templates. Cheap to clone; clones are the same client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use tenure::blocking;
///
/// let client = tenure::connect("memory:").await?;
/// let threads = blocking::Client::new(client.clone());
/// let seen = tokio::task::spawn_blocking(move || {
///     let guard = threads.lock("orders/42").acquire()?;
///     let fence = guard.fence();
///     guard.release()?;
///     Ok::<_, tenure::Error>(fence)
/// });
/// let earlier = seen.await.expect("no panic")?;
/// assert!(client.lock("orders/42").acquire().await?.fence() > earlier);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self::new(client)
    }
}

impl Client {
    /// Makes a blocking client from an async one; both are the same client.
    pub fn new(client: crate::Client) -> Self {
        Self { inner: client }
    }

    /// The async client that this one wraps.
    pub fn async_client(&self) -> &crate::Client {
        &self.inner
    }

    /// A lock on `name`.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.inner.lock(name).into()
    }

    /// Work that is done at most once in each `period`, across all processes.
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        self.inner.once(name, period).into()
    }

    /// A read/write lock on `name`.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        self.inner.rwlock(name).into()
    }

    /// A semaphore with `limit` recorded, leased permits. The limit only applies if the store has none yet:
    /// [`Semaphore::resize`] changes it.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        self.inner.semaphore(name, limit).into()
    }

    /// A counting semaphore: a plain number without holders.
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        self.inner.counting_semaphore(name).into()
    }

    /// A count-down latch.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        self.inner.latch(name).into()
    }

    /// A leader election.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.inner.election(name).into()
    }

    forward_blocking! {
        /// Lists names in use that begin with `prefix`, sorted, at most `limit`.
        ///
        /// # Errors
        /// As [`tenure::Client::list`](crate::Client::list).
        fn list(&self, prefix: impl Into<String>, limit: usize) -> Vec<Snapshot>;

        /// Shows the state of one name; `None` when it is not in use.
        ///
        /// # Errors
        /// As [`tenure::Client::show`](crate::Client::show).
        fn show(&self, name: impl AsRef<str>) -> Option<Snapshot>;

        /// Checks whether the store is configured such that Tenure can keep its guarantees.
        ///
        /// # Errors
        /// As [`tenure::Client::diagnose`](crate::Client::diagnose).
        fn diagnose(&self) -> Vec<Finding>;

        /// Releases all holds, ends all waits in every thread, and refuses later calls.
        ///
        /// # Errors
        /// As [`tenure::Client::close`](crate::Client::close).
        fn close(&self) -> ();
    }

    /// The backend.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// The id under which this client's holds are recorded in the store.
    pub fn id(&self) -> ClientId {
        self.inner.id()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        self.inner.settings()
    }
}
