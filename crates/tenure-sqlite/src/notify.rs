//! Notifies others of a committed change: wakes watches in this process and clients in other processes. Waiters that
//! cannot be woken are skipped, so that those behind them are not blocked, and dead ones are removed from the queue.

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tenure_core::backend::Background;
use tenure_core::ledger::{Effects, Ledger, Now};
use tenure_core::{ClientId, Name, Process};

use crate::Result;
use crate::database::Database;
use crate::fault::Fault;
use crate::ledgers::read_ledger;
use crate::shared::Shared;
use crate::subscriber::Subscriber;
use crate::wake::{self, Delivery};
use crate::wake_folder::WakeFolder;

/// How often one change skips waiters that cannot be woken, at most; the next change continues.
const MAX_SKIPS: usize = 16;
/// How long skipping is retried while others hold the file. Waiters poll more often than that.
const SKIP_LIMIT: Duration = Duration::from_secs(60);

/// Whom to notify of a change, once it is committed.
pub(crate) struct Notifications {
    pub(crate) effects: Effects,
    /// The clients that registered as watchers and are affected.
    pub(crate) watchers: Vec<ClientId>,
}

/// Clients that could not be woken.
#[derive(Default)]
pub(crate) struct Unreached {
    dead: HashSet<ClientId>,
    /// Whether there was one without a usable FIFO, which may be polling or dead.
    unknown: bool,
}

impl Unreached {
    fn is_empty(&self) -> bool {
        self.dead.is_empty() && !self.unknown
    }

    /// Returns them with the name whose queue they wait in; `None` if there are none.
    pub(crate) fn in_queue_of(self, name: &Name) -> Option<(Name, Self)> {
        (!self.is_empty()).then(|| (name.clone(), self))
    }
}

/// Sends wake-ups for one name, at most one per client.
struct Sender<'a> {
    shared: &'a Shared,
    name: &'a Name,
    message: Vec<u8>,
    /// Opened for the first client of another process; `None` inside if that failed.
    folder: Option<Option<WakeFolder>>,
    deliveries: HashMap<ClientId, Delivery>,
    /// Clients in this process.
    here: Vec<ClientId>,
}

impl<'a> Sender<'a> {
    fn new(shared: &'a Shared, name: &'a Name) -> Self {
        let (message, deliveries, here) = (Vec::new(), HashMap::new(), Vec::new());
        Self { shared, name, message, folder: None, deliveries, here }
    }

    fn wake(&mut self, client: ClientId) -> Delivery {
        if let Some(delivery) = self.deliveries.get(&client) {
            return *delivery;
        }
        let delivery = self.send(client);
        self.deliveries.insert(client, delivery);
        delivery
    }

    fn send(&mut self, client: ClientId) -> Delivery {
        let shared = self.shared;
        // A client of this process that is not watching right now checks the ledger before it waits.
        if shared.subscribers.contains(client) || shared.watched.is_watching(self.name, client) {
            self.here.push(client);
            return Delivery::Delivered;
        }
        if self.message.is_empty() {
            self.message = wake::encode(self.name);
        }
        let folder = self.folder.get_or_insert_with(|| WakeFolder::open(&shared.path).ok());
        folder.as_ref().map_or(Delivery::Unknown, |folder| wake::send(folder, client, &self.message))
    }

    fn dead(&self) -> HashSet<ClientId> {
        self.deliveries
            .iter()
            .filter(|(_, delivery)| **delivery == Delivery::Dead)
            .map(|(client, _)| *client)
            .collect()
    }
}

impl Shared {
    /// Opens the FIFO of a client that just queued: a waiter without a FIFO would be skipped. The newest waiter is the
    /// last, and if it is ours it shares our process record.
    pub(crate) fn subscribe_new_waiter(&self, ledger: &Ledger) {
        let Some(last) = ledger.waiters.last() else { return };
        if Arc::ptr_eq(&last.process, Process::current()) {
            self.subscribe(last.id.client);
        }
    }

    /// Opens the FIFO of a client. Without one, the client polls.
    pub(crate) fn subscribe(&self, client: ClientId) -> Option<Arc<Subscriber>> {
        let opened = self.subscribers.open(client, &self.background);
        let folder = self.folder.display();
        opened.inspect_err(|error| tracing::warn!(%folder, %error, "no FIFO for wake-ups, polling")).ok()
    }

    /// Wakes everyone whom the change affects, here and in other processes. If a waiter cannot be woken, wakes the next
    /// one.
    pub(crate) async fn notify(self: &Arc<Self>, name: &Name, notifications: Notifications) {
        let unreached = self.wake_affected(name, &notifications);
        self.skip_unreached(unreached.in_queue_of(name).into_iter().collect()).await;
    }

    /// Wakes the waiters behind those that could not be woken. Completes even if the caller is cancelled, or the file
    /// is busy for longer than a caller waits: the changes are committed, and no other process would wake the waiters.
    pub(crate) async fn skip_unreached(self: &Arc<Self>, unreached: Vec<(Name, Unreached)>) {
        if unreached.is_empty() {
            return;
        }
        let busy_limit = self.options.busy_limit();
        // Without a background thread the caller itself would wait that long.
        let end = Instant::now()
            + if self.background.handle().is_ok() { SKIP_LIMIT } else { busy_limit.min(SKIP_LIMIT) };
        let shared = self.clone();
        let job = async move {
            for (name, unreached) in unreached {
                shared.skip_unreached_of(&name, unreached, end).await;
            }
        };
        run_to_completion(&self.background, job, busy_limit).await;
    }

    async fn skip_unreached_of(&self, name: &Name, mut unreached: Unreached, end: Instant) {
        for _ in 0..MAX_SKIPS {
            if unreached.is_empty() {
                return;
            }
            let job = |database: &Database| self.wake_next(database, name, &unreached.dead);
            let limit = end.saturating_duration_since(Instant::now());
            let (dead, admit) = match self.run_for(limit, || format!("read {name}"), job).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%name, %error, "the waiters behind a dead one are not woken; they poll");
                    return;
                }
            };
            let effects = Effects { admit, ..Effects::default() };
            self.watched.notify(name, &effects);
            unreached = Unreached { dead, unknown: false };
        }
    }

    /// Wakes everyone whom the change affects. Returns those that could not be woken.
    pub(crate) fn wake_affected(&self, name: &Name, notifications: &Notifications) -> Unreached {
        self.watched.notify(name, &notifications.effects);
        let mut sender = Sender::new(self, name);
        let mut unreached = Unreached::default();
        for &client in &notifications.effects.admit {
            unreached.unknown |= sender.wake(client) == Delivery::Unknown;
        }
        for &client in &notifications.watchers {
            sender.wake(client);
        }
        unreached.dead = sender.dead();
        unreached
    }

    /// Wakes the waiters that the ledger would admit now, skipping those that cannot be woken. Dead waiters are
    /// removed first, because each woken waiter looks at the queue. Returns the clients found dead, and those to
    /// wake in this process.
    fn wake_next(
        &self,
        database: &Database,
        name: &Name,
        dead: &HashSet<ClientId>,
    ) -> std::result::Result<(HashSet<ClientId>, Vec<ClientId>), Fault> {
        if !dead.is_empty() {
            self.remove_waiters(database, name, dead)?;
        }
        let found = read_ledger(&database.conn, name).map_err(|e| self.classify(e))?;
        let mut sender = Sender::new(self, name);
        if let Some(mut ledger) = found {
            ledger.prune(self.now());
            ledger.each_admitted(|client| sender.wake(client) == Delivery::Delivered);
        }
        Ok((sender.dead(), sender.here))
    }

    fn remove_waiters(
        &self,
        database: &Database,
        name: &Name,
        dead: &HashSet<ClientId>,
    ) -> std::result::Result<(), Fault> {
        let tx = self.begin(database)?;
        let remove = |ledger: &mut Ledger, _: Now| ledger.forget_waiters(dead);
        self.change(&tx, name, remove, &mut false).map_err(|e| self.classify(e))?;
        tx.commit().map_err(|e| self.classify(e))
    }

    /// Registers a client as a watcher, so that other processes wake it. If it was not registered until now, those of
    /// its watches that exist already may have missed a change, and are woken.
    pub(crate) async fn register_watcher(self: &Arc<Self>, name: &Name, client: ClientId) -> Result<()> {
        let register = |ledger: &mut Ledger, now| {
            ledger.prune(now);
            let known = ledger.watchers.iter().any(|watcher| watcher.client == client);
            ledger.watch(client, now);
            known
        };
        let (known, notifications) = self.update(name, register).await?;
        self.notify(name, notifications).await;
        if !known && self.watched.is_watching(name, client) {
            self.watched.notify_all(Some(name));
        }
        Ok(())
    }
}

/// Runs a job that completes even if the caller is cancelled: first inline as far as it gets without waiting, then in
/// the background. Waits for its end, but for at most `limit` once it runs there.
async fn run_to_completion(
    background: &Background,
    job: impl Future<Output = ()> + Send + 'static,
    limit: Duration,
) {
    let mut job = Box::pin(job);
    if poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await.is_ready() {
        return;
    }
    let Ok(handle) = background.handle() else { return job.await };
    let job = handle.spawn(job);
    let _ = handle.spawn(async move { tokio::time::timeout(limit, job).await }).await;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::{FileType, Mode};
    use tenure_core::backend::{Interest, Watch};
    use tenure_core::{Backend, Claim, Clock, HoldId, Kind};
    use testbed::{FAR, within};

    use super::*;
    use crate::Options;

    const LEASE: Duration = Duration::from_secs(10);

    /// A free lock whose first waiter is dead, and whose second one is watching, in a file that another process holds.
    struct Stuck {
        shared: Arc<Shared>,
        name: Name,
        dead: ClientId,
        watch: Box<dyn Watch>,
        file: rusqlite::Connection,
        _living: crate::Sqlite,
        _tmp: tempfile::TempDir,
    }

    fn claim(name: &Name) -> Claim {
        let id = HoldId { client: ClientId::new(), n: 1 };
        let one = Claim::of(id, name.clone(), Kind::FairLock);
        Claim { lease: LEASE, stamp: FAR, wait: Some(FAR), holds: 1, ..one }
    }

    fn options(clock: &Clock, busy_limit: Duration) -> Options {
        Options { clock: Some(clock.clone()), busy_limit: Some(busy_limit), ..Options::default() }
    }

    impl Stuck {
        async fn new(busy_limit: Duration) -> Self {
            let tmp = tempfile::tempdir().unwrap();
            let (path, clock, name) = (tmp.path().join("locks.db"), Clock::manual(), Name::new("x").unwrap());
            let open = || crate::open(&path, options(&clock, FAR)).unwrap();
            let (killed, living) = (open(), open());
            let [held, dies, waits] = [claim(&name), claim(&name), claim(&name)];
            for (store, claim) in [(&killed, &held), (&killed, &dies), (&living, &waits)] {
                store.try_acquire(claim).await.unwrap();
            }
            let watch = living.watch(&name, Interest::Claim(&waits)).await.unwrap();
            drop(killed);
            clock.advance(LEASE);
            let shared = Arc::new(Shared::open(&path, options(&clock, busy_limit)).unwrap());
            // Created last: opening the store removes FIFOs without a reader.
            create_dead_fifo(&path, dies.id.client);
            let file = rusqlite::Connection::open(&path).unwrap();
            file.execute_batch("BEGIN IMMEDIATE").unwrap();
            Self { shared, name, dead: dies.id.client, watch, file, _living: living, _tmp: tmp }
        }

        async fn skip_unreached(&self) {
            let unreached = || Unreached { dead: HashSet::from([self.dead]), unknown: false };
            let before = Name::new("another name, which comes first").unwrap();
            self.shared.skip_unreached(vec![(before, unreached()), (self.name.clone(), unreached())]).await;
        }

        async fn expect_wake_up(mut self) {
            self.file.execute_batch("ROLLBACK").unwrap();
            within("the waiter behind the dead one is woken", self.watch.signal()).await;
        }
    }

    /// Creates the FIFO of a client that was killed.
    fn create_dead_fifo(path: &Path, client: ClientId) {
        let folder = WakeFolder::open(path).unwrap();
        rustix::fs::mknodat(&folder, client.to_string(), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[tokio::test]
    async fn a_cancelled_caller_still_skips_a_dead_waiter() {
        let stuck = Stuck::new(FAR).await;
        {
            let mut skipping = Box::pin(stuck.skip_unreached());
            let first = poll_fn(|cx| Poll::Ready(skipping.as_mut().poll(cx))).await;
            assert!(first.is_pending(), "the file is busy");
        }
        stuck.expect_wake_up().await;
    }

    #[tokio::test]
    async fn a_dead_waiter_is_skipped_after_the_file_was_busy_for_long() {
        let stuck = Stuck::new(Duration::from_millis(1)).await;
        within("the caller does not wait for the file", stuck.skip_unreached()).await;
        stuck.expect_wake_up().await;
    }
}
