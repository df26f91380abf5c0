//! Waiting. One gate per name and process talks to the store for all local waiters: it tries, watches, tries again, and
//! puts grants into mailboxes. It runs on the worker's runtime, so a future that is not polled does not block other
//! waiters.

mod handover;
mod pause;
mod queue;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::queue::Queue;
use self::run::Run;
use crate::backend::{Claim, Durability, Error, HoldId, Kind, Name, Result};
use crate::engine::Deadlocks;
use crate::engine::acquisition::Acquisition;
use crate::engine::core::Core;
use crate::engine::count::TakeInFlight;
use crate::engine::deadlock::{Seen, Wait};
use crate::engine::mailbox::{Grant, Letter, Mailbox};
use crate::engine::telemetry::{AcquireTrace, KindLabel};

/// What a waiter waits for.
#[derive(Clone)]
pub(crate) enum Want {
    Claim(Arc<Claim>),
    Take { n: u64, unanswered: TakeInFlight },
}

impl Want {
    fn id(&self) -> Option<HoldId> {
        match self {
            Self::Claim(claim) => Some(claim.id),
            Self::Take { .. } => None,
        }
    }

    /// The number of permits that it wants, if any.
    fn permits(&self) -> Option<u64> {
        match self {
            Self::Claim(claim) => match claim.kind {
                Kind::Permit { n, .. } => Some(u64::from(n)),
                _ => None,
            },
            Self::Take { n, .. } => Some(*n),
        }
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Claim(claim) if matches!(claim.kind, Kind::Read { .. }))
    }

    fn is_lock(&self) -> bool {
        matches!(self, Self::Claim(claim) if claim.kind == Kind::Lock)
    }

    fn label(&self) -> KindLabel {
        match self {
            Self::Claim(claim) => claim.kind.into(),
            Self::Take { .. } => KindLabel::Count,
        }
    }

    fn is_queued(&self) -> bool {
        matches!(self, Self::Claim(claim) if claim.kind.is_queued())
    }
}

/// A local waiter.
#[derive(Clone)]
pub(crate) struct Waiter {
    /// Its number, unique within the client.
    n: u64,
    pub(crate) asked: Acquisition,
    pub(crate) mailbox: Arc<Mailbox>,
    want: Want,
    since: Instant,
    /// Whether the store has answered its first attempt.
    heard: bool,
    /// Its position in the store's queue, if known. Only queued kinds have one.
    position: Option<u64>,
    warn_at: Option<Instant>,
}

impl Waiter {
    pub(crate) fn new(asked: &Acquisition, want: Want, position: Option<u64>) -> Self {
        let warn_at = Some(Instant::now() + Duration::from_secs(1));
        let mailbox = Mailbox::new(want.is_queued());
        let position = position.filter(|_| want.is_queued());
        let n = want.id().map_or_else(|| asked.core().next(), |id| id.n);
        let (asked, since) = (asked.clone(), Instant::now());
        Self { n, asked, mailbox, want, since, heard: true, position, warn_at }
    }

    /// Marks that the store was not ready to answer its first attempt.
    pub(crate) fn unheard(mut self) -> Self {
        self.heard = false;
        self
    }

    /// Whether it may be in the store's queue, at an unknown position.
    fn is_unplaced(&self) -> bool {
        self.want.is_queued() && self.position.is_none()
    }

    /// Marks that the store may have an entry for it, which must be undone when it gives up.
    pub(crate) fn place(&self) {
        self.mailbox.place();
    }

    /// Returns its claim, if it waits for a hold.
    pub(crate) fn claim(&self) -> Option<&Arc<Claim>> {
        match &self.want {
            Want::Claim(claim) => Some(claim),
            Want::Take { .. } => None,
        }
    }

    /// Gives up the position that it may have in the store's queue.
    pub(crate) fn leave_place(&self, core: &Arc<Core>) {
        if self.mailbox.is_placed() {
            leave_place(core, &self.want);
        }
    }

    /// The durability that it asks for: if there are too few replicas, the store fails for this waiter and not for
    /// others.
    fn durability(&self) -> Durability {
        self.asked.terms.durability
    }

    /// Registers it for deadlock detection. Returns `None` if it cannot be part of a cycle or detection is off.
    fn show<'a>(&self, core: &'a Core, name: &Name) -> Result<Option<Seen<'a>>> {
        let (Deadlocks::Report, Some(owner), None, Want::Claim(claim)) =
            (core.settings.deadlocks, self.asked.owner, self.asked.deadline, &self.want)
        else {
            return Ok(None);
        };
        let (name, kind, mailbox) = (name.clone(), claim.kind, self.mailbox.clone());
        match core.waits.join(core, Wait { owner, flow: self.asked.flow, name, kind, mailbox }) {
            Ok(seen) => Ok(Some(seen)),
            Err(deadlock) => {
                core.telemetry.deadlock(kind, &deadlock);
                Err(deadlock.into())
            }
        }
    }

    fn times(&self) -> impl Iterator<Item = Instant> + use<> {
        [self.asked.deadline, self.warn_at].into_iter().flatten()
    }
}

/// How a wait ended.
pub(crate) enum Waited {
    Granted(Grant),
    TimedOut,
    /// The grant was not collected in time: start again.
    Again,
}

/// Waits at the gate of `name`.
///
/// # Errors
/// The last error of the store, if the deadline passes while it does not answer: it is not known then whether others
/// hold the name, so it must not be reported as busy.
pub(crate) async fn wait(
    core: &Arc<Core>,
    name: &Name,
    waiter: Waiter,
    trace: &AcquireTrace<'_>,
) -> Result<Waited> {
    struct Abandon<'a> {
        core: &'a Core,
        name: &'a Name,
        n: u64,
        mailbox: Arc<Mailbox>,
        gate: Arc<Gate>,
        collected: bool,
    }
    impl Drop for Abandon<'_> {
        fn drop(&mut self) {
            if !self.collected {
                self.mailbox.abandon();
                let begin = || self.core.releases.begin(self.name);
                self.gate.queue.lock().unwrap().abandoned(self.n, begin);
                self.gate.wake.notify_one();
            }
        }
    }
    let (n, mailbox, durability) = (waiter.n, waiter.mailbox.clone(), waiter.durability());
    let since = waiter.since;
    let deadline = waiter.asked.deadline;
    let _seen = waiter.show(core, name).inspect_err(|_| waiter.leave_place(core))?;
    let _counted = core.telemetry.waiting(waiter.want.label());
    trace.waits();
    let gate = core.gates.join(core, name, waiter)?;
    let mut waiting = Abandon { core, name, n, mailbox: mailbox.clone(), gate, collected: false };
    // The gate also ends waits at their deadline, but it may itself be waiting for the store at that moment.
    let letter = core.by(deadline, mailbox.collect()).await;
    trace.stats.add(&mailbox.stats);
    let Some(letter) = letter? else {
        return waiting.gate.error(core, durability, since).map_or(Ok(Waited::TimedOut), Err);
    };
    waiting.collected = true;
    match letter {
        Letter::Grant(Grant::Entry(entry)) => {
            entry.hold().collected();
            // The lease may have ended while it was in the mailbox. Dropping it gives it back.
            Ok(if entry.hold().is_held() { Waited::Granted(Grant::Entry(entry)) } else { Waited::Again })
        }
        Letter::Grant(grant) => Ok(Waited::Granted(grant)),
        Letter::TimedOut => Ok(Waited::TimedOut),
        Letter::Expired => Ok(Waited::Again),
        Letter::Failed(error) => Err(error),
    }
}

/// The gates of one client.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    by_name: Mutex<BTreeMap<Name, Arc<Gate>>>,
    /// How many waiters were examined.
    #[cfg(test)]
    looked_at: Arc<std::sync::atomic::AtomicU64>,
}

/// The local waiters for one name.
#[derive(Default)]
pub(crate) struct Gate {
    queue: Mutex<Queue>,
    wake: Notify,
    /// Whether it was already logged that the store is not ready.
    told: AtomicBool,
    /// Owners that may have acquired the name in another task while they also wait here.
    recheck: Mutex<BTreeSet<u64>>,
    /// The store may have lost the queue positions and the holds.
    suspicion: AtomicBool,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({} waiting)", self.queue.lock().unwrap().len())
    }
}

impl Gates {
    fn join(&self, core: &Arc<Core>, name: &Name, waiter: Waiter) -> Result<Arc<Gate>> {
        let runtime = core.runtime()?;
        let mut gates = self.by_name.lock().unwrap();
        // Inside the lock: a client that closes fails every gate afterwards.
        if let Err(closed) = core.check_open() {
            drop(gates);
            leave_place(core, &waiter.want);
            return Err(closed);
        }
        let (gate, new) = match gates.get(name) {
            Some(gate) => (gate.clone(), false),
            None => (gates.entry(name.clone()).or_default().clone(), true),
        };
        // Its owner may have acquired the name since its attempt was busy, so check again once it is in the queue.
        let owner = waiter.asked.owner;
        let mut queue = gate.queue.lock().unwrap();
        #[cfg(test)]
        queue.looked_at.clone_from(&self.looked_at);
        let tells = queue.join(waiter) || owner.is_some();
        drop((queue, gates));
        gate.recheck.lock().unwrap().extend(owner);
        if new {
            // Outside the lock: if the runtime has ended, the task is dropped right here, and removes its gate.
            runtime.spawn(Run::new(core, name, &gate).run());
        } else if tells {
            gate.wake.notify_one();
        }
        Ok(gate)
    }

    /// Returns the gate of a name, if anybody waits there.
    pub(crate) fn of(&self, name: &Name) -> Option<Arc<Gate>> {
        self.by_name.lock().unwrap().get(name).cloned()
    }

    /// Whether a new waiter for the lock `name` may wait at its gate without an attempt of its own: others wait there for
    /// the same, and the store has not failed for them.
    pub(crate) fn is_joined(&self, name: &Name, durability: Durability) -> bool {
        let gates = self.by_name.lock().unwrap();
        gates.get(name).is_some_and(|gate| gate.queue.lock().unwrap().is_joined(durability))
    }

    /// Makes the waiters of an owner that has acquired `name` try to re-enter.
    pub(crate) fn recheck(&self, name: &Name, owner: u64) {
        let gates = self.by_name.lock().unwrap();
        if let Some(gate) = gates.get(name) {
            gate.recheck.lock().unwrap().insert(owner);
            gate.wake.notify_one();
        }
    }

    /// A hold of `name` that might have been passed on is going to be released.
    pub(crate) fn leave(&self, core: &Core, name: &Name, was_passed: bool) {
        if let Some(gate) = self.of(name) {
            let most = core.longest_pause();
            gate.queue.lock().unwrap().pause.releases(Instant::now(), most, was_passed);
            gate.wake.notify_one();
        }
    }

    /// The release of a hold of `name` was executed.
    pub(crate) fn left(&self, name: &Name) {
        if let Some(gate) = self.of(name) {
            gate.queue.lock().unwrap().pause.released();
            gate.wake.notify_one();
        }
    }

    /// Makes all waiters try again, because the store may have lost anything.
    pub(crate) fn look_again(&self) {
        for gate in self.by_name.lock().unwrap().values() {
            gate.suspicion.store(true, SeqCst);
            gate.wake.notify_one();
        }
    }

    /// Removes a gate without waiters. Returns whether it did.
    fn retire(&self, name: &Name, gate: &Gate) -> bool {
        let mut gates = self.by_name.lock().unwrap();
        let empty = gate.queue.lock().unwrap().is_empty();
        if empty {
            gates.remove(name);
        }
        empty
    }

    /// Removes a gate that no longer works, and fails all its waiters.
    fn remove(&self, core: &Arc<Core>, name: &Name, gate: &Arc<Gate>, error: &Error) {
        let mut gates = self.by_name.lock().unwrap();
        if gates.get(name).is_some_and(|g| Arc::ptr_eq(g, gate)) {
            gates.remove(name);
        }
        drop(gates);
        let all = gate.queue.lock().unwrap().take_all();
        all.gone.iter().for_each(|waiter| waiter.leave_place(core));
        gate.fail_some(&all.gone, error);
    }

    pub(crate) fn fail_all(&self, error: &Error) {
        let gates: Vec<Arc<Gate>> = self.by_name.lock().unwrap().values().cloned().collect();
        gates.iter().for_each(|gate| gate.fail(error));
    }

    #[cfg(test)]
    fn gate(&self, name: &str) -> Option<Arc<Gate>> {
        self.by_name.lock().unwrap().get(&Name::new(name).ok()?).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.lock().unwrap().is_empty()
    }

    /// Returns the names with waiters.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.by_name.lock().unwrap().keys().cloned().collect()
    }
}

impl Gate {
    /// Returns the error of the store, if it is not known whether others hold what a waiter with this durability wants,
    /// who came at `since`.
    fn error(&self, core: &Core, durability: Durability, since: Instant) -> Option<Error> {
        self.queue.lock().unwrap().error(durability, since, core.settings.call_timeout / 5, core)
    }

    /// Takes out the first one that waits, if `serve` can give it what it waits for.
    pub(crate) fn take<T>(&self, serve: impl FnOnce(&Waiter) -> Option<T>) -> Option<(Waiter, T)> {
        let mut queue = self.queue.lock().unwrap();
        let first = queue.all().find(|waiter| waiter.mailbox.is_waiting())?;
        // Its own attempt must not follow the release of its claim.
        if queue.tries(first.n) {
            return None;
        }
        let (n, served) = (first.n, serve(first)?);
        let waiter = queue.remove(n)?;
        // Who comes next has to be placed, unless the gate looks again anyway.
        let looks = queue.pause.until(Instant::now()).is_some();
        drop(queue);
        if !looks {
            self.wake.notify_one();
        }
        Some((waiter, served))
    }

    /// Fails all waiters.
    fn fail(&self, error: &Error) {
        let all: Vec<Waiter> = self.queue.lock().unwrap().all().cloned().collect();
        self.fail_some(&all, error);
    }

    /// Fails some waiters. Delivers outside the lock: a waker is foreign code.
    fn fail_some(&self, some: &[Waiter], error: &Error) {
        for waiter in some {
            let _ = waiter.mailbox.deliver(Letter::Failed(error.clone()));
            self.queue.lock().unwrap().gone(waiter.n);
        }
        self.wake.notify_one();
    }
}

/// Gives up the position that a waiter may have in the store's queue.
fn leave_place(core: &Arc<Core>, want: &Want) {
    if let Want::Claim(claim) = want {
        core.leave_claim(claim.clone());
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, Memory, Owner};

    /// Lets `n` tasks in, with these owners, that came one after the other. Returns how many waiters were examined.
    async fn owned_waiters(n: usize, owner: impl Fn() -> Owner) -> usize {
        let client = Client::new(Memory::new());
        let core = &client.engine.core;
        let held = client.lock("x").acquire().await.unwrap();
        let mut tasks = Vec::new();
        for i in 1..=n {
            let lock = client.lock("x").owner(&owner());
            tasks.push(tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() }));
            // The gate has seen it before the next one comes.
            let seen = || {
                let Some(gate) = core.gates.gate("x") else { return false };
                gate.queue.lock().unwrap().len() == i && gate.recheck.lock().unwrap().is_empty()
            };
            testbed::within("it waits", async {
                while !seen() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        held.release().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        core.gates.looked_at.load(std::sync::atomic::Ordering::SeqCst) as usize
    }

    #[tokio::test]
    async fn an_owned_waiter_costs_no_more_when_more_wait() {
        for n in [100, 400] {
            // A few per waiter, depending on the timing; if all were examined for each, it would be half of them.
            let looks = owned_waiters(n, Owner::new).await;
            assert!(looks <= 15 * n, "{looks} looks for {n} waiters");
        }
    }

    #[tokio::test]
    async fn a_waiter_costs_no_more_when_more_of_its_owner_wait() {
        for n in [100, 400] {
            let me = Owner::new();
            let looks = owned_waiters(n, || me.clone()).await;
            assert!(looks <= 15 * n, "{looks} looks for {n} waiters of one owner");
        }
    }
}
