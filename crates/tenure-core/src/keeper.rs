//! The keeper: a thread of the client's own that renews what is held, tells what is lost, and finishes what was
//! dropped. Neither blocking code on the caller's runtime nor a queue of acquires delays it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::backend::{Released, Renewal};
use crate::client::Core;
use crate::hold::{Due, Hold};
use crate::signs::End;
use crate::unanswered::{Begun, Look, Supervised};
use crate::{Claim, Error, Kind, LostReason, Name, Result, Time};

/// The keeper looks at least this often at what is held, since timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_secs(1);
/// Claims in one renewal.
const BATCH: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Keeper {
    runtime: Mutex<Option<Handle>>,
    started: AtomicBool,
    held: Mutex<Held>,
    wake: Notify,
    stop: AtomicBool,
    leaving: Arc<Leaving>,
    /// Held by nobody until their time is over, where the store would not end them.
    alone: Mutex<HashMap<u64, Arc<Claim>>>,
}

/// What is held, and what may be without anybody's knowing.
#[derive(Debug)]
struct Held {
    holds: HashMap<u64, Arc<Hold>>,
    /// Begun in the tasks of callers, and not answered yet.
    unanswered: HashMap<u64, Supervised>,
    /// When the keeper looks next. Registering a hold whose event comes later wakes nobody.
    planned: Time,
    /// Something was registered since the last look: stay awake.
    touched: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self { holds: HashMap::new(), unanswered: HashMap::new(), planned: Time::MAX, touched: false }
    }
}

/// Releases under way in the background, by name, each with its number and its beginning.
#[derive(Debug, Default)]
struct Leaving {
    any: AtomicUsize,
    names: Mutex<HashMap<Name, BTreeMap<u64, Instant>>>,
    next: AtomicU64,
    changed: Notify,
}

/// A release under way, counted until it is dropped.
pub(crate) struct Departure {
    leaving: Arc<Leaving>,
    name: Name,
    n: u64,
}

impl Departure {
    fn new(leaving: &Arc<Leaving>, name: &Name) -> Self {
        let mut names = leaving.names.lock().unwrap();
        let n = leaving.next.fetch_add(1, SeqCst);
        names.entry(name.clone()).or_default().insert(n, Instant::now());
        leaving.any.fetch_add(1, SeqCst);
        drop(names);
        Self { leaving: leaving.clone(), name: name.clone(), n }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        let mut names = self.leaving.names.lock().unwrap();
        if let Some(under_way) = names.get_mut(&self.name) {
            under_way.remove(&self.n);
            if under_way.is_empty() {
                names.remove(&self.name);
            }
        }
        self.leaving.any.fetch_sub(1, SeqCst);
        drop(names);
        self.leaving.changed.notify_waiters();
    }
}

/// A hold to be proved, and extended unless its claim has no lease.
struct Proof {
    hold: Arc<Hold>,
    claim: Arc<Claim>,
    /// It is in doubt: it has to be proved even if it is not renewed any more.
    doubt: bool,
}

impl Proof {
    fn lease(&self) -> Duration {
        if self.claim.lease.is_zero() { self.hold.claim.lease } else { self.claim.lease }
    }
}

/// A sleep on the keeper's runtime, since the caller's may have no timers. Ends with its owner.
pub(crate) struct Timer(JoinHandle<()>);

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Keeper {
    /// Registers a hold. Wakes the keeper only if its event comes before the next look.
    pub(crate) fn register(&self, hold: &Arc<Hold>) {
        let event = hold.next_event();
        let mut held = self.held.lock().unwrap();
        held.holds.insert(hold.claim.id.n, hold.clone());
        held.touched = true;
        if event < held.planned {
            drop(held);
            self.wake.notify_one();
        }
    }

    /// Something about a registered hold comes sooner than it said.
    pub(crate) fn sooner(&self, hold: &Hold) {
        let event = hold.next_event();
        if event < self.held.lock().unwrap().planned {
            self.wake.notify_one();
        }
    }

    /// Whether it was registered.
    pub(crate) fn deregister(&self, hold: &Hold) -> bool {
        self.held.lock().unwrap().holds.remove(&hold.claim.id.n).is_some()
    }

    /// Looks after something unanswered that may be left alone for `patience`. Wakes the keeper as a hold does.
    pub(crate) fn supervise(&self, key: u64, begun: Arc<Begun>, patience: Duration, now: Time) {
        let supervised = Supervised::new(begun, patience, now);
        let event = supervised.at();
        let mut held = self.held.lock().unwrap();
        held.unanswered.insert(key, supervised);
        held.touched = true;
        if event < held.planned {
            drop(held);
            self.wake.notify_one();
        }
    }

    pub(crate) fn dismiss(&self, key: u64) {
        self.held.lock().unwrap().unanswered.remove(&key);
    }

    /// Ends everything unanswered but what is being polled. What it ended, to be undone.
    pub(crate) fn revoke_all(&self) -> Vec<Arc<Begun>> {
        let held = self.held.lock().unwrap();
        held.unanswered.values().map(|s| &s.begun).filter(|b| b.close()).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.held.lock().unwrap().holds.values().cloned().collect()
    }

    /// Whether all that was due at `now` has been done, and, where the store is `up`, all releases with it.
    pub(crate) fn is_settled(&self, now: Time, up: bool) -> bool {
        self.all().iter().all(|hold| hold.is_settled(now)) && !(up && self.leaving.any.load(SeqCst) > 0)
    }

    /// The holds of this client on `name` taken by this task.
    pub(crate) fn held_by_task(&self, name: &Name, task: tokio::task::Id) -> bool {
        let held = self.held.lock().unwrap();
        held.holds.values().any(|h| h.flow.task == Some(task) && h.claim.name == *name)
    }

    /// Counts one more release of `name` under way, until it is dropped.
    pub(crate) fn departure(&self, name: &Name) -> Departure {
        Departure::new(&self.leaving, name)
    }

    /// Ends the thread once the releases under way are done.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_one();
    }

    /// Something that [`Core::quiesce`] waits for is over.
    pub(crate) fn something_ended(&self) {
        self.leaving.changed.notify_waiters();
    }
}

impl Leaving {
    async fn until(&self, done: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if done(self) {
                return;
            }
            changed.await;
        }
    }
}

impl Core {
    /// The keeper's runtime; its thread is started on first use.
    pub(crate) fn runtime(self: &Arc<Self>) -> Result<Handle> {
        let mut runtime = self.keeper.runtime.lock().unwrap();
        if let Some(handle) = &*runtime {
            return Ok(handle.clone());
        }
        let no_thread = |e| self.backend.info().unavailable("start the keeper", e);
        let own = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = own.handle().clone();
        let (core, seen) = (self.clone(), self.doubts());
        std::thread::Builder::new()
            .name("tenure-keeper".into())
            .spawn(move || own.block_on(core.keep(seen)))
            .map_err(no_thread)?;
        *runtime = Some(handle.clone());
        self.keeper.started.store(true, SeqCst);
        Ok(handle)
    }

    /// Makes sure that the keeper runs, before anything is taken that it must keep.
    pub(crate) fn ensure_keeper(self: &Arc<Self>) -> Result<()> {
        if self.keeper.started.load(SeqCst) { Ok(()) } else { self.runtime().map(drop) }
    }

    pub(crate) fn timer(self: &Arc<Self>, at: Instant) -> Result<Timer> {
        // Made inside the task: a sleep takes its timer from the runtime that it is made in.
        Ok(Timer(self.runtime()?.spawn(async move { tokio::time::sleep_until(at).await })))
    }

    pub(crate) async fn sleep(self: &Arc<Self>, d: Duration) -> Result<()> {
        self.timer(Instant::now() + d)?.await;
        Ok(())
    }

    /// Waits until nothing is under way in the background. The names of what was not done in time.
    pub(crate) async fn quiesce(self: &Arc<Self>, limit: Duration) -> Vec<Name> {
        let Some(runtime) = self.keeper.runtime.lock().unwrap().clone() else { return Vec::new() };
        let core = self.clone();
        let waiting = runtime.spawn(async move {
            let leaving = &core.keeper.leaving;
            let done = leaving.until(|l| l.any.load(SeqCst) == 0 && core.gates.names().is_empty());
            let _ = timeout(limit, done).await;
            let mut left: BTreeSet<Name> = leaving.names.lock().unwrap().keys().cloned().collect();
            left.extend(core.gates.names());
            left.into_iter().collect()
        });
        waiting.await.unwrap_or_default()
    }

    async fn keep(self: Arc<Self>, mut seen: u64) {
        let doubt = self.backend.info().doubt.clone();
        while !self.keeper.stop.load(SeqCst) {
            let next = self.look();
            tokio::select! {
                () = self.keeper.wake.notified() => {}
                () = self.clock.sleep_until(next) => {}
                times = doubt.above(seen) => {
                    seen = times;
                    self.doubt_all();
                }
            }
        }
        let alone = std::mem::take(&mut *self.keeper.alone.lock().unwrap());
        alone.into_values().for_each(|claim| drop(self.leave_in_background(claim, None)));
        let limit = self.settings.close_timeout;
        let _ = timeout(limit, self.keeper.leaving.until(|l| l.any.load(SeqCst) == 0)).await;
    }

    /// How often the store gave reason to doubt what it had said.
    pub(crate) fn doubts(&self) -> u64 {
        self.backend.info().doubt.times()
    }

    /// The store may have forgotten anything: all that is held is proved, and all who wait look again.
    fn doubt_all(&self) {
        let now = self.clock.now();
        let holds = self.keeper.all();
        self.signs.doubted(holds.len());
        holds.iter().for_each(|hold| hold.doubt(now));
        self.gates.look_again();
    }

    /// A hold that was not registered yet when a doubt was raised, but had been granted before, is proved too. `seen`
    /// is how many doubts there were before its attempt was sent.
    pub(crate) fn doubt_since(&self, seen: u64, hold: &Hold) {
        if self.doubts() != seen {
            hold.doubt(self.clock.now());
            self.keeper.sooner(hold);
        }
    }

    /// Does what is due, and says when to look again.
    fn look(self: &Arc<Self>) -> Time {
        let now = self.clock.now();
        let (mut renew, mut lose, mut reclaim) = (Vec::new(), Vec::new(), Vec::new());
        let (mut wake, mut undo, mut warn) = (Vec::new(), Vec::new(), Vec::new());
        let next = {
            let mut held = self.keeper.held.lock().unwrap();
            let idle = held.holds.is_empty() && held.unanswered.is_empty() && !held.touched;
            let mut next = if idle { Time::MAX } else { now.after(LOOK) };
            held.touched = false;
            held.unanswered.retain(|_, supervised| {
                let look = supervised.look(now);
                next = next.min(supervised.at());
                match look {
                    Look::Nothing => {}
                    Look::Wake => wake.push(supervised.begun.clone()),
                    Look::Undo => undo.push(supervised.begun.clone()),
                }
                !matches!(look, Look::Undo)
            });
            let renewing = held.holds.values().any(|hold| hold.renews(now));
            for hold in held.holds.values() {
                if hold.warns(now) {
                    warn.push(hold.clone());
                }
                match hold.due(now, renewing) {
                    Due::Nothing => {}
                    Due::Renew(claim) => renew.push(Proof { hold: hold.clone(), claim, doubt: false }),
                    Due::Prove(claim) => renew.push(Proof { hold: hold.clone(), claim, doubt: true }),
                    Due::Lose(reason) => lose.push((hold.clone(), reason)),
                    Due::Reclaim => reclaim.push(hold.clone()),
                }
                next = next.min(hold.next_event().max(now));
            }
            held.planned = next;
            next
        };
        for (hold, reason) in lose {
            self.lose(&hold, reason);
        }
        warn.iter().for_each(|hold| self.signs.held_long(hold, now));
        wake.iter().for_each(|begun| begun.wake());
        undo.iter().for_each(|begun| begun.undo(self));
        for hold in reclaim {
            // What is taken out of the mailboxes is dropped here, and so released.
            drop(hold.uncollected());
        }
        // A part of the store that fails does not hold up the others.
        let mut shards: HashMap<usize, Vec<_>> = HashMap::new();
        for due in renew {
            shards.entry(self.backend.shard(&due.claim.name)).or_default().push(due);
        }
        for mut due in shards.into_values() {
            while !due.is_empty() {
                let batch = due.split_off(due.len().saturating_sub(BATCH));
                let span = self.signs.renew_span(batch.len());
                tokio::spawn(self.clone().renew(batch).instrument(span));
            }
        }
        next
    }

    async fn renew(self: Arc<Self>, batch: Vec<Proof>) {
        let claims: Vec<Arc<Claim>> = batch.iter().map(|p| p.claim.clone()).collect();
        let sent = self.clock.now();
        let shortest = batch.iter().map(Proof::lease).min().unwrap_or_default();
        let limit = shortest.min(self.settings.lease) / 3;
        let answer = match timeout(limit, self.backend.renew(&claims)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unanswered("renew", limit)),
        };
        match answer {
            Ok(answers) => {
                for (proof, answer) in batch.iter().zip(answers) {
                    let Proof { hold, claim, .. } = proof;
                    if matches!(answer, Renewal::Held { .. }) {
                        self.prove_shared(hold, sent);
                    }
                    match answer {
                        // What was only proved keeps the end that it has.
                        Renewal::Held { .. } if claim.lease.is_zero() => {}
                        Renewal::Held { until } => {
                            if hold.renewed(sent, until) {
                                self.signs.renewed(hold);
                                self.keeper.sooner(hold);
                            } else {
                                self.lose(hold, LostReason::Expired);
                            }
                        }
                        Renewal::Queued | Renewal::Gone => self.lose(hold, LostReason::Gone),
                        Renewal::Unanswered => self.renew_again(proof, "not enough of the store answered"),
                    }
                }
            }
            Err(error) => {
                let error = error.to_string();
                batch.iter().for_each(|proof| self.renew_again(proof, &error));
            }
        }
    }

    fn renew_again(&self, proof: &Proof, error: &str) {
        let Proof { hold, claim, doubt } = proof;
        self.signs.renewal_failed(claim, error);
        let pause = (proof.lease() / 20).clamp(Duration::from_millis(10), LOOK);
        let again = self.clock.now().after(pause);
        if *doubt {
            hold.doubt(again);
        } else {
            hold.renew_again(again);
        }
        self.keeper.sooner(hold);
    }

    /// Plans the next proof of a shared hold, where its own renewals do not come often enough.
    pub(crate) fn prove_shared(&self, hold: &Hold, now: Time) {
        if let (Kind::Read { .. }, Some(every)) = (hold.claim.kind, self.backend.info().shared_proof)
            && !hold.is_renewed_within(every)
        {
            hold.doubt(now.after(every));
            self.keeper.sooner(hold);
        }
    }

    pub(crate) fn unanswered(&self, what: impl ToString, limit: Duration) -> Error {
        Error::Unknown {
            backend: self.backend.info().scheme,
            what: what.to_string(),
            reason: format!("no answer within {limit:?}"),
        }
    }

    /// Turns a hold lost and frees it in the store: its id is dead, and nobody shall wait for nobody.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        if !hold.lose(reason) {
            return;
        }
        // Before it is forgotten: whoever finds the keeper without it finds its release under way.
        self.leave_in_background(hold.claim.clone(), None);
        self.forget(hold, End::Lost(reason));
    }

    /// The hold has ended: neither the keeper nor its owner knows it any more.
    pub(crate) fn forget(&self, hold: &Hold, end: End) {
        if self.keeper.deregister(hold) {
            self.signs.ended(hold, end, &self.clock);
        }
        if let Some(owner) = hold.owner {
            self.slots.tidy(owner, &hold.claim.name);
        }
    }

    /// Releases a claim whose guard or future is gone, however long that takes up to one lease. `unanswered` is what
    /// came of a release that was sent within validity already.
    pub(crate) fn leave_in_background(
        self: &Arc<Self>,
        claim: Arc<Claim>,
        unanswered: Option<Error>,
    ) -> Option<JoinHandle<Result<Released>>> {
        let departure = Departure::new(&self.keeper.leaving, &claim.name);
        let core = self.clone();
        let span = self.signs.release_span(&claim);
        let job = async move {
            let released = core.leave(&claim, unanswered).await;
            if let Err(error) = &released {
                core.signs.release_failed(&claim, error);
            }
            drop(departure);
            released
        };
        // Without a thread nothing can be released; it ends with its lease.
        Some(self.runtime().ok()?.spawn(job.instrument(span)))
    }

    /// Releases a claim when its time is over, or when the client ends.
    pub(crate) fn leave_at(self: &Arc<Self>, claim: Arc<Claim>, end: Time) {
        let core = self.clone();
        if let Ok(runtime) = self.runtime() {
            let key = claim.id.n;
            self.keeper.alone.lock().unwrap().insert(key, claim);
            runtime.spawn(async move {
                core.clock.sleep_until(end).await;
                let claim = core.keeper.alone.lock().unwrap().remove(&key);
                if let Some(claim) = claim {
                    core.leave_in_background(claim, None);
                }
            });
        }
    }

    /// Writes the count of a hold one of whose guards was dropped. The count is for people: once is enough.
    pub(crate) fn unnest_in_background(self: &Arc<Self>, claim: Arc<Claim>, left: u32) {
        let core = self.clone();
        if let Ok(runtime) = self.runtime() {
            runtime.spawn(async move { core.backend.release(&claim, left).await });
        }
    }

    /// Repeats a release until it is confirmed, or until nothing can be left of what its claim may have got: an attempt
    /// sent on a connection that broke may have its effect behind a release sent on the next.
    async fn leave(&self, claim: &Claim, mut unanswered: Option<Error>) -> Result<Released> {
        let give_up = self.clock.now().after(claim.lasts());
        let mut pause = Duration::from_millis(10);
        loop {
            let limit = self.settings.call_timeout;
            let error = match timeout(limit, self.backend.release(claim, 0)).await {
                Ok(Ok(Released::Gone)) if unanswered.is_some() => return Ok(Released::Freed),
                Ok(Err(error)) if error.is_transient() => error,
                Ok(answer) => return answer,
                Err(_) => self.unanswered(format_args!("release {}", claim.name), limit),
            };
            if self.clock.now() >= give_up {
                return Err(error);
            }
            if error.is_unknown() {
                unanswered = Some(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Waits for releases of `name` that are under way in this client now, so that what was dropped is free for the
    /// next line. One that takes longer than a call may is not waited for any more, by nobody: it may take a lease.
    pub(crate) async fn settle(self: &Arc<Self>, name: &Name) {
        let leaving = &self.keeper.leaving;
        if leaving.any.load(SeqCst) == 0 {
            return;
        }
        let (now, patience) = (Instant::now(), self.settings.call_timeout);
        let recent: BTreeMap<u64, Instant> = match leaving.names.lock().unwrap().get(name) {
            Some(under_way) => {
                let ends = under_way.iter().map(|(n, begun)| (*n, *begun + patience));
                ends.filter(|(_, end)| *end > now).collect()
            }
            None => return,
        };
        let Some(end) = recent.values().max() else { return };
        let gone = leaving.until(|l| {
            let names = l.names.lock().unwrap();
            names.get(name).is_none_or(|under_way| !under_way.keys().any(|n| recent.contains_key(n)))
        });
        let Ok(limit) = self.timer(*end) else { return };
        tokio::select! {
            () = gone => {}
            () = limit => {}
        }
    }
}
