//! The client: one store, one identity, one keeper.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::alarm::Alarms;
use crate::backend::{Backend, Query, Snapshot};
use crate::deadlock::Waits;
use crate::driver::Gates;
use crate::keeper::Keeper;
use crate::ops::Ops;
use crate::owner::Slots;
use crate::releases::Releases;
use crate::signs::Signs;
use crate::worker::Worker;
use crate::{
    ClientId, Clock, CountingSemaphore, Deadlocks, Durability, Election, Error, Finding, HoldId, Kind, Latch,
    Lock, LostReason, Name, Result, RwLock, Semaphore,
};

/// Numbers that a client goes by.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Lease of a lock that was asked for without one: renewed every third of it. 30 s.
    pub lease: Duration,
    /// How long a call that does not wait for a lock tries to get an answer from the store; one request that was sent by
    /// then has its own time. 5 s. A call that waits ends with its wait, but however short that is the store is given a
    /// twenty-fifth of this to answer: 200 ms, 5 s at most.
    pub call_timeout: Duration,
    /// How long a call that waits bears a store that does not answer, and how long waiters do. 30 s.
    pub outage: Duration,
    /// How long [`Client::close`] takes at most. 5 s.
    pub close_timeout: Duration,
    /// How many copies must have a grant before it counts, for locks that were asked for without saying. The one that
    /// decides. Counts of latches and counting semaphores do not wait for copies.
    pub durability: Durability,
    /// The longest sleep of a waiter that hears nothing; the store's own default if `None`.
    pub poll: Option<Duration>,
    /// A hold that is older than this is logged, once, as a warning. Never if `None`.
    pub warn_held: Option<Duration>,
    /// Whether an acquire that would wait in a circle of owners is told so. They wait.
    pub deadlocks: Deadlocks,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            call_timeout: Duration::from_secs(5),
            outage: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            poll: None,
            durability: Durability::Master,
            warn_held: None,
            deadlocks: Deadlocks::Ignore,
        }
    }
}

impl Settings {
    /// A store is given this long to answer, however short the wait is that was asked for: else a wait of nothing would
    /// end in an error wherever there is a network.
    pub(crate) fn answer(&self) -> Duration {
        (self.call_timeout / 25).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }
}

/// The shortest lease: below it a grant would be over before it could be used.
pub(crate) const MIN_LEASE: Duration = Duration::from_millis(10);

/// A connection to a store, and the maker of all templates. Cheap to clone; clones are the same client.
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
/// Guards keep their client alive. A process that ends right after dropping a guard may end before the release has
/// reached the store: release guards, or [`Client::close`] the client, where that matters.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// What clients and guards share; when the last of them goes, the keeper ends.
pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
}

/// What the keeper's thread shares with them.
pub(crate) struct Core {
    pub(crate) id: ClientId,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) worker: Worker,
    pub(crate) alarms: Alarms,
    pub(crate) keeper: Keeper,
    pub(crate) releases: Releases,
    pub(crate) gates: Gates,
    pub(crate) slots: Slots,
    pub(crate) waits: Waits,
    pub(crate) signs: Signs,
    pub(crate) ops: Ops,
    next: AtomicU64,
    closed: AtomicBool,
    closing: Notify,
}

impl Client {
    /// A client of this store.
    pub fn new(backend: impl Backend) -> Self {
        Self::with(Arc::new(backend), Settings::default())
    }

    /// A client of this store with other settings.
    pub fn with(backend: Arc<dyn Backend>, mut settings: Settings) -> Self {
        // Times without sense or end would overflow where they are added to.
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        for limit in [&mut settings.call_timeout, &mut settings.outage, &mut settings.close_timeout] {
            *limit = (*limit).min(YEAR);
        }
        settings.poll = settings.poll.map(|p| p.clamp(Duration::from_millis(1), Duration::from_secs(86_400)));
        let id = ClientId::new();
        let core = Core {
            id,
            clock: backend.info().clock.clone(),
            signs: Signs::new(backend.info().scheme),
            backend,
            settings,
            worker: Worker::default(),
            alarms: Alarms::default(),
            keeper: Keeper::default(),
            releases: Releases::default(),
            gates: Gates::default(),
            slots: Slots::default(),
            waits: Waits::default(),
            ops: Ops::new(id),
            next: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        };
        Self { inner: Arc::new(Inner { core: Arc::new(core) }) }
    }

    /// A lock on `name`.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self, Name::new(name), Kind::Lock)
    }

    /// A read/write lock on `name`.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self, Name::new(name))
    }

    /// A semaphore with `limit` recorded, leased permits. The limit only applies if the store has none yet:
    /// [`Semaphore::resize`] changes it.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self, Name::new(name), limit)
    }

    /// A counting semaphore: a plain number without holders.
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        CountingSemaphore::new(self, Name::new(name))
    }

    /// A count-down latch.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(self, Name::new(name))
    }

    /// An election.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, Name::new(name))
    }

    /// Names in use that begin with `prefix`, in order, at most `limit`.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn list(&self, prefix: impl Into<String>, limit: usize) -> Result<Vec<Snapshot>> {
        let core = &self.inner.core;
        core.check_open()?;
        let prefix = prefix.into();
        core.ask(|| core.backend.inspect(Query::Prefix { prefix: prefix.clone(), limit })).await
    }

    /// One name as it stands, `None` when it is not in use.
    ///
    /// # Errors
    /// `Config` for a bad name; `Unavailable` or `Unknown` when the store does not answer.
    pub async fn show(&self, name: impl AsRef<str>) -> Result<Option<Snapshot>> {
        self.inner.core.check_open()?;
        self.inner.core.snapshot(&Name::new(name)?).await
    }

    /// Looks whether the store is set up such that promises can be kept: what is good, what is a risk, what does not
    /// work, and what to do about it. For people, at start-up or at the command line; `tenure doctor` shows the same.
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
        let core = &self.inner.core;
        core.check_open()?;
        core.ask(|| core.backend.diagnose()).await
    }

    /// The store.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.core.backend
    }

    /// The identity under which this client's holds stand in the store.
    pub fn id(&self) -> ClientId {
        self.inner.core.id
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.core.settings
    }

    /// Releases all that is held, ends all waiting, and refuses what comes after. Takes at most
    /// [`Settings::close_timeout`]; what could not be released by then ends with its lease. Where holds live as long as a
    /// session, that is closed, too, unless another client of the same store, or a detached guard, still
    /// holds something.
    ///
    /// On a quorum every server that answers has confirmed by then that it let go. One that does not answer has been
    /// told, and is not waited for.
    ///
    /// # Errors
    /// `Several` with one `Unknown` per name that could not be released in time.
    pub async fn close(&self) -> Result<()> {
        let (core, began) = (&self.inner.core, Instant::now());
        core.closed.store(true, SeqCst);
        core.closing.notify_waiters();
        core.gates.fail_all(&Error::Closed);
        for hold in core.keeper.all() {
            core.lose(&hold, LostReason::Closed);
        }
        for begun in core.keeper.revoke_all() {
            begun.undo(core);
            begun.wake();
        }
        let limit = core.settings.close_timeout;
        let left = core.quiesce(limit).await;
        let flushed = core.backend.close(limit.saturating_sub(began.elapsed())).await;
        let backend = core.backend.info().scheme;
        let reason = format!("no answer within {limit:?}; it ends with its lease");
        let each = left.iter().map(|name| Error::Unknown {
            backend,
            what: format!("release {name}"),
            reason: reason.clone(),
        });
        let all: Vec<Error> = each.chain(flushed.err()).collect();
        if all.is_empty() { Ok(()) } else { Err(Error::Several(all)) }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.inner.core;
        f.debug_struct("Client").field("id", &core.id).field("store", &core.backend.info().scheme).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.keeper.stop();
        self.core.worker.stop();
    }
}

impl Core {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Ends when the client is closed.
    pub(crate) async fn until_closed(&self) -> Error {
        let closing = self.closing.notified();
        tokio::pin!(closing);
        closing.as_mut().enable();
        if self.check_open().is_ok() {
            closing.await;
        }
        Error::Closed
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    pub(crate) fn fresh_id(&self) -> HoldId {
        HoldId { client: self.id, n: self.next() }
    }

    pub(crate) fn poll(&self) -> Duration {
        self.settings.poll.unwrap_or(self.backend.info().poll)
    }

    /// How long a waiter's place lasts without a sign of life. One that nobody is bound by is only told first: it
    /// need not be kept fresh.
    pub(crate) fn stamp(&self, kind: Kind) -> Duration {
        self.poll() * if kind.is_queued() { 3 } else { 30 }
    }

    pub(crate) async fn snapshot(self: &Arc<Self>, name: &Name) -> Result<Option<Snapshot>> {
        Ok(self.ask(|| self.backend.inspect(Query::Name(name.clone()))).await?.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Owner};

    /// Nothing of what is over stays in memory.
    #[tokio::test]
    async fn maps_are_empty_when_all_is_over() {
        let settings = Settings { deadlocks: Deadlocks::Report, ..Settings::default() };
        let client = Client::with(Arc::new(Memory::new()), settings);
        let core = client.inner.core.clone();
        let held = client.lock("x").acquire().await.unwrap();
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
    }
}
