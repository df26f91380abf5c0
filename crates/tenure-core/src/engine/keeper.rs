//! The keeper: a thread of the client that renews holds and finds those that have ended. Nothing else runs on it:
//! telemetry, wake-ups and releases are handed to the worker, so that neither blocking code on the caller's runtime,
//! nor a queue of acquires, nor a waker or a tracing subscriber that blocks or panics delays a renewal.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::backend::{Error, LostReason, Name, Time};
use crate::engine::acquisition::Flow;
use crate::engine::agenda::{Agenda, Item, Place};
use crate::engine::core::Core;
use crate::engine::hold::{Due, Hold};
use crate::engine::in_flight::{Flight, Look};
use crate::engine::renewals::{BATCH, Proof};
use crate::engine::telemetry::End;
use crate::engine::worker::Job;

/// How often the keeper checks at least while anything is held, because timers do not advance during suspend.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Renewals that are due are made up to a multiple of this many by the next ones. More would make all that a client holds
/// fall due at one moment.
const EARLY: usize = 4 * BATCH;

#[derive(Debug, Default)]
pub(crate) struct Keeper {
    held: Mutex<Held>,
    wake: Notify,
    stop: AtomicBool,
    /// How many holds and requests in flight were visited.
    #[cfg(test)]
    pub(crate) visited: std::sync::atomic::AtomicUsize,
}

/// All holds, and requests in flight that may become holds.
#[derive(Debug)]
struct Held {
    holds: Agenda<Arc<Hold>>,
    by_flow: ByFlow,
    /// Requests started in the tasks of callers and not answered yet.
    unanswered: Agenda<Arc<Flight>>,
    /// When the keeper checks next. Registering a hold whose next event is later does not wake it.
    planned: Time,
    /// Something was registered since the last check, so keep checking periodically.
    touched: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            holds: Agenda::default(),
            by_flow: ByFlow::default(),
            unanswered: Agenda::default(),
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

/// What the keeper has to do now.
#[derive(Default)]
struct Found {
    renew: Vec<Proof>,
    lose: Vec<(Arc<Hold>, LostReason)>,
    reclaim: Vec<Arc<Hold>>,
    warn: Vec<Arc<Hold>>,
}

impl Found {
    /// Until when renewals may be due that are sent together with these, if there are any.
    fn early(&self, now: Time) -> Option<Time> {
        let renewed = self.renew.iter().filter(|proof| !proof.suspicion);
        renewed.map(|proof| now.after(proof.lease() / 10)).max()
    }
}

impl Item for Arc<Hold> {
    fn n(&self) -> u64 {
        self.claim.id.n
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

impl Held {
    /// Finds out what is due of these, and puts back those that are not over, each to its next event.
    fn visit(&mut self, holds: Vec<Arc<Hold>>, now: Time, early: bool, found: &mut Found) {
        for hold in holds {
            if hold.warns(now) {
                found.warn.push(hold.clone());
            }
            match hold.due(now, early) {
                Due::Nothing => {}
                Due::Renew(ask) => found.renew.push(Proof { hold: hold.clone(), ask, suspicion: false }),
                Due::Prove(ask) => found.renew.push(Proof { hold: hold.clone(), ask, suspicion: true }),
                Due::Lose(reason) => {
                    self.by_flow.remove(&hold);
                    found.lose.push((hold, reason));
                    continue;
                }
                Due::Reclaim => found.reclaim.push(hold.clone()),
            }
            let next = hold.next_event();
            self.holds.insert(hold, next);
        }
    }
}

impl Keeper {
    /// Registers a hold. Wakes the keeper only if its next event is before the next check.
    pub(crate) fn register(&self, hold: &Arc<Hold>) {
        let event = hold.next_event();
        let mut held = self.held.lock().unwrap();
        held.holds.insert(hold.clone(), event);
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
        if before.passing.is_asked() || !held.holds.remove(before) {
            return false;
        }
        held.holds.insert(next.clone(), event);
        held.by_flow.remove(before);
        held.by_flow.add(next);
        if event < held.planned {
            drop(held);
            self.wake.notify_one();
        }
        true
    }

    /// To be called when the next event of a hold may have become sooner. Wakes the keeper if it is before the next check.
    pub(crate) fn sooner(&self, hold: &Arc<Hold>) {
        let event = hold.next_event();
        let mut held = self.held.lock().unwrap();
        if held.holds.sooner(hold, event) && event < held.planned {
            drop(held);
            self.wake.notify_one();
        }
    }

    fn deregister(&self, hold: &Arc<Hold>) {
        let mut held = self.held.lock().unwrap();
        if held.holds.remove(hold) {
            held.by_flow.remove(hold);
        }
    }

    /// Supervises a request that may go without a poll for its patience. Wakes the keeper as [`Keeper::register`] does.
    pub(crate) fn supervise(&self, flight: &Arc<Flight>, now: Time) {
        let event = flight.first_look(now);
        let mut held = self.held.lock().unwrap();
        held.unanswered.insert(flight.clone(), event);
        held.touched = true;
        if event < held.planned {
            drop(held);
            self.wake.notify_one();
        }
    }

    pub(crate) fn dismiss(&self, flight: &Arc<Flight>) {
        self.held.lock().unwrap().unanswered.remove(flight);
    }

    /// Revokes all requests in flight except those being polled, and returns them to be undone.
    pub(crate) fn revoke_all(&self) -> Vec<Arc<Flight>> {
        let held = self.held.lock().unwrap();
        held.unanswered.values().filter(|flight| flight.close()).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        let all: Vec<_> = self.held.lock().unwrap().holds.values().cloned().collect();
        self.visits(all.len());
        all
    }

    #[cfg(test)]
    fn visits(&self, n: usize) {
        self.visited.fetch_add(n, SeqCst);
    }

    #[cfg(not(test))]
    fn visits(&self, _: usize) {}

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
        for hold in &holds {
            hold.suspect(now);
            self.keeper.sooner(hold);
        }
        self.hand_over(move |core| {
            core.telemetry.suspected(holds.len());
            core.gates.look_again();
        });
    }

    /// Verifies a hold that was granted before a suspicion was raised, but was not registered yet at that time. `seen` is
    /// the number of suspicions before its attempt was sent.
    pub(crate) fn suspect_since(&self, seen: u64, hold: &Arc<Hold>) {
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
        let (mut wake, mut undo) = (Vec::new(), Vec::new());
        let (next, Found { renew, lose, reclaim, warn }) = {
            let mut held = self.keeper.held.lock().unwrap();
            let idle = held.holds.is_empty() && held.unanswered.is_empty() && !held.touched;
            held.touched = false;
            for flight in held.unanswered.take_until(now, usize::MAX) {
                self.keeper.visits(1);
                match flight.look(now) {
                    Look::Again(at) => held.unanswered.insert(flight, at),
                    Look::Wake(again) => {
                        wake.push(flight.clone());
                        held.unanswered.insert(flight, again);
                    }
                    Look::Undo => undo.push(flight),
                }
            }
            let mut found = Found::default();
            let due = held.holds.take_until(now, usize::MAX);
            self.keeper.visits(due.len());
            held.visit(due, now, false, &mut found);
            if let Some(by) = found.early(now) {
                let room = found.renew.len().next_multiple_of(EARLY) - found.renew.len();
                let early = held.holds.take_until(by, room);
                self.keeper.visits(early.len());
                held.visit(early, now, true, &mut found);
            }
            let look = if idle { Time::MAX } else { now.after(LOOK) };
            held.planned = look.min(held.holds.next()).min(held.unanswered.next());
            (held.planned, found)
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
            self.hand_over(move |core| {
                drop(hold.uncollected());
                core.keeper.sooner(&hold);
            });
        }
        self.renew_all(renew);
        next
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
    pub(crate) fn let_go(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        struct Tell<'a>(&'a Hold);
        impl Drop for Tell<'_> {
            fn drop(&mut self) {
                self.0.tell_lost();
            }
        }
        // On drop, so that guards are notified even if telemetry panics.
        let _told = Tell(hold);
        self.leaves(hold);
        // Before it is deregistered, so that it is always either registered or being released.
        match hold.kept_until().filter(|_| reason != LostReason::Gone) {
            Some(end) => drop(self.end_at(hold, end)),
            None => drop(self.leave_hold(hold, None)),
        }
        self.forget(hold, End::Lost(reason));
    }

    /// Tells the gate that a hold is going to be released, before that is sent.
    pub(crate) fn leaves(&self, hold: &Hold) {
        if let Some(relay) = hold.passing.relay {
            self.gates.leave(self, &hold.claim.name, relay.passed);
        }
    }

    /// Removes an ended hold from the keeper and from its owner's slot.
    pub(crate) fn forget(&self, hold: &Arc<Hold>, end: End) {
        self.keeper.deregister(hold);
        self.waits.remove_hold(hold);
        if let Some(owner) = hold.owner {
            self.slots.tidy(owner, &hold.claim.name);
        }
        self.telemetry.ended(hold, end, &self.clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::in_flight::Undo;
    use crate::{Client, Clock, Guard, Memory};

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

    /// Holds `n` names, on a clock that the test moves.
    async fn held(n: u64, lease: impl Fn(u64) -> Option<Duration>) -> (Client, Clock, Vec<Guard>) {
        let clock = Clock::manual();
        let client = Client::new(Memory::with_clock(clock.clone()));
        let mut guards = Vec::new();
        for i in 0..n {
            let lock = client.lock(format!("n{i}"));
            let lock = match lease(i) {
                Some(lease) => lock.lease(lease),
                None => lock,
            };
            guards.push(lock.acquire().await.unwrap());
        }
        client.engine.core.keeper.visited.store(0, SeqCst);
        (client, clock, guards)
    }

    /// Lets `n` holds end one after the other. Returns how many were visited.
    async fn ends(n: u64) -> usize {
        let (client, clock, guards) = held(n, |i| Some(Duration::from_secs(10 + i))).await;
        let keeper = &client.engine.core.keeper;
        for (guard, left) in guards.iter().zip((0..n as usize).rev()) {
            clock.advance(guard.remaining());
            testbed::until_true("it is found", || keeper.held_by_flows() == left).await;
        }
        keeper.visited.load(SeqCst)
    }

    #[tokio::test]
    async fn those_that_end_one_by_one_are_each_visited_once() {
        let (few, many) = (ends(50).await, ends(200).await);
        assert!(few <= 2 * 50 && many <= 2 * 200, "{few} visits for 50, {many} for 200");
    }

    /// Holds `n` names for three renewals, acquired one after the other. Returns how many were visited.
    async fn renewals(n: u64) -> usize {
        let (client, clock, guards) = held(n, |_| None).await;
        let keeper = &client.engine.core.keeper;
        let third = guards[0].lease() / 3;
        for _ in 0..3 {
            clock.advance(third);
            let is_renewed = |guard: &Guard| guard.remaining() > 2 * third;
            testbed::until_true("all are renewed", || guards.iter().all(is_renewed)).await;
        }
        keeper.visited.load(SeqCst)
    }

    #[tokio::test]
    async fn what_is_renewed_is_visited_when_it_is_due() {
        let (few, many) = (renewals(100).await, renewals(1000).await);
        assert!(few <= 2 * 3 * 100 && many <= 2 * 3 * 1000, "{few} visits for 100, {many} for 1000");
    }

    #[derive(Clone)]
    struct Nothing;

    impl Undo for Nothing {
        fn undo(self, _: &Arc<Core>) {}
    }

    /// Lets `n` requests go without a poll, each to be looked at by itself. Returns how many were visited.
    async fn unpolled(n: u64) -> usize {
        let (client, clock, _) = held(0, |_| None).await;
        let core = &client.engine.core;
        core.ensure_threads().unwrap();
        for i in 1..=n {
            let flight = Flight::new(core.next(), Nothing, Duration::from_secs(4 * i));
            core.keeper.supervise(&Arc::new(flight), clock.now());
        }
        for i in 1..=n as usize {
            clock.advance(Duration::from_secs(3));
            testbed::until_true("its task is woken", || core.keeper.visited.load(SeqCst) >= i).await;
        }
        core.keeper.visited.load(SeqCst)
    }

    #[tokio::test]
    async fn requests_that_are_not_polled_are_visited_when_they_are_due() {
        let (few, many) = (unpolled(50).await, unpolled(200).await);
        assert!(few <= 3 * 50 && many <= 3 * 200, "{few} visits for 50, {many} for 200");
    }
}
