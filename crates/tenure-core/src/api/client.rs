//! The client: one store, one identity, one keeper thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{CountingSemaphore, Election, Latch, Lock, Once, RwLock, Semaphore};
use crate::backend::{Backend, ClientId, Finding, Kind, Name, Query, Result, Snapshot};
use crate::engine::Settings;
use crate::engine::core::Engine;

/// A connection to a store, from which all templates are created. Cheap to clone; clones share one client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// // … nobody else is here …
/// guard.release().await?;
/// client.close().await
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

    /// Returns a semaphore with `limit` recorded, leased permits. The limit only applies if the store has none yet:
    /// [`Semaphore::resize`] changes it.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self, Name::new(name), limit)
    }

    /// Returns a counting semaphore: a plain number without holders.
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        CountingSemaphore::new(self, Name::new(name))
    }

    /// Returns a count-down latch.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(self, Name::new(name))
    }

    /// Returns an election.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, Name::new(name))
    }

    /// Lists names in use that start with `prefix`, sorted, at most `limit`.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn list(&self, prefix: impl Into<String>, limit: usize) -> Result<Vec<Snapshot>> {
        let core = &self.engine.core;
        core.check_open()?;
        let prefix = prefix.into();
        let admin = core.backend.require_admin()?;
        core.ask(|| admin.inspect(Query::Prefix { prefix: prefix.clone(), limit })).await
    }

    /// Returns the state of one name, or `None` if it is not in use.
    ///
    /// # Errors
    /// `Config` for a bad name; `Unavailable` or `Unknown` when the store does not answer.
    pub async fn show(&self, name: impl AsRef<str>) -> Result<Option<Snapshot>> {
        self.engine.core.check_open()?;
        self.engine.core.snapshot(&Name::new(name)?).await
    }

    /// Checks whether the store is configured so that the guarantees can be kept: what is fine, what is a risk, what
    /// does not work, and what to do about it. For use at start-up or at the command line; `tenure doctor` shows the
    /// result.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// for finding in client.diagnose().await? {
    ///     if finding.level >= tenure_core::Level::Warning {
    ///         eprintln!("{finding}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn diagnose(&self) -> Result<Vec<Finding>> {
        let core = &self.engine.core;
        core.check_open()?;
        let admin = core.backend.require_admin()?;
        core.ask(|| admin.diagnose()).await
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

    /// Releases everything held, ends all waits, and makes later calls fail. Takes at most [`Settings::close_timeout`];
    /// what could not be released by then ends with its lease. Where holds live as long as a session, the session is
    /// closed, too, unless another client of the same store, or a detached guard, still holds something.
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
        assert_eq!(core.keeper.held_by_flows(), 1);
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
