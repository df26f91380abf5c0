//! The keeper: a thread of the client that renews holds and finds those that have ended. Nothing else runs on it:
//! telemetry, wake-ups and releases are handed to the worker, so that neither blocking code on the caller's runtime,
//! nor a queue of acquires, nor a waker or a tracing subscriber that blocks or panics delays a renewal.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::backend::{Claim, Error, Kind, LostReason, Name, Renewal, Time};
use crate::engine::acquisition::Flow;
use crate::engine::core::Core;
use crate::engine::hold::{Ask, Due, Hold};
use crate::engine::in_flight::{Flight, Look, Supervised};
use crate::engine::telemetry::End;
use crate::engine::worker::Job;

/// How often the keeper checks at least while anything is held, because timers do not advance during suspend.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum number of claims in one renewal.
const BATCH: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Keeper {
    held: Mutex<Held>,
    wake: Notify,
    stop: AtomicBool,
    /// How many holds were visited by [`Keeper::all`].
    #[cfg(test)]
    pub(crate) visited: std::sync::atomic::AtomicUsize,
}

/// All holds, and requests in flight that may become holds.
#[derive(Debug)]
struct Held {
    holds: BTreeMap<u64, Arc<Hold>>,
    by_flow: ByFlow,
    /// Requests started in the tasks of callers and not answered yet.
    unanswered: BTreeMap<u64, Supervised>,
    /// When the keeper checks next. Registering a hold whose next event is later does not wake it.
    planned: Time,
    /// Something was registered since the last check, so keep checking periodically.
    touched: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            holds: BTreeMap::new(),
            by_flow: ByFlow::default(),
            unanswered: BTreeMap::new(),
            planned: Time::MAX,
            touched: false,
        }
    }
}

/// How often each flow holds each name.
#[derive(Debug, Default)]
struct ByFlow(HashMap<(Flow, Name), u32>);

impl ByFlow {
    fn key(hold: &Hold) -> (Flow, Name) {
        (hold.flow, hold.claim.name.clone())
    }

    fn add(&mut self, hold: &Hold) {
        *self.0.entry(Self::key(hold)).or_default() += 1;
    }

    fn remove(&mut self, hold: &Hold) {
        let key = Self::key(hold);
        if let Entry::Occupied(mut times) = self.0.entry(key) {
            *times.get_mut() -= 1;
            if *times.get() == 0 {
                times.remove();
            }
        }
    }
}

/// A hold to be verified, and extended unless the lease of its claim is zero.
struct Proof {
    hold: Arc<Hold>,
    ask: Ask,
    /// It must be verified even if it is no longer renewed: the store may have lost it.
    suspicion: bool,
}

impl Proof {
    fn lease(&self) -> Duration {
        self.ask.lease.unwrap_or(self.hold.claim.lease)
    }
}

impl Keeper {
    /// Registers a hold. Wakes the keeper only if its next event is before the next check.
    pub(crate) fn register(&self, hold: &Arc<Hold>) {
        let event = hold.next_event();
        let mut held = self.held.lock().unwrap();
        held.holds.insert(hold.claim.id.n, hold.clone());
        held.by_flow.add(hold);
        held.touched = true;
        if event < held.planned {
            drop(held);
            self.wake.notify_one();
        }
    }

    /// Puts a hold in the place of the one that it continues, unless that one is over or a request about it is open.
    pub(crate) fn replace(&self, before: &Arc<Hold>, next: &Arc<Hold>) -> bool {
        let event = next.next_event();
        let mut held = self.held.lock().unwrap();
        let Held { holds, by_flow, planned, .. } = &mut *held;
        let Some(place) = holds.get_mut(&before.claim.id.n) else { return false };
        if !Arc::ptr_eq(place, before) || before.passing.is_asked() {
            return false;
        }
        *place = next.clone();
        by_flow.remove(before);
        by_flow.add(next);
        let sooner = event < *planned;
        drop(held);
        if sooner {
            self.wake.notify_one();
        }
        true
    }

    /// Wakes the keeper if the next event of a registered hold is now before the next check.
    pub(crate) fn sooner(&self, hold: &Hold) {
        let event = hold.next_event();
        if event < self.held.lock().unwrap().planned {
            self.wake.notify_one();
        }
    }

    fn deregister(&self, hold: &Hold) {
        let mut held = self.held.lock().unwrap();
        if held.holds.remove(&hold.claim.id.n).is_some() {
            held.by_flow.remove(hold);
        }
    }

    /// Supervises a request that may go without a poll for `patience`. Wakes the keeper as [`Keeper::register`] does.
    pub(crate) fn supervise(&self, key: u64, flight: Arc<Flight>, patience: Duration, now: Time) {
        let supervised = Supervised::new(flight, patience, now);
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

    /// Revokes all requests in flight except those being polled, and returns them to be undone.
    pub(crate) fn revoke_all(&self) -> Vec<Arc<Flight>> {
        let held = self.held.lock().unwrap();
        held.unanswered.values().map(|s| &s.flight).filter(|b| b.close()).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        let all: Vec<_> = self.held.lock().unwrap().holds.values().cloned().collect();
        #[cfg(test)]
        self.visited.fetch_add(all.len(), SeqCst);
        all
    }

    /// Whether this flow holds `name`.
    pub(crate) fn is_held_by(&self, name: &Name, flow: Flow) -> bool {
        self.held.lock().unwrap().by_flow.0.contains_key(&(flow, name.clone()))
    }

    /// How many pairs of flow and name are known.
    #[cfg(test)]
    pub(crate) fn held_by_flows(&self) -> usize {
        self.held.lock().unwrap().by_flow.0.len()
    }

    /// Stops the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_one();
    }
}

impl Core {
    /// Whether everything due at `now` has been done, and, if the store is `up`, all releases are done.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_settled(&self, now: Time, up: bool) -> bool {
        self.keeper.all().iter().all(|hold| hold.is_settled(now))
            && self.worker.is_idle()
            && !(up && self.releases.any())
    }

    /// Runs the keeper until the client ends. In its own task, so that a panic in foreign code, such as a backend, ends
    /// the task and not the thread.
    pub(crate) async fn keep(self: Arc<Self>, seen: u64) {
        while let Err(error) = tokio::spawn(self.clone().watch_over(seen)).await {
            if !error.is_panic() {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn watch_over(self: Arc<Self>, mut seen: u64) {
        let suspicion = self.backend.info().suspicion.clone();
        while !self.keeper.stop.load(SeqCst) {
            let next = self.look();
            tokio::select! {
                biased;
                times = suspicion.above(seen) => {
                    seen = times;
                    self.suspect_all();
                }
                () = self.keeper.wake.notified() => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    /// How often the store has raised suspicion.
    pub(crate) fn suspicions(&self) -> u64 {
        self.backend.info().suspicion.times()
    }

    /// Verifies all holds and makes all waiters try again, because the store may have lost anything.
    fn suspect_all(self: &Arc<Self>) {
        let now = self.clock.now();
        let holds = self.keeper.all();
        holds.iter().for_each(|hold| hold.suspect(now));
        self.hand_over(move |core| {
            core.telemetry.suspected(holds.len());
            core.gates.look_again();
        });
    }

    /// Verifies a hold that was granted before a suspicion was raised, but was not registered yet at that time. `seen` is
    /// the number of suspicions before its attempt was sent.
    pub(crate) fn suspect_since(&self, seen: u64, hold: &Hold) {
        if self.suspicions() != seen {
            hold.suspect(self.clock.now());
            self.keeper.sooner(hold);
        }
    }

    /// Renews what is due, hands everything else that is due to the worker, and returns when to check next.
    fn look(self: &Arc<Self>) -> Time {
        // While a hold is missing here but not released yet, the worker must not appear idle.
        let _job = Job::begin(self);
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
                    Look::Wake => wake.push(supervised.flight.clone()),
                    Look::Undo => undo.push(supervised.flight.clone()),
                }
                !matches!(look, Look::Undo)
            });
            let renewing = held.holds.values().any(|hold| hold.renews(now));
            let Held { holds, by_flow, .. } = &mut *held;
            holds.retain(|_, hold| {
                if hold.warns(now) {
                    warn.push(hold.clone());
                }
                match hold.due(now, renewing) {
                    Due::Nothing => {}
                    Due::Renew(ask) => renew.push(Proof { hold: hold.clone(), ask, suspicion: false }),
                    Due::Prove(ask) => renew.push(Proof { hold: hold.clone(), ask, suspicion: true }),
                    Due::Lose(reason) => {
                        lose.push((hold.clone(), reason));
                        by_flow.remove(hold);
                        return false;
                    }
                    Due::Reclaim => reclaim.push(hold.clone()),
                }
                next = next.min(hold.next_event().max(now));
                true
            });
            held.planned = next;
            next
        };
        for (hold, reason) in lose {
            if hold.lose(reason) {
                self.hand_over(move |core| core.let_go(&hold, reason));
            }
        }
        for hold in warn {
            self.hand_over(move |core| core.telemetry.held_long(&hold, now));
        }
        for flight in wake {
            self.hand_over(move |_| flight.wake());
        }
        for flight in undo {
            self.hand_over(move |core| flight.undo(core));
        }
        for hold in reclaim {
            // Dropping what is taken out of the mailboxes releases it.
            self.hand_over(move |_| drop(hold.uncollected()));
        }
        self.renew_all(Renewals { core: self.clone(), batch: renew });
        next
    }

    /// Groups renewals by shard, so that a failing shard does not delay the others, and by lease, so that the short
    /// timeout of a short lease does not apply to a long one.
    fn renew_all(self: &Arc<Self>, mut due: Renewals) {
        let mut together: BTreeMap<(usize, u32), Renewals> = BTreeMap::new();
        while let Some(proof) = due.batch.last() {
            let about = proof.lease().as_millis().max(1).ilog2();
            // The backend is foreign code: if it panics, nothing may be missing in both `due` and `together`.
            let key = (self.backend.shard(&proof.ask.claim.name), about);
            let group =
                together.entry(key).or_insert_with(|| Renewals { core: self.clone(), batch: Vec::new() });
            group.batch.extend(due.batch.pop());
        }
        for mut due in together.into_values() {
            while !due.batch.is_empty() {
                let batch = due.batch.split_off(due.batch.len().saturating_sub(BATCH));
                tokio::spawn(Renewals { core: self.clone(), batch }.send());
            }
        }
    }

    /// Applies the answer to a renewal to its hold.
    fn keeps(&self, proof: &Proof, answer: &Renewal, sent: Time) -> Kept {
        let Proof { hold, ask, suspicion } = proof;
        hold.passing.answered();
        if matches!(answer, Renewal::Held { .. }) {
            hold.leases.confirm(sent, ask.claim.lease);
            if *suspicion {
                hold.proved();
            }
            self.prove_shared(hold, sent);
        }
        match answer {
            Renewal::Held { .. } if ask.lease.is_none() => Kept::Proved,
            Renewal::Held { until } if hold.renewed(sent, *until) => {
                self.keeper.sooner(hold);
                Kept::Renewed
            }
            Renewal::Held { .. } => Kept::lost(hold, LostReason::Expired),
            Renewal::Queued | Renewal::Gone => Kept::lost(hold, LostReason::Gone),
            Renewal::Unanswered => self.renew_again(proof),
        }
    }

    fn renew_again(&self, proof: &Proof) -> Kept {
        let Proof { hold, suspicion, .. } = proof;
        hold.passing.answered();
        let pause = (proof.lease() / 20).clamp(Duration::from_millis(10), LOOK);
        let again = self.clock.now().after(pause);
        if *suspicion {
            hold.prove(again);
        } else {
            hold.renew_again(again);
        }
        self.keeper.sooner(hold);
        Kept::Again
    }

    /// Schedules the next verification of a shared hold, if its renewals are not frequent enough.
    pub(crate) fn prove_shared(&self, hold: &Hold, now: Time) {
        if let (Kind::Read { .. }, Some(every)) = (hold.claim.kind, self.backend.info().shared_proof)
            && !hold.is_renewed_within(every)
        {
            hold.prove(now.after(every));
            self.keeper.sooner(hold);
        }
    }

    pub(crate) fn unanswered(&self, what: impl ToString, limit: Duration) -> Error {
        let info = self.backend.info();
        Error::unknown(info.scheme, what, info.no_answer(limit))
    }

    /// Marks a hold lost and releases it.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        if hold.lose(reason) {
            self.let_go(hold, reason);
        }
    }

    /// Releases a lost hold in the store, so that waiters are not blocked by a dead hold, and notifies its guards. One
    /// with a minimum is kept until then, unless it was taken away.
    fn let_go(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        struct Tell<'a>(&'a Hold);
        impl Drop for Tell<'_> {
            fn drop(&mut self) {
                self.0.tell_lost();
            }
        }
        // On drop, so that guards are notified even if telemetry panics.
        let _told = Tell(hold);
        // Before it is deregistered, so that it is always either registered or being released.
        match hold.kept_until().filter(|_| reason != LostReason::Gone) {
            Some(end) => drop(self.end_at(hold, end)),
            None => drop(self.leave_hold(hold, None)),
        }
        self.forget(hold, End::Lost(reason));
    }

    /// Removes an ended hold from the keeper and from its owner's slot.
    pub(crate) fn forget(&self, hold: &Hold, end: End) {
        self.keeper.deregister(hold);
        self.waits.remove_hold(hold);
        if let Some(relay) = hold.passing.relay {
            self.gates.leave(self, &hold.claim.name, relay.passed);
        }
        if let Some(owner) = hold.owner {
            self.slots.tidy(owner, &hold.claim.name);
        }
        self.telemetry.ended(hold, end, &self.clock);
    }
}

/// Renewals that are due or in flight. Those that are dropped without an answer, for instance by a panic in the backend,
/// are scheduled again.
struct Renewals {
    core: Arc<Core>,
    batch: Vec<Proof>,
}

impl Renewals {
    async fn send(mut self) {
        let core = self.core.clone();
        let claims: Vec<Arc<Claim>> = self.batch.iter().map(|p| p.ask.claim.clone()).collect();
        let at = core.clock.now();
        let shortest = self.batch.iter().map(Proof::lease).min().unwrap_or_default();
        let limit = shortest.min(core.settings.lease) / 3;
        // Less is left after a failed renewal, and where a lease was granted that nobody asked for: time for one more try.
        let left = self.batch.iter().map(|p| p.hold.until().since(at)).min().unwrap_or_default();
        let limit = limit.min(left / 2).max(limit / 4);
        let began = Instant::now();
        let answers = match timeout(limit, core.backend.renew(&claims)).await {
            Ok(answer) => answer,
            Err(_) => Err(core.unanswered("renew", limit)),
        };
        let took = began.elapsed();
        let batch = std::mem::take(&mut self.batch);
        let kept: Vec<_> = match &answers {
            Ok(answers) => {
                batch.iter().zip(answers).map(|(proof, answer)| core.keeps(proof, answer, at)).collect()
            }
            Err(_) => batch.iter().map(|proof| core.renew_again(proof)).collect(),
        };
        // One job for each lost hold, because telemetry may panic.
        for (Proof { hold, .. }, kept) in batch.iter().zip(&kept) {
            if let Kept::Lost(reason) = *kept {
                let hold = hold.clone();
                core.hand_over(move |core| core.let_go(&hold, reason));
            }
        }
        core.hand_over(move |core| {
            let error = answers.err().map(|error| error.to_string());
            let error = error.as_deref().unwrap_or("not enough of the store answered");
            core.telemetry.renew_span(batch.len(), took).in_scope(|| {
                for (Proof { hold, ask, .. }, kept) in batch.iter().zip(kept) {
                    let changed = match kept {
                        Kept::Lost(_) => false,
                        Kept::Proved | Kept::Renewed => hold.set_failing(false) && hold.is_held(),
                        Kept::Again => hold.set_failing(true),
                    };
                    match kept {
                        Kept::Proved | Kept::Renewed if changed => core.telemetry.renewed_again(hold),
                        Kept::Proved | Kept::Lost(_) => {}
                        Kept::Renewed => core.telemetry.renewed(hold),
                        Kept::Again => core.telemetry.renewal_failed(&ask.claim, error, changed),
                    }
                }
            });
        });
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        for proof in &self.batch {
            self.core.renew_again(proof);
        }
    }
}

/// The result of a renewal.
enum Kept {
    Proved,
    Renewed,
    /// It failed, and will be retried.
    Again,
    /// It is lost, and must be released.
    Lost(LostReason),
}

impl Kept {
    /// Marks the hold lost at once, not when the worker gets to it, so that its guards report it from now on.
    fn lost(hold: &Hold, reason: LostReason) -> Self {
        if hold.lose(reason) { Self::Lost(reason) } else { Self::Proved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Memory};

    /// Lets `n` tasks hold a name each, and asks for each of them. Returns how many holds were visited.
    async fn questions(n: usize) -> usize {
        let client = Client::new(Memory::new());
        let mut held = Vec::new();
        for i in 0..n {
            let lock = client.lock(format!("n{i}"));
            let task = async move { (lock.acquire().await.unwrap(), Flow::current()) };
            held.push(tokio::spawn(task).await.unwrap());
        }
        let keeper = &client.engine.core.keeper;
        keeper.visited.store(0, SeqCst);
        let stranger = tokio::spawn(async { Flow::current() }).await.unwrap();
        for (guard, task) in &held {
            assert!(keeper.is_held_by(guard.name(), *task));
            assert!(!keeper.is_held_by(guard.name(), stranger));
        }
        let visited = keeper.visited.load(SeqCst);
        let (guard, task) = held.swap_remove(0);
        let name = guard.name().clone();
        guard.release().await.unwrap();
        assert!(!keeper.is_held_by(&name, task), "it was released");
        visited
    }

    #[tokio::test]
    async fn to_find_the_holds_of_a_task_no_others_are_visited() {
        assert_eq!((questions(100).await, questions(400).await), (0, 0));
    }
}
