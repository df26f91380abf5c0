//! The keeper: a thread of the client that renews holds and finds those that have ended. Nothing else runs on it:
//! telemetry, wake-ups and releases are handed to the worker, so that neither blocking code on the caller's runtime,
//! nor a queue of acquires, nor a waker that blocks or panics delays a renewal.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use crate::backend::{Claim, Error, Kind, LostReason, Name, Renewal, Time};
use crate::engine::core::Core;
use crate::engine::hold::{Due, Hold};
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
    by_task: Mutex<Option<ByTask>>,
    /// How often all holds were scanned to find those of a task.
    #[cfg(test)]
    walks: std::sync::atomic::AtomicU64,
}

/// Which task held which names at one point in time.
#[derive(Debug)]
struct ByTask {
    at: Instant,
    held: HashSet<(tokio::task::Id, Name)>,
}

/// All holds, and requests in flight that may become holds.
#[derive(Debug)]
struct Held {
    holds: HashMap<u64, Arc<Hold>>,
    /// Requests started in the tasks of callers and not answered yet.
    unanswered: HashMap<u64, Supervised>,
    /// When the keeper checks next. Registering a hold whose next event is later does not wake it.
    planned: Time,
    /// Something was registered since the last check, so keep checking periodically.
    touched: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self { holds: HashMap::new(), unanswered: HashMap::new(), planned: Time::MAX, touched: false }
    }
}

/// A hold to be verified, and extended unless the lease of its claim is zero.
struct Proof {
    hold: Arc<Hold>,
    claim: Arc<Claim>,
    /// The store may have lost it: it must be verified even if it is no longer renewed.
    doubt: bool,
}

impl Proof {
    fn lease(&self) -> Duration {
        if self.claim.lease.is_zero() { self.hold.claim.lease } else { self.claim.lease }
    }
}

impl Keeper {
    /// Registers a hold. Wakes the keeper only if its next event is before the next check.
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

    /// Wakes the keeper if the next event of a registered hold is now before the next check.
    pub(crate) fn sooner(&self, hold: &Hold) {
        let event = hold.next_event();
        if event < self.held.lock().unwrap().planned {
            self.wake.notify_one();
        }
    }

    fn deregister(&self, hold: &Hold) {
        self.held.lock().unwrap().holds.remove(&hold.claim.id.n);
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
        self.held.lock().unwrap().holds.values().cloned().collect()
    }

    /// Whether this task holds `name`; the answer may be up to a second old. All holds are scanned once a second at
    /// most, however many callers there are.
    pub(crate) fn is_held_by(&self, name: &Name, task: tokio::task::Id) -> bool {
        const FRESH: Duration = Duration::from_secs(1);
        let mut known = self.by_task.lock().unwrap();
        if known.as_ref().is_none_or(|known| known.at.elapsed() >= FRESH) {
            #[cfg(test)]
            self.walks.fetch_add(1, SeqCst);
            let of = |hold: &Arc<Hold>| Some((hold.flow.task?, hold.claim.name.clone()));
            *known = Some(ByTask { at: Instant::now(), held: self.all().iter().filter_map(of).collect() });
        }
        known.as_ref().is_some_and(|known| known.held.contains(&(task, name.clone())))
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

    /// Runs the keeper until the client ends. In its own task, so that a panic in foreign code, such as a tracing
    /// subscriber, ends the task and not the thread.
    pub(crate) async fn keep(self: Arc<Self>, seen: u64) {
        while let Err(error) = tokio::spawn(self.clone().watch_over(seen)).await {
            if !error.is_panic() {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn watch_over(self: Arc<Self>, mut seen: u64) {
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
    }

    /// How often the store has raised doubt.
    pub(crate) fn doubts(&self) -> u64 {
        self.backend.info().doubt.times()
    }

    /// Verifies all holds and makes all waiters try again, because the store may have lost anything.
    fn doubt_all(self: &Arc<Self>) {
        let now = self.clock.now();
        let holds = self.keeper.all();
        holds.iter().for_each(|hold| hold.doubt(now));
        self.hand_over(move |core| {
            core.telemetry.doubted(holds.len());
            core.gates.look_again();
        });
    }

    /// Verifies a hold that was granted before a doubt was raised, but was not registered yet at that time. `seen` is
    /// the number of doubts before its attempt was sent.
    pub(crate) fn doubt_since(&self, seen: u64, hold: &Hold) {
        if self.doubts() != seen {
            hold.doubt(self.clock.now());
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
            held.holds.retain(|_, hold| {
                if hold.warns(now) {
                    warn.push(hold.clone());
                }
                match hold.due(now, renewing) {
                    Due::Nothing => {}
                    Due::Renew(claim) => renew.push(Proof { hold: hold.clone(), claim, doubt: false }),
                    Due::Prove(claim) => renew.push(Proof { hold: hold.clone(), claim, doubt: true }),
                    Due::Lose(reason) => {
                        lose.push((hold.clone(), reason));
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
        self.renew_all(renew);
        next
    }

    /// Groups renewals by shard, so that a failing shard does not delay the others, and by lease, so that the short
    /// timeout of a short lease does not apply to a long one.
    fn renew_all(self: &Arc<Self>, due: Vec<Proof>) {
        let mut together: HashMap<(usize, u32), Vec<Proof>> = HashMap::new();
        for proof in due {
            let about = proof.lease().as_millis().max(1).ilog2();
            together.entry((self.backend.shard(&proof.claim.name), about)).or_default().push(proof);
        }
        let mut batches = Vec::new();
        for mut due in together.into_values() {
            while !due.is_empty() {
                let batch = due.split_off(due.len().saturating_sub(BATCH));
                batches.push(Sent { core: self.clone(), batch });
            }
        }
        for sent in batches {
            let span = self.telemetry.renew_span(sent.batch.len());
            tokio::spawn(sent.renew().instrument(span));
        }
    }

    /// Applies the answer to a renewal to its hold.
    fn keeps(&self, proof: &Proof, answer: &Renewal, sent: Time) -> Kept {
        let Proof { hold, claim, .. } = proof;
        if matches!(answer, Renewal::Held { .. }) {
            self.prove_shared(hold, sent);
        }
        match answer {
            // A hold that was only verified keeps its end.
            Renewal::Held { .. } if claim.lease.is_zero() => Kept::Proved,
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
        let Proof { hold, doubt, .. } = proof;
        let pause = (proof.lease() / 20).clamp(Duration::from_millis(10), LOOK);
        let again = self.clock.now().after(pause);
        if *doubt {
            hold.doubt(again);
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
            hold.doubt(now.after(every));
            self.keeper.sooner(hold);
        }
    }

    pub(crate) fn unanswered(&self, what: impl ToString, limit: Duration) -> Error {
        Error::unknown(self.backend.info().scheme, what, format!("no answer within {limit:?}"))
    }

    /// Marks a hold lost and releases it.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        if hold.lose(reason) {
            self.let_go(hold, reason);
        }
    }

    /// Releases a lost hold in the store, so that waiters are not blocked by a dead hold, and notifies its guards.
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
        self.leave_hold(hold, None);
        self.forget(hold, End::Lost(reason));
    }

    /// Removes an ended hold from the keeper and from its owner's slot.
    pub(crate) fn forget(&self, hold: &Hold, end: End) {
        self.keeper.deregister(hold);
        if let Some(owner) = hold.owner {
            self.slots.tidy(owner, &hold.claim.name);
        }
        self.telemetry.ended(hold, end, &self.clock);
    }
}

/// A batch in flight. If it ends without an answer, for instance by a panic, it is sent again.
struct Sent {
    core: Arc<Core>,
    batch: Vec<Proof>,
}

impl Sent {
    async fn renew(mut self) {
        let core = self.core.clone();
        let claims: Vec<Arc<Claim>> = self.batch.iter().map(|p| p.claim.clone()).collect();
        let at = core.clock.now();
        let shortest = self.batch.iter().map(Proof::lease).min().unwrap_or_default();
        let limit = shortest.min(core.settings.lease) / 3;
        let answers = match timeout(limit, core.backend.renew(&claims)).await {
            Ok(answer) => answer,
            Err(_) => Err(core.unanswered("renew", limit)),
        };
        let batch = std::mem::take(&mut self.batch);
        let kept: Vec<_> = match &answers {
            Ok(answers) => {
                batch.iter().zip(answers).map(|(proof, answer)| core.keeps(proof, answer, at)).collect()
            }
            Err(_) => batch.iter().map(|proof| core.renew_again(proof)).collect(),
        };
        core.hand_over(move |core| {
            let error = answers.err().map(|error| error.to_string());
            let error = error.as_deref().unwrap_or("not enough of the store answered");
            for (Proof { hold, claim, .. }, kept) in batch.iter().zip(kept) {
                match kept {
                    Kept::Proved => {}
                    Kept::Renewed => core.telemetry.renewed(hold),
                    Kept::Again => core.telemetry.renewal_failed(claim, error),
                    Kept::Lost(reason) => core.let_go(hold, reason),
                }
            }
        });
    }
}

impl Drop for Sent {
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

    #[tokio::test]
    async fn holds_are_walked_once_a_second_however_many_ask() {
        let client = Client::new(Memory::new());
        let name = Name::new("x").unwrap();
        let held = client.clone();
        let task = tokio::spawn(async move { (held.lock("x").acquire().await.unwrap(), tokio::task::id()) });
        let (_guard, task) = task.await.unwrap();
        let keeper = &client.engine.core.keeper;
        let start = Instant::now();
        assert!((0..10_000).all(|_| keeper.is_held_by(&name, task)));
        assert!(!keeper.is_held_by(&Name::new("y").unwrap(), task));
        let (walks, seconds) = (keeper.walks.load(SeqCst), start.elapsed().as_secs());
        assert!(walks <= 1 + seconds, "{walks} walks in {seconds} s");
    }
}
