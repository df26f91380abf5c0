//! The client, for threads.

use std::sync::Arc;

use super::thread::waits;
use super::{CountingSemaphore, Election, Latch, Lock, RwLock, Semaphore};
use crate::backend::Backend;
use crate::{ClientId, Finding, Settings, Snapshot};

/// A connection to a store, and the maker of all templates, for threads. Cheap to clone; clones are the same client.
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
    /// The same client, for threads.
    pub fn new(client: crate::Client) -> Self {
        Self { inner: client }
    }

    /// The same client, for tasks.
    pub fn async_client(&self) -> &crate::Client {
        &self.inner
    }

    /// A lock on `name`.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.inner.lock(name).into()
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

    /// An election.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.inner.election(name).into()
    }

    waits! {
        /// Names in use that begin with `prefix`, in order, at most `limit`.
        ///
        /// # Errors
        /// As [`tenure::Client::list`](crate::Client::list).
        fn list(&self, prefix: impl Into<String>, limit: usize) -> Vec<Snapshot>;

        /// One name as it stands, `None` when it is not in use.
        ///
        /// # Errors
        /// As [`tenure::Client::show`](crate::Client::show).
        fn show(&self, name: impl AsRef<str>) -> Option<Snapshot>;

        /// Looks whether the store is set up such that promises can be kept.
        ///
        /// # Errors
        /// As [`tenure::Client::diagnose`](crate::Client::diagnose).
        fn diagnose(&self) -> Vec<Finding>;

        /// Releases all that is held, ends all waiting, in every thread, and refuses what comes after.
        ///
        /// # Errors
        /// As [`tenure::Client::close`](crate::Client::close).
        fn close(&self) -> ();
    }

    /// The store.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// The identity under which this client's holds stand in the store.
    pub fn id(&self) -> ClientId {
        self.inner.id()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        self.inner.settings()
    }
}
