//! The state of one client: its store, its identity, its settings, and its threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::{
    Backend, Chance, ClientId, Clock, Environment, Error, HoldId, Kind, LostReason, Name, Query, Result,
    Snapshot,
};
use crate::engine::Settings;
use crate::engine::alarm::Alarms;
use crate::engine::deadlock::Waits;
use crate::engine::gate::Gates;
use crate::engine::keeper::Keeper;
use crate::engine::ops::Ops;
use crate::engine::reentry::Slots;
use crate::engine::releases::Releases;
use crate::engine::telemetry::Telemetry;
use crate::engine::worker::Worker;

/// The part shared by clients and guards: when the last of them is dropped, the threads end.
pub(crate) struct Engine {
    pub(crate) core: Arc<Core>,
}

/// The part that is shared with the threads.
pub(crate) struct Core {
    pub(crate) id: ClientId,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    environment: Environment,
    pub(crate) settings: Settings,
    pub(crate) worker: Worker,
    pub(crate) alarms: Alarms,
    pub(crate) keeper: Keeper,
    pub(crate) releases: Releases,
    pub(crate) gates: Gates,
    pub(crate) slots: Slots,
    pub(crate) waits: Waits,
    pub(crate) telemetry: Telemetry,
    pub(crate) ops: Ops,
    next: AtomicU64,
    closed: AtomicBool,
    closing: Notify,
}

impl Engine {
    /// Creates the engine of a client of this store.
    pub(crate) fn new(backend: Arc<dyn Backend>, mut settings: Settings) -> Arc<Self> {
        // Clamped so that `Instant + d` cannot overflow.
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        for limit in [&mut settings.call_timeout, &mut settings.outage, &mut settings.close_timeout] {
            *limit = (*limit).min(YEAR);
        }
        settings.local_handover = settings.local_handover.map(|d| d.min(YEAR)).filter(|d| !d.is_zero());
        settings.poll = settings.poll.map(|p| p.clamp(Duration::from_millis(1), Duration::from_secs(86_400)));
        let environment = backend.info().environment.clone();
        let id = ClientId::drawn(&environment.chance);
        let core = Core {
            id,
            clock: environment.clock.clone(),
            environment,
            telemetry: Telemetry::new(backend.info().scheme),
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
        Arc::new(Self { core: Arc::new(core) })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.core;
        f.debug_struct("Client").field("id", &core.id).field("store", &core.backend.info().scheme).finish()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.keeper.stop();
        self.core.worker.stop();
    }
}

impl Core {
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn chance(&self) -> &Chance {
        &self.environment.chance
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Waits until the client is closed.
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

    /// How long the queue position of a waiter lasts without a refresh. For unqueued kinds it only decides who is woken
    /// first and blocks nobody, so it is refreshed less often.
    pub(crate) fn stamp(&self, kind: Kind) -> Duration {
        self.poll() * if kind.is_queued() { 3 } else { 30 }
    }

    /// Reads the state of a name, for a caller that does not wait.
    pub(crate) async fn snapshot(self: &Arc<Self>, name: &Name) -> Result<Option<Snapshot>> {
        let admin = self.backend.require_admin()?;
        Ok(self.read(|| admin.inspect(Query::Name(name.clone()))).await?.into_iter().next())
    }

    /// Releases everything held, ends all waits, and makes later calls fail.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<()> {
        let began = Instant::now();
        self.closed.store(true, SeqCst);
        self.closing.notify_waiters();
        self.gates.fail_all(&Error::Closed);
        for hold in self.keeper.all() {
            self.lose(&hold, LostReason::Closed);
        }
        for flight in self.keeper.revoke_all() {
            flight.undo(self);
            flight.wake();
        }
        let limit = self.settings.close_timeout;
        let left = self.quiesce(limit).await;
        let flushed = self.backend.close(limit.saturating_sub(began.elapsed())).await;
        let info = self.backend.info();
        let (backend, reason) = (info.scheme, format!("{}; it ends with its lease", info.no_answer(limit)));
        let each = left.iter().map(|name| Error::unknown(backend, format!("release {name}"), &*reason));
        let all: Vec<Error> = each.chain(flushed.err()).collect();
        if all.is_empty() { Ok(()) } else { Err(Error::Several(all)) }
    }
}
