//! The keeper: a thread of the client's own that renews what is held and finds what is over. Nothing else runs on it:
//! what has to be told, woken or released is handed to the worker, so that neither blocking code on the caller's runtime,
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

/// The keeper looks at least this often at what is held, since timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_secs(1);
/// Claims in one renewal.
const BATCH: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Keeper {
    held: Mutex<Held>,
    wake: Notify,
    stop: AtomicBool,
    by_task: Mutex<Option<ByTask>>,
    /// How often all holds were walked to find those of a task.
    #[cfg(test)]
    walks: std::sync::atomic::AtomicU64,
}

/// Which task held which names at one moment.
#[derive(Debug)]
struct ByTask {
    at: Instant,
    held: HashSet<(tokio::task::Id, Name)>,
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

    fn deregister(&self, hold: &Hold) {
        self.held.lock().unwrap().holds.remove(&hold.claim.id.n);
    }

    /// Looks after something unanswered that may be left alone for `patience`. Wakes the keeper as a hold does.
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

    /// Ends everything unanswered but what is being polled. What it ended, to be undone.
    pub(crate) fn revoke_all(&self) -> Vec<Arc<Flight>> {
        let held = self.held.lock().unwrap();
        held.unanswered.values().map(|s| &s.flight).filter(|b| b.close()).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.held.lock().unwrap().holds.values().cloned().collect()
    }

    /// Whether this task holds `name`, as of less than a second ago. All holds are walked once a second at most, however
    /// many ask.
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

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_one();
    }
}

impl Core {
    /// Whether all that was due at `now` has been done, and, where the store is `up`, all releases with it.
    pub(crate) fn is_settled(&self, now: Time, up: bool) -> bool {
        self.keeper.all().iter().all(|hold| hold.is_settled(now))
            && self.worker.is_idle()
            && !(up && self.releases.any())
    }

    /// Keeps what is held until the client ends. In a task of its own: a panic in code of others, a tracing subscriber
    /// say, ends the task and not the thread.
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

    /// How often the store gave reason to doubt what it had said.
    pub(crate) fn doubts(&self) -> u64 {
        self.backend.info().doubt.times()
    }

    /// The store may have forgotten anything: all that is held is proved, and all who wait look again.
    fn doubt_all(self: &Arc<Self>) {
        let now = self.clock.now();
        let holds = self.keeper.all();
        holds.iter().for_each(|hold| hold.doubt(now));
        self.hand_over(move |core| {
            core.telemetry.doubted(holds.len());
            core.gates.look_again();
        });
    }

    /// A hold that was not registered yet when a doubt was raised, but had been granted before, is proved too. `seen`
    /// is how many doubts there were before its attempt was sent.
    pub(crate) fn doubt_since(&self, seen: u64, hold: &Hold) {
        if self.doubts() != seen {
            hold.doubt(self.clock.now());
            self.keeper.sooner(hold);
        }
    }

    /// Renews what is due, hands the rest of what is due to the worker, and says when to look again.
    fn look(self: &Arc<Self>) -> Time {
        // Whoever finds a hold missing here finds the worker busy with it.
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
            // What is taken out of the mailboxes is dropped, and so released.
            self.hand_over(move |_| drop(hold.uncollected()));
        }
        self.renew_all(renew);
        next
    }

    /// A part of the store that fails does not hold up the others; nor does a short lease, whose renewal is given up soon,
    /// cut short that of a long one.
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

    /// What the answer to a renewal means for its hold.
    fn keeps(&self, proof: &Proof, answer: &Renewal, sent: Time) -> Kept {
        let Proof { hold, claim, .. } = proof;
        if matches!(answer, Renewal::Held { .. }) {
            self.prove_shared(hold, sent);
        }
        match answer {
            // What was only proved keeps the end that it has.
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

    /// Turns a hold lost, and lets go of it.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        if hold.lose(reason) {
            self.let_go(hold, reason);
        }
    }

    /// Frees a hold that was lost in the store, so that waiters are not blocked by a dead hold, and tells of it.
    fn let_go(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        struct Tell<'a>(&'a Hold);
        impl Drop for Tell<'_> {
            fn drop(&mut self) {
                self.0.tell_lost();
            }
        }
        // Whatever becomes of the telemetry in between.
        let _told = Tell(hold);
        // Before it is forgotten: whoever finds the keeper without it finds its release under way.
        self.leave_hold(hold, None);
        self.forget(hold, End::Lost(reason));
    }

    /// The hold has ended: neither the keeper nor its owner knows it any more.
    pub(crate) fn forget(&self, hold: &Hold, end: End) {
        self.keeper.deregister(hold);
        if let Some(owner) = hold.owner {
            self.slots.tidy(owner, &hold.claim.name);
        }
        self.telemetry.ended(hold, end, &self.clock);
    }
}

/// A batch that is sent. Whatever ends it without an answer, a panic say, it is sent again.
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

/// What came of a renewal.
enum Kept {
    Proved,
    Renewed,
    /// It failed, and is tried again.
    Again,
    /// It is lost, and has to be let go of.
    Lost(LostReason),
}

impl Kept {
    /// At once, not when the worker comes to it: from now on its guards say so.
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
