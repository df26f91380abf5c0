//! A backend on top of ledgers: a store that can atomically update the data of one name, and signal changes, supports
//! every kind.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{Effects, Found, Ledger, Now, Outcome};
use crate::backend::{
    Admin, Attempt, Backend, Claim, ClientId, CountOp, CountReply, Counter, Finding, HoldId, Info, Interest,
    Name, OpId, Process, Query, Released, Renewal, Result, Signal, Snapshot, Time, Watch,
};

/// A storage for ledgers. [`Ledgered`] makes a backend of it.
///
/// The store in memory is the shortest implementation: `ledger/memory.rs` in the source of this crate.
pub trait LedgerStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the properties and capabilities of this store.
    fn info(&self) -> &Info;

    /// Atomically changes the ledger of `name`, passing the store's own time read inside the transaction, and signals
    /// the effects to watchers. If a retry calls `change` again, it sees the result of the first call.
    fn update<R: Send + 'static>(
        &self,
        name: &Name,
        change: impl FnMut(&mut Ledger, Now) -> R + Send,
    ) -> impl Future<Output = Result<R>> + Send;

    /// Changes many ledgers, as [`LedgerStore::update`]; `change` gets the index of the name. Need not be atomic as a
    /// whole.
    fn update_many<R: Send + 'static>(
        &self,
        names: &[&Name],
        change: impl FnMut(usize, &mut Ledger, Now) -> R + Send,
    ) -> impl Future<Output = Result<Vec<R>>> + Send;

    /// Subscribes to signals. None is missed once this has returned.
    fn watch(
        &self,
        name: &Name,
        interest: Interest<'_>,
    ) -> impl Future<Output = Result<Box<dyn Watch>>> + Send;

    /// Reads the ledger of `name`. Changes nothing, and is not blocked by writers.
    fn peek(&self, name: &Name) -> impl Future<Output = Result<Option<(Ledger, Now)>>> + Send;

    /// Reads only the holders of `name`: the ledger without its queue. `None` if the store has no read that is cheaper
    /// than an update.
    fn inside(&self, name: &Name) -> impl Future<Output = Result<Option<(Ledger, Now)>>> + Send {
        let _ = name;
        async { Ok(None) }
    }

    /// Passes the ledgers whose names start with `prefix` to `read`, sorted by name, except idle ones. Returns what it
    /// finds in them, at most `limit`.
    fn scan<R: Send>(
        &self,
        prefix: &str,
        limit: usize,
        read: impl FnMut(&Name, Ledger, Now) -> Option<R> + Send,
    ) -> impl Future<Output = Result<Vec<R>>> + Send;

    /// Checks whether the store is configured so that the guarantees can be kept.
    fn diagnose(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send {
        async { Ok(Vec::new()) }
    }
}

/// The backend on top of a ledger store.
///
/// ```
/// # use tenure_core as tenure;
/// # use tenure::{MemoryStore, backend::{Backend, Clock, Environment}, ledger::{LedgerStore, Ledgered}};
/// fn backend<S: LedgerStore>(store: S) -> impl Backend {
///     Ledgered::over(store)
/// }
///
/// let memory: Ledgered<MemoryStore> = tenure::Memory::new();
/// assert_eq!(memory.store().info().scheme, "memory");
///
/// // For tests: with a clock that moves by hand, or with all of the environment.
/// let memory = tenure::Memory::with_clock(Clock::manual());
/// let memory = tenure::Memory::in_environment(Environment::system());
/// ```
#[derive(Debug)]
pub struct Ledgered<S> {
    store: S,
    process: Arc<Process>,
    /// Until when the queue position of each waiter needs no refresh, with the number of suspicions at that time: after a
    /// suspicion the store may have lost the position.
    placed: Mutex<HashMap<HoldId, (Time, u64)>>,
}

impl<S: LedgerStore> Ledgered<S> {
    /// Creates a backend on this store.
    pub fn over(store: S) -> Self {
        Self { store, process: Process::current().clone(), placed: Mutex::default() }
    }

    /// Returns the underlying store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store for one call. Each call first consumes a unit of tokio's cooperative budget, because a store
    /// may always answer without waiting, and a loop of calls would starve the other tasks of the runtime.
    async fn turn(&self) -> &S {
        tokio::task::coop::consume_budget().await;
        &self.store
    }
}

#[async_trait]
impl<S: LedgerStore> Backend for Ledgered<S> {
    fn info(&self) -> &Info {
        self.store.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let info = self.store.info();
        info.require(claim.kind.family())?;
        if let Some(busy) = self.still_busy(claim).await? {
            return Ok(busy);
        }
        let store = self.turn().await;
        let (sent, suspicions) = (info.clock().now(), info.suspicion.times());
        let (outcome, size, last) = store
            .update(&claim.name, |ledger, now| {
                let outcome = ledger.attempt(claim, &self.process, now);
                (outcome, ledger.size, ledger.fence)
            })
            .await?;
        let outcome = outcome.map_err(|refusal| info.locate(refusal))?;
        if let Some(size) = size {
            info.sizes.check(info.scheme, claim, size.into());
        }
        if claim.wait.is_some() {
            let mut placed = self.placed.lock().unwrap();
            match outcome {
                Outcome::Busy { .. } => placed.insert(claim.id, (sent.after(claim.stamp / 4), suspicions)),
                _ => placed.remove(&claim.id),
            };
        }
        Ok(match outcome {
            Outcome::Granted(fence) => {
                // The last fence is that of the only holder, or the end of what was reserved for it.
                let spare =
                    u32::try_from(last.saturating_sub(fence.0)).unwrap_or(u32::MAX).min(claim.reserve);
                Attempt::Granted { fence: Some(fence), until: info.drift.until(sent, claim.lease), spare }
            }
            Outcome::Busy { retry_after, behind, position } => {
                Attempt::Busy { retry_after, behind, position }
            }
            Outcome::Gone => Attempt::Gone,
        })
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.turn().await.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let info = self.store.info();
        let store = self.turn().await;
        let sent = info.clock().now();
        // A name with many waiters is read and written once.
        let mut by_name: BTreeMap<&Name, Vec<usize>> = BTreeMap::new();
        for (i, claim) in claims.iter().enumerate() {
            by_name.entry(&claim.name).or_default().push(i);
        }
        let names: Vec<&Name> = by_name.keys().copied().collect();
        let groups: Vec<&Vec<usize>> = by_name.values().collect();
        let found = store
            .update_many(&names, |g, ledger, now| ledger.renew(groups[g].iter().map(|i| &*claims[*i]), now));
        let mut answers = vec![Renewal::Gone; claims.len()];
        for (group, found) in groups.iter().zip(found.await?) {
            for (i, found) in group.iter().zip(found) {
                answers[*i] = match found {
                    Found::Held => Renewal::Held { until: info.drift.until(sent, claims[*i].lease) },
                    Found::Queued => Renewal::Queued,
                    Found::Gone => Renewal::Gone,
                };
            }
        }
        Ok(answers)
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        self.placed.lock().unwrap().remove(&claim.id);
        self.turn().await.update(&claim.name, |ledger, now| ledger.release(claim, left, now)).await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        let counted = self.turn().await.update(name, |ledger, now| ledger.count(name, counter, op, id, now));
        counted.await?.map_err(|refusal| self.store.info().locate(refusal))
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl<S: LedgerStore> Admin for Ledgered<S> {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        let store = self.turn().await;
        match query {
            Query::Name(name) => {
                let seen = store.peek(&name).await?;
                Ok(seen.and_then(|(mut ledger, now)| ledger.snapshot(&name, now)).into_iter().collect())
            }
            Query::Prefix { prefix, limit, idle } => {
                let listed = |name: &Name, mut ledger: Ledger, now| {
                    ledger.snapshot(name, now).filter(|seen| idle || !seen.is_idle())
                };
                store.scan(&prefix, limit, listed).await
            }
        }
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.store.diagnose().await
    }
}

impl<S: LedgerStore> Ledgered<S> {
    /// Answers a repeated attempt of a waiter with a read only, as long as its queue position is fresh and the name is
    /// held. Only for kinds that are not bound by the queue.
    async fn still_busy(&self, claim: &Claim) -> Result<Option<Attempt>> {
        let info = self.store.info();
        let place = self.placed.lock().unwrap().get(&claim.id).copied();
        let is_fresh =
            |(until, suspicions)| info.clock().now() < until && suspicions == info.suspicion.times();
        if claim.wait.is_none() || claim.kind.is_queued() || !place.is_some_and(is_fresh) {
            return Ok(None);
        }
        let Some((mut ledger, now)) = self.turn().await.inside(&claim.name).await? else { return Ok(None) };
        let looks = Claim { wait: None, ..claim.clone() };
        Ok(match ledger.attempt(&looks, &self.process, now) {
            Ok(Outcome::Busy { retry_after, behind, .. }) => {
                Some(Attempt::Busy { retry_after, behind, position: None })
            }
            _ => None,
        })
    }
}

/// The watchers in this process, by name. A store passes the effects of each change to it.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure_core::backend::{ClientId, Interest, Name, Signal};
/// # use tenure_core::ledger::{Effects, Watched};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let (client, name) = (ClientId::new(), Name::new("cron")?);
/// let watched = Arc::new(Watched::default());
/// let mut watch = watched.subscribe(&name, Interest::Holder(client));
/// assert!(watched.is_watching(&name, client));
/// watched.notify(&name, &Effects { holder: true, ..Effects::default() });
/// assert_eq!(watch.signal().await, Signal::Changed);
/// watched.notify_all(None); // something may have been missed
/// assert_eq!(watch.signal().await, Signal::Changed);
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Watched {
    /// By number, so that one that ends is found among many.
    names: Mutex<HashMap<Name, BTreeMap<u64, Weak<Watcher>>>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Watcher {
    client: ClientId,
    topic: Topic,
    open: AtomicBool,
    notify: Notify,
}

impl Watcher {
    /// Wakes the watcher. Its waker is foreign code: a panic is caught, so that the other watchers are woken too.
    fn wake(&self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.notify.notify_one()));
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Topic {
    Admissions,
    Count,
    Holder,
}

impl Watched {
    /// Subscribes to `name`.
    pub fn subscribe(self: &Arc<Self>, name: &Name, interest: Interest<'_>) -> Box<dyn Watch> {
        let (client, topic) = match interest {
            Interest::Claim(claim) => (claim.id.client, Topic::Admissions),
            Interest::Count(client, _) => (client, Topic::Count),
            Interest::Holder(client) => (client, Topic::Holder),
        };
        let watcher =
            Arc::new(Watcher { client, topic, open: AtomicBool::new(false), notify: Notify::new() });
        let n = self.next.fetch_add(1, SeqCst);
        self.names.lock().unwrap().entry(name.clone()).or_default().insert(n, Arc::downgrade(&watcher));
        Box::new(Subscription { watcher, n, name: name.clone(), watched: self.clone() })
    }

    /// Notifies the watchers affected by a change.
    pub fn notify(&self, name: &Name, effects: &Effects) {
        if effects.admit.is_empty() && !effects.count && !effects.holder {
            return;
        }
        for watcher in self.watchers(name) {
            let concerned = match watcher.topic {
                Topic::Admissions => effects.admit.contains(&watcher.client),
                Topic::Count => effects.count,
                Topic::Holder => effects.holder,
            };
            if concerned {
                watcher.open.fetch_or(effects.open, SeqCst);
                watcher.wake();
            }
        }
    }

    /// Notifies all watchers of `name`, or of all names.
    pub fn notify_all(&self, name: Option<&Name>) {
        let watchers = match name {
            Some(name) => self.watchers(name),
            None => {
                let names = self.names.lock().unwrap();
                names.values().flat_map(BTreeMap::values).filter_map(Weak::upgrade).collect()
            }
        };
        watchers.iter().for_each(|watcher| watcher.wake());
    }

    /// Returns the watchers of `name`, to be notified outside the lock: a waker is foreign code.
    fn watchers(&self, name: &Name) -> Vec<Arc<Watcher>> {
        let names = self.names.lock().unwrap();
        let watchers = names.get(name).into_iter().flat_map(BTreeMap::values);
        watchers.inspect(|_| visit()).filter_map(Weak::upgrade).collect()
    }

    /// Whether a client watches `name` in this process.
    pub fn is_watching(&self, name: &Name, client: ClientId) -> bool {
        self.watchers(name).iter().any(|watcher| watcher.client == client)
    }
}

struct Subscription {
    watcher: Arc<Watcher>,
    n: u64,
    name: Name,
    watched: Arc<Watched>,
}

#[async_trait]
impl Watch for Subscription {
    async fn signal(&mut self) -> Signal {
        self.watcher.notify.notified().await;
        if self.watcher.open.swap(false, SeqCst) { Signal::Open } else { Signal::Changed }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut names = self.watched.names.lock().unwrap();
        if let Some(watchers) = names.get_mut(&self.name) {
            watchers.remove(&self.n);
            if watchers.is_empty() {
                names.remove(&self.name);
            }
        }
    }
}

/// Counts a visit to a watcher, for the test of what they cost.
fn visit() {
    #[cfg(test)]
    tests::VISITED.with(|visited| visited.set(visited.get() + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        pub(super) static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Lets `n` watch a latch until it opens. Returns how many watchers were visited.
    fn visits(n: usize) -> usize {
        VISITED.set(0);
        let (watched, name) = (Arc::new(Watched::default()), Name::new("x").unwrap());
        let interest = || Interest::Count(ClientId::new(), Counter::Latch);
        let watching: Vec<_> = (0..n).map(|_| watched.subscribe(&name, interest())).collect();
        watched.notify(&name, &Effects { count: true, open: true, ..Effects::default() });
        // The last one first: it costs the most where the others are looked at.
        watching.into_iter().rev().for_each(drop);
        assert!(watched.names.lock().unwrap().is_empty(), "nothing is left of them");
        VISITED.get()
    }

    #[test]
    fn a_watcher_costs_no_more_when_more_watch() {
        assert_eq!((visits(100), visits(400)), (100, 400));
    }
}
