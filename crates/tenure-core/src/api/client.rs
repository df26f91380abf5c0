//! The client: one store, one identity, and the threads that renew and release what it holds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{CountingSemaphore, Election, Latch, Lock, Once, RwLock, Semaphore};
use crate::backend::{Backend, ClientId, Finding, Kind, Name, Query, Result, Snapshot};
use crate::engine::Settings;
use crate::engine::core::Engine;

/// A client of a store. Cheap to clone; clones share one client.
///
/// Locks, semaphores, latches and elections are created from it as templates: a name and options, without any I/O until
/// a method of the template calls the store.
///
/// ```
/// # use tenure_core as tenure;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let client = tenure::Client::new(tenure::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// // … nobody else is here …
/// guard.release().await?;
///
/// let writer = client.rwlock("prices").write().acquire().await?;
/// let connection = client.semaphore("db", 10).acquire().await?; // one of ten permits
/// client.counting_semaphore("seats").try_set(200).await?;
/// client.latch("ready").try_set_count(3).await?;
/// let leadership = client.election("cron").campaign().await?;
/// let sent = client.once("report", Duration::from_secs(23 * 3600)).run(async |_| Ok::<_, tenure::Error>(())).await?;
/// assert!(sent.is_some()); // once a night
///
/// for used in client.list("", 100).await? {
///     println!("{}: a {} with {} holders", used.name, used.family, used.holders.len());
/// }
/// let cron = client.show("cron").await?.expect("it is in use");
/// assert_eq!(cron.holders[0].hold_id().map(|id| id.client), Some(client.id()));
/// client.close().await // releases everything that is still held
/// # }
/// ```
///
/// Guards keep their client alive. The end of the process waits for releases that are under way, for at most
/// [`Settings::close_timeout`]; a process that is aborted or killed leaves them to their leases.
#[derive(Clone)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

impl Client {
    /// Creates a client of this store with default settings.
    pub fn new(backend: impl Backend) -> Self {
        Self::with(Arc::new(backend), Settings::default())
    }

    /// Creates a client of this store with these settings.
    ///
    /// ```
    /// # use tenure_core as tenure;
    /// # use std::{sync::Arc, time::Duration};
    /// let mut settings = tenure::Settings::default();
    /// settings.lease = Duration::from_secs(10);
    /// let client = tenure::Client::with(Arc::new(tenure::Memory::new()), settings);
    /// assert_eq!(client.settings().lease, Duration::from_secs(10));
    /// assert_eq!(client.backend().info().scheme, "memory");
    /// ```
    pub fn with(backend: Arc<dyn Backend>, settings: Settings) -> Self {
        Self { engine: Engine::new(backend, settings) }
    }

    /// Returns a lock on `name`.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self, Name::new(name), Kind::Lock)
    }

    /// Returns work that is done at most once in each `period`, across all processes.
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        Once::new(self, Name::new(name), period)
    }

    /// Returns a read/write lock on `name`.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self, Name::new(name))
    }

    /// Returns a semaphore on `name` with `limit` permits, each of which is recorded and leased. The limit only applies
    /// if the store has none yet; [`Semaphore::resize`] changes it.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self, Name::new(name), limit)
    }

    /// Returns a counting semaphore on `name`: a plain number without holders.
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        CountingSemaphore::new(self, Name::new(name))
    }

    /// Returns a count-down latch on `name`.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(self, Name::new(name))
    }

    /// Returns an election on `name`.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, Name::new(name))
    }

    /// Returns the state of the names in use that start with `prefix`, sorted by name, at most `limit` of them.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` when it cannot list holders.
    pub async fn list(&self, prefix: impl Into<String>, limit: usize) -> Result<Vec<Snapshot>> {
        self.names(Query::Prefix { prefix: prefix.into(), limit, idle: false }).await
    }

    /// Returns the state of all names that the store knows and that start with `prefix`, as [`Client::list`] does: also
    /// of [idle](Snapshot::is_idle) ones, which nobody uses.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// client.semaphore("api", 3).acquire().await?.release().await?;
    /// assert!(client.list("", 10).await?.is_empty());
    /// let kept = &client.list_all("", 10).await?[0];
    /// assert!(kept.is_idle() && kept.size == Some(3));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::list`].
    pub async fn list_all(&self, prefix: impl Into<String>, limit: usize) -> Result<Vec<Snapshot>> {
        self.names(Query::Prefix { prefix: prefix.into(), limit, idle: true }).await
    }

    async fn names(&self, query: Query) -> Result<Vec<Snapshot>> {
        let core = &self.engine.core;
        core.check_open()?;
        let admin = core.backend.require_admin()?;
        core.read(|| admin.inspect(query.clone())).await
    }

    /// Returns the state of one name, or `None` if the store does not know it.
    ///
    /// # Errors
    /// `Config` for a bad name; `Unavailable` or `Unknown` when the store does not answer; `Unsupported` when it cannot
    /// list holders.
    pub async fn show(&self, name: impl AsRef<str>) -> Result<Option<Snapshot>> {
        self.engine.core.check_open()?;
        self.engine.core.snapshot(&Name::new(name)?).await
    }

    /// Checks whether the store is configured so that the guarantees can be kept. Each finding says what is fine, a risk
    /// or broken, and what to do about it. For use when a program starts; `tenure doctor` prints the same findings.
    ///
    /// ```
    /// # use tenure_core as tenure;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// # let client = tenure::Client::new(tenure::Memory::new());
    /// for finding in client.diagnose().await? {
    ///     if finding.level >= tenure::Level::Warning {
    ///         eprintln!("{finding}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` when it cannot be diagnosed.
    pub async fn diagnose(&self) -> Result<Vec<Finding>> {
        let core = &self.engine.core;
        core.check_open()?;
        let admin = core.backend.require_admin()?;
        core.read(|| admin.diagnose()).await
    }

    /// Returns the store.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.engine.core.backend
    }

    /// Returns the identity under which the store records this client's holds.
    pub fn id(&self) -> ClientId {
        self.engine.core.id
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.engine.core.settings
    }

    /// Releases everything held, except what has a minimum time ([`Lock::at_least`]), and ends all waits; later calls
    /// fail with `Closed`. Takes at most [`Settings::close_timeout`]; what could not be released by then ends with its
    /// lease. Where holds live as long as a session, the session is closed, too, unless another client of the same store,
    /// or a detached guard, still holds something.
    ///
    /// On a quorum, every server that answers has confirmed its release when this returns. A server that does not
    /// answer has been sent the release, and is not waited for.
    ///
    /// # Errors
    /// `Several` with one `Unknown` per name that could not be released in time.
    pub async fn close(&self) -> Result<()> {
        self.engine.core.close().await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Deadlocks, Memory, Owner};

    /// Checks that nothing stays in memory once all holds and waits have ended.
    #[tokio::test]
    async fn maps_are_empty_when_all_is_over() {
        let settings = Settings { deadlocks: Deadlocks::Report, ..Settings::default() };
        let client = Client::with(Arc::new(Memory::new()), settings);
        let core = client.engine.core.clone();
        let held = client.lock("x").acquire().await.unwrap();
        let locks = client.clone();
        let by_a_task = async move { locks.lock("task").acquire().await.unwrap() };
        let _ends_with_the_client = tokio::spawn(by_a_task).await.unwrap();
        assert_eq!(core.keeper.held_by_flows(), 2);
        for i in 0..50 {
            let (me, wait) = (Owner::new(), Duration::from_millis(1));
            let lock = client.lock(format!("x{}", i % 3)).owner(&me);
            let (a, b) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
            assert!(client.lock("x").owner(&me).try_acquire_for(wait).await.unwrap().is_none());
            drop(a);
            b.release().await.unwrap();
        }
        let seats = client.counting_semaphore("seats");
        assert!(!seats.try_acquire_for(1, Duration::from_millis(1)).await.unwrap());
        held.release().await.unwrap();
        client.close().await.unwrap();
        while !core.gates.names().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            (core.slots.len(), core.keeper.all().len(), core.waits.len(), core.ops.in_flight()),
            (0, 0, 0, 0)
        );
        assert_eq!(core.keeper.held_by_flows(), 0);
    }
}
