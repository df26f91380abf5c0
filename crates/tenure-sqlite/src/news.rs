//! The consequences of a change for others: watches in this process are notified, clients in other processes are
//! woken, and dead waiters are removed from the queue.

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
use crate::folder::Folder;
use crate::ledgers::look;
use crate::shared::Shared;
use crate::wake::{self, Delivery};

/// How many rounds of removing dead waiters one change makes at most; the next change continues.
const SKIPS: usize = 16;
/// How long this is retried while others hold the file. Waiters poll more often than that.
const LONG: Duration = Duration::from_secs(60);

/// The effects of a change, and the clients that registered as watchers.
pub(crate) struct News {
    pub(crate) effects: Effects,
    pub(crate) watchers: Vec<ClientId>,
}

/// Clients that a wake-up did not reach.
#[derive(Default)]
pub(crate) struct Missed {
    dead: HashSet<ClientId>,
    /// Whether there was one whose state is unknown: it may be polling, or be dead without a trace.
    unknown: bool,
}

impl Missed {
    fn is_nobody(&self) -> bool {
        self.dead.is_empty() && !self.unknown
    }

    /// Adds the name whose queue they wait in; `None` if there are none.
    pub(crate) fn in_queue_of(self, name: &Name) -> Option<(Name, Self)> {
        (!self.is_nobody()).then(|| (name.clone(), self))
    }
}

/// Wake-ups for one name, at most one per client.
struct Calls<'a> {
    shared: &'a Shared,
    name: &'a Name,
    message: Vec<u8>,
    folder: Option<Option<Folder>>,
    made: HashMap<ClientId, Delivery>,
    /// Clients in this process.
    here: Vec<ClientId>,
}

impl<'a> Calls<'a> {
    fn new(shared: &'a Shared, name: &'a Name) -> Self {
        let (message, made, here) = (Vec::new(), HashMap::new(), Vec::new());
        Self { shared, name, message, folder: None, made, here }
    }

    fn reach(&mut self, client: ClientId) -> Delivery {
        if let Some(reach) = self.made.get(&client) {
            return *reach;
        }
        let reach = self.call(client);
        self.made.insert(client, reach);
        reach
    }

    fn call(&mut self, client: ClientId) -> Delivery {
        let shared = self.shared;
        // A client of this process that is not watching right now checks the ledger before it waits.
        if shared.subscribers.contains(client) || shared.watched.hears(self.name, client) {
            self.here.push(client);
            return Delivery::Delivered;
        }
        if self.message.is_empty() {
            self.message = wake::encode(self.name);
        }
        let folder = self.folder.get_or_insert_with(|| Folder::open(&shared.path).ok());
        folder.as_ref().map_or(Delivery::Unknown, |folder| wake::send(folder, client, &self.message))
    }

    fn dead(&self) -> HashSet<ClientId> {
        self.made.iter().filter(|(_, reach)| **reach == Delivery::Dead).map(|(client, _)| *client).collect()
    }
}

impl Shared {
    /// Opens the FIFO of a client that just queued: a waiter without a FIFO would be skipped. The newest waiter is the
    /// last, and if it is ours it shares our process record.
    pub(crate) fn hear_new_waiter(&self, ledger: &Ledger) {
        let Some(last) = ledger.waiters.last() else { return };
        if Arc::ptr_eq(&last.process, Process::current())
            && let Err(error) = self.subscribers.open(last.id.client, &self.background)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot be woken by other processes, polling");
        }
    }

    /// Wakes all that the change concerns, here and in other processes. If one cannot be reached, wakes the next one.
    pub(crate) async fn pass_on(self: &Arc<Self>, name: &Name, news: News) {
        let missed = self.tell(name, &news);
        self.go_on(missed.in_queue_of(name).into_iter().collect()).await;
    }

    /// Wakes the waiters behind those that were not reached. The changes are committed: nobody else would wake them if
    /// the caller is cancelled, or if the file is busy for longer than a caller waits.
    pub(crate) async fn go_on(self: &Arc<Self>, missed: Vec<(Name, Missed)>) {
        if missed.is_empty() {
            return;
        }
        let short = self.options.busy_limit();
        // Without a background thread the caller itself would wait that long.
        let end = Instant::now() + if self.background.handle().is_ok() { LONG } else { short.min(LONG) };
        let shared = self.clone();
        let job = async move {
            for (name, missed) in missed {
                shared.pass_over(&name, missed, end).await;
            }
        };
        run_to_completion(&self.background, job, short).await;
    }

    async fn pass_over(&self, name: &Name, mut missed: Missed, end: Instant) {
        for _ in 0..SKIPS {
            if missed.is_nobody() {
                return;
            }
            let job = |database: &Database| self.wake_next(database, name, &missed.dead);
            let limit = end.saturating_duration_since(Instant::now());
            let (dead, admit) = match self.run_for(limit, || format!("look at {name}"), job).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%name, %error, "those behind a dead waiter are not told");
                    return;
                }
            };
            let effects = Effects { admit, ..Effects::default() };
            self.watched.tell(name, &effects);
            missed = Missed { dead, unknown: false };
        }
    }

    /// Wakes all that the change concerns. Returns those that could not be reached.
    pub(crate) fn tell(&self, name: &Name, news: &News) -> Missed {
        self.watched.tell(name, &news.effects);
        let mut calls = Calls::new(self, name);
        let mut missed = Missed::default();
        for &client in &news.effects.admit {
            missed.unknown |= calls.reach(client) == Delivery::Unknown;
        }
        for &client in &news.watchers {
            calls.reach(client);
        }
        missed.dead = calls.dead();
        missed
    }

    /// Wakes the waiters that the ledger would admit now, skipping those that cannot be reached. Dead waiters are
    /// removed first, because each woken waiter looks at the queue. Returns the clients found dead, and those to
    /// notify in this process.
    fn wake_next(
        &self,
        database: &Database,
        name: &Name,
        dead: &HashSet<ClientId>,
    ) -> std::result::Result<(HashSet<ClientId>, Vec<ClientId>), Fault> {
        if !dead.is_empty() {
            self.forget(database, name, dead)?;
        }
        let found = look(&database.conn, name).map_err(|e| self.judge(e))?;
        let mut calls = Calls::new(self, name);
        if let Some(mut ledger) = found {
            ledger.prune(self.now());
            ledger.each_admitted(|client| calls.reach(client) == Delivery::Delivered);
        }
        Ok((calls.dead(), calls.here))
    }

    fn forget(
        &self,
        database: &Database,
        name: &Name,
        dead: &HashSet<ClientId>,
    ) -> std::result::Result<(), Fault> {
        let tx = self.begin(database)?;
        let forget = |ledger: &mut Ledger, _: Now| ledger.forget_waiters(dead);
        self.change(&tx, name, forget, &mut false).map_err(|e| self.judge(e))?;
        tx.commit().map_err(|e| self.judge(e))
    }

    pub(crate) async fn register(self: &Arc<Self>, name: &Name, client: ClientId) -> Result<()> {
        let ((), news) = self.update(name, |ledger, now| ledger.watch(client, now)).await?;
        self.pass_on(name, news).await;
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

    /// A lock that nobody holds. The first waiter in its queue is dead, and the one behind it is watching. Another
    /// process holds the file.
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
            let (gone, living) = (open(), open());
            let [held, dies, waits] = [claim(&name), claim(&name), claim(&name)];
            for (store, claim) in [(&gone, &held), (&gone, &dies), (&living, &waits)] {
                store.try_acquire(claim).await.unwrap();
            }
            let watch = living.watch(&name, Interest::Claim(&waits)).await.unwrap();
            drop(gone);
            clock.advance(LEASE);
            let shared = Arc::new(Shared::open(&path, options(&clock, busy_limit)).unwrap());
            // Created last: opening the store removes FIFOs without a reader.
            leave_unread(&path, dies.id.client);
            let file = rusqlite::Connection::open(&path).unwrap();
            file.execute_batch("BEGIN IMMEDIATE").unwrap();
            Self { shared, name, dead: dies.id.client, watch, file, _living: living, _tmp: tmp }
        }

        async fn go_on(&self) {
            let missed = || Missed { dead: HashSet::from([self.dead]), unknown: false };
            let before = Name::new("another, whose turn is before").unwrap();
            self.shared.go_on(vec![(before, missed()), (self.name.clone(), missed())]).await;
        }

        async fn ends_well(mut self) {
            self.file.execute_batch("ROLLBACK").unwrap();
            within("who waits behind the dead one is told", self.watch.signal()).await;
        }
    }

    /// Leaves the FIFO of a client that was killed.
    fn leave_unread(path: &Path, client: ClientId) {
        let folder = Folder::open(path).unwrap();
        rustix::fs::mknodat(&folder, client.to_string(), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_nobody_behind_a_dead_waiter() {
        let stuck = Stuck::new(FAR).await;
        {
            let mut going = Box::pin(stuck.go_on());
            let first = poll_fn(|cx| Poll::Ready(going.as_mut().poll(cx))).await;
            assert!(first.is_pending(), "the file is busy");
        }
        stuck.ends_well().await;
    }

    #[tokio::test]
    async fn a_file_that_is_busy_for_long_leaves_nobody_behind_a_dead_waiter() {
        let stuck = Stuck::new(Duration::from_millis(1)).await;
        within("the caller waits no longer than it has to", stuck.go_on()).await;
        stuck.ends_well().await;
    }
}
