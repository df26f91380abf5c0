//! The blocking client.

use std::sync::Arc;
use std::time::Duration;

use super::thread::forward_blocking;
use super::{CountingSemaphore, Election, Latch, Lock, Once, RwLock, Semaphore};
use crate::backend::Backend;
use crate::{ClientId, Finding, Settings, Snapshot};

/// A blocking client of a store. Cheap to clone; clones share one client.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// let client = tenure::blocking::connect("memory:")?;
/// let guard = client.lock("orders/42").acquire()?;
/// // … nobody else is here …
/// guard.release()?;
///
/// let writer = client.rwlock("prices").write().acquire()?;
/// let connection = client.semaphore("db", 10).acquire()?; // one of ten permits
/// client.counting_semaphore("seats").try_set(200)?;
/// client.latch("ready").try_set_count(3)?;
/// let leadership = client.election("cron").campaign()?;
/// let sent = client.once("report", std::time::Duration::from_secs(23 * 3600)).run(|_| Ok::<_, tenure::Error>(()))?;
/// assert!(sent.is_some()); // once a night
///
/// for used in client.list("", 100)? {
///     println!("{}: a {} with {} holders", used.name, used.family, used.holders.len());
/// }
/// let idle = client.list_all("", 100)?.into_iter().filter(tenure::Snapshot::is_idle);
/// assert_eq!(idle.count(), 0); // no semaphore of which only the size is stored
/// let cron = client.show("cron")?.expect("it is in use");
/// assert_eq!(cron.holders[0].hold_id().map(|id| id.client), Some(client.id()));
/// for finding in client.diagnose()? {
///     println!("{} with a lease of {:?}: {finding}", client.backend().info().scheme, client.settings().lease);
/// }
/// client.close() // releases everything that is still held
/// # }
/// ```
///
/// Async code and threads can share a client:
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

    /// Returns the async client that this one wraps.
    ///
    /// ```
    /// # fn main() -> tenure::Result<()> {
    /// let client = tenure::blocking::connect("memory:")?;
    /// assert_eq!(client.async_client().id(), client.id());
    /// # Ok(()) }
    /// ```
    pub fn async_client(&self) -> &crate::Client {
        &self.inner
    }

    /// Returns a lock on `name`.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.inner.lock(name).into()
    }

    /// Work that is done at most once in each `period`, across all processes.
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        self.inner.once(name, period).into()
    }

    /// Returns a read/write lock on `name`.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        self.inner.rwlock(name).into()
    }

    /// Returns a semaphore on `name` with `limit` permits, each of which is recorded and leased. The limit only applies
    /// if the store has none yet; [`Semaphore::resize`] changes it.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        self.inner.semaphore(name, limit).into()
    }

    /// Returns a counting semaphore on `name`: a plain number without holders.
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        self.inner.counting_semaphore(name).into()
    }

    /// Returns a count-down latch on `name`.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        self.inner.latch(name).into()
    }

    /// Returns an election on `name`.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.inner.election(name).into()
    }

    forward_blocking! {
        /// Returns the state of the names in use that start with `prefix`, sorted by name, at most `limit` of them.
        ///
        /// # Errors
        /// As [`tenure::Client::list`](crate::Client::list).
        fn list(&self, prefix: impl Into<String>, limit: usize) -> Vec<Snapshot>;

        /// Returns the state of all names that the store knows and that start with `prefix`, also of idle ones.
        ///
        /// # Errors
        /// As [`tenure::Client::list_all`](crate::Client::list_all).
        fn list_all(&self, prefix: impl Into<String>, limit: usize) -> Vec<Snapshot>;

        /// Returns the state of one name, or `None` if the store does not know it.
        ///
        /// # Errors
        /// As [`tenure::Client::show`](crate::Client::show).
        fn show(&self, name: impl AsRef<str>) -> Option<Snapshot>;

        /// Checks whether the store is configured so that the guarantees can be kept.
        ///
        /// # Errors
        /// As [`tenure::Client::diagnose`](crate::Client::diagnose).
        fn diagnose(&self) -> Vec<Finding>;

        /// Releases everything held and ends the waits of all threads; later calls fail with `Closed`.
        ///
        /// # Errors
        /// As [`tenure::Client::close`](crate::Client::close).
        fn close(&self) -> ();
    }

    /// Returns the store.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// Returns the identity under which the store records this client's holds.
    pub fn id(&self) -> ClientId {
        self.inner.id()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        self.inner.settings()
    }
}
