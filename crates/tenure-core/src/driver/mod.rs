//! Waiting. One gate per name and process talks to the store for all who wait here: it tries, watches, tries again,
//! and puts grants into mailboxes. It runs on the keeper's runtime, so a future that nobody polls holds nobody up.

mod run;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::run::Run;
use crate::client::{Core, Inner};
use crate::deadlock::{Seen, Wait};
use crate::flow::{Caller, Flow};
use crate::hold::Terms;
use crate::mailbox::{Grant, Letter, Mailbox};
use crate::signs::{Asking, Sort};
use crate::{Claim, Deadlocks, Error, HoldId, Kind, Name, Result};

/// What someone waits for.
#[derive(Clone)]
pub(crate) enum Want {
    Claim { claim: Arc<Claim>, terms: Terms },
    Take { n: u64 },
}

impl Want {
    fn id(&self) -> Option<HoldId> {
        match self {
            Self::Claim { claim, .. } => Some(claim.id),
            Self::Take { .. } => None,
        }
    }

    fn is_permits(&self) -> bool {
        match self {
            Self::Claim { claim, .. } => matches!(claim.kind, Kind::Permit { .. }),
            Self::Take { .. } => true,
        }
    }

    fn sort(&self) -> Sort {
        match self {
            Self::Claim { claim, .. } => claim.kind.into(),
            Self::Take { .. } => Sort::Count,
        }
    }

    fn is_queued(&self) -> bool {
        matches!(self, Self::Claim { claim, .. } if claim.kind.is_queued())
    }
}

/// Someone who waits.
#[derive(Clone)]
pub(crate) struct Waiter {
    inner: Arc<Inner>,
    mailbox: Arc<Mailbox>,
    want: Want,
    deadline: Option<Instant>,
    owner: Option<u64>,
    /// Its position in the store's queue, as far as is known. Only the queued kinds have one.
    position: Option<u64>,
    flow: Flow,
    warn_at: Option<Instant>,
}

impl Waiter {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        want: Want,
        deadline: Option<Instant>,
        owner: Option<u64>,
        position: Option<u64>,
    ) -> Self {
        let flow = Flow::current(&inner.core.settings);
        let warn_at = flow.task.map(|_| Instant::now() + Duration::from_secs(1));
        let mailbox = Mailbox::new(want.is_queued());
        let position = position.filter(|_| want.is_queued());
        Self { inner: inner.clone(), mailbox, want, deadline, owner, position, flow, warn_at }
    }

    /// Whether it may stand in the store's queue, at a position that is not known here.
    fn is_unplaced(&self) -> bool {
        self.want.is_queued() && self.position.is_none()
    }

    /// Whoever gives it up must undo what may stand in the store.
    pub(crate) fn place(&self) {
        self.mailbox.place();
    }

    fn caller(&self) -> Caller<'_> {
        Caller { owner: self.owner, flow: self.flow, tally: &self.mailbox.tally }
    }

    /// Shows it to others whom it might wait for in a circle. `None` if that cannot be, or is not asked for.
    fn show<'a>(&self, core: &'a Core, name: &Name) -> Result<Option<Seen<'a>>> {
        let (Deadlocks::Report, Some(owner), None, Want::Claim { claim, .. }) =
            (core.settings.deadlocks, self.owner, self.deadline, &self.want)
        else {
            return Ok(None);
        };
        let (name, kind, mailbox) = (name.clone(), claim.kind, self.mailbox.clone());
        match core.waits.join(core, Wait { owner, flow: self.flow, name, kind, mailbox }) {
            Ok(seen) => Ok(Some(seen)),
            Err(deadlock) => {
                core.signs.deadlock(kind, &deadlock);
                Err(deadlock.into())
            }
        }
    }

    fn times(&self) -> impl Iterator<Item = Instant> + use<> {
        [self.deadline, self.warn_at].into_iter().flatten()
    }
}

/// How a wait ended.
pub(crate) enum Waited {
    Granted(Grant),
    TimedOut,
    /// The grant was not collected in time: begin anew.
    Again,
}

/// Waits in the gate of `name`.
pub(crate) async fn wait(
    core: &Arc<Core>,
    name: &Name,
    waiter: Waiter,
    asking: &Asking<'_>,
) -> Result<Waited> {
    struct Abandon {
        mailbox: Arc<Mailbox>,
        gate: Arc<Gate>,
        collected: bool,
    }
    impl Drop for Abandon {
        fn drop(&mut self) {
            if !self.collected {
                self.mailbox.abandon();
                self.gate.stale.store(true, SeqCst);
                self.gate.wake.notify_one();
            }
        }
    }
    let mailbox = waiter.mailbox.clone();
    // The gate tells whose time is over, but may itself be waiting for the store at that moment.
    let timer = waiter.deadline.map(|at| core.timer(at)).transpose()?;
    let _seen = waiter.show(core, name).inspect_err(|_| {
        if waiter.mailbox.is_placed() {
            leave_place(core, &waiter.want);
        }
    })?;
    let _counted = core.signs.waiting(waiter.want.sort());
    asking.waits();
    let gate = core.gates.join(core, name, waiter)?;
    let mut waiting = Abandon { mailbox: mailbox.clone(), gate, collected: false };
    let over = async {
        match timer {
            Some(timer) => timer.await,
            None => std::future::pending().await,
        }
    };
    let letter = tokio::select! {
        biased;
        letter = mailbox.collect() => letter,
        () = over => {
            asking.tally.add(&mailbox.tally);
            return Ok(Waited::TimedOut);
        }
    };
    asking.tally.add(&mailbox.tally);
    waiting.collected = true;
    match letter {
        Letter::Grant(grant) => {
            if let Grant::Guard(guard) = &grant {
                guard.hold().collected();
            }
            Ok(Waited::Granted(grant))
        }
        Letter::TimedOut => Ok(Waited::TimedOut),
        Letter::Reclaimed => Ok(Waited::Again),
        Letter::Failed(error) => Err(error),
    }
}

/// The gates of one client.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<Name, Arc<Gate>>>);

/// Those who wait for one name. Waiters of a queued kind stand here in the order in which they stand in the store's
/// queue: a store may tell only the head of its queue, and the gate listens for the first of its own.
#[derive(Default)]
pub(crate) struct Gate {
    queue: Mutex<Queue>,
    wake: Notify,
    /// Someone does not wait any more.
    stale: AtomicBool,
    /// Whether it was said already that the store is not ready.
    told: AtomicBool,
    /// An owner with a waiter here may have come in by another way.
    recheck: AtomicBool,
    /// The store may have forgotten who waits, and what they wait for.
    doubt: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiters: VecDeque<Waiter>,
    /// When the first deadline or warning of a waiter is due.
    timer: Option<Instant>,
    /// Who was in the way and is not here. It may still come: if an attempt is executed twice, its claim may hold the name
    /// before it comes here to wait for it.
    in_the_way: Option<HoldId>,
}

impl Queue {
    /// Where it belongs: by its position in the store's queue, or at the end where there is none. Who has a position
    /// that is not known yet comes first, to ask for it.
    fn push(&mut self, waiter: Waiter) {
        self.timer = waiter.times().chain(self.timer).min();
        let holds = waiter.want.id().is_some_and(|id| self.in_the_way == Some(id));
        let at = match waiter.position {
            _ if holds => 0,
            None if waiter.is_unplaced() => 0,
            None => self.waiters.len(),
            Some(mine) => {
                let later = |w: &&Waiter| w.position.is_some_and(|other| other > mine);
                self.waiters.len() - self.waiters.iter().rev().take_while(later).count()
            }
        };
        self.waiters.insert(at, waiter);
    }

    /// Moves a waiter to where it belongs by its position in the store.
    fn put(&mut self, waiter: &Waiter, position: u64) {
        if let Some(mut waiter) = self.position(waiter).and_then(|at| self.waiters.remove(at)) {
            waiter.position = Some(position);
            self.push(waiter);
        }
    }

    fn position(&self, of: &Waiter) -> Option<usize> {
        self.waiters.iter().position(|w| Arc::ptr_eq(&w.mailbox, &of.mailbox))
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({} waiting)", self.queue.lock().unwrap().waiters.len())
    }
}

impl Gates {
    fn join(&self, core: &Arc<Core>, name: &Name, waiter: Waiter) -> Result<Arc<Gate>> {
        let runtime = core.runtime()?;
        let mut gates = self.0.lock().unwrap();
        // Inside the lock: a client that closes fails every gate afterwards.
        if let Err(closed) = core.check_open() {
            drop(gates);
            leave_place(core, &waiter.want);
            return Err(closed);
        }
        let gate = match gates.get(name) {
            Some(gate) => {
                // Its owner may have come in since it was told to wait: looked at once it is in the queue.
                let owned = waiter.owner.is_some();
                gate.queue.lock().unwrap().push(waiter);
                gate.recheck.fetch_or(owned, SeqCst);
                gate.wake.notify_one();
                gate.clone()
            }
            None => {
                let gate = Arc::new(Gate::default());
                gate.recheck.store(waiter.owner.is_some(), SeqCst);
                gate.queue.lock().unwrap().push(waiter);
                gates.insert(name.clone(), gate.clone());
                runtime.spawn(Run::new(core, name, &gate).run());
                gate
            }
        };
        Ok(gate)
    }

    /// An owner came in: those who wait for the same owner may enter.
    pub(crate) fn recheck(&self, name: &Name) {
        let gates = self.0.lock().unwrap();
        if let Some(gate) = gates.get(name) {
            gate.recheck.store(true, SeqCst);
            gate.wake.notify_one();
        }
    }

    /// The store may have forgotten anything: all who wait look again.
    pub(crate) fn look_again(&self) {
        for gate in self.0.lock().unwrap().values() {
            gate.doubt.store(true, SeqCst);
            gate.wake.notify_one();
        }
    }

    /// Removes a gate that nobody waits at.
    fn retire(&self, name: &Name, gate: &Gate) -> bool {
        let mut gates = self.0.lock().unwrap();
        let empty = gate.queue.lock().unwrap().waiters.is_empty();
        if empty {
            gates.remove(name);
        }
        empty
    }

    /// Removes a gate that does not work any more, and fails all who wait at it.
    fn remove(&self, name: &Name, gate: &Arc<Gate>, error: &Error) {
        let mut gates = self.0.lock().unwrap();
        if gates.get(name).is_some_and(|g| Arc::ptr_eq(g, gate)) {
            gates.remove(name);
        }
        drop(gates);
        gate.fail(error);
    }

    pub(crate) fn fail_all(&self, error: &Error) {
        let gates: Vec<Arc<Gate>> = self.0.lock().unwrap().values().cloned().collect();
        gates.iter().for_each(|gate| gate.fail(error));
    }

    /// The names that somebody waits for.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

impl Gate {
    /// Fails all who wait. Told outside the lock: a waker is code of others.
    fn fail(&self, error: &Error) {
        let mailboxes: Vec<_> =
            self.queue.lock().unwrap().waiters.iter().map(|w| w.mailbox.clone()).collect();
        for mailbox in mailboxes {
            let _ = mailbox.deliver(Letter::Failed(error.clone()));
        }
        self.stale.store(true, SeqCst);
        self.wake.notify_one();
    }
}

/// Gives up the place that a waiter may have in the store's queue.
fn leave_place(core: &Arc<Core>, want: &Want) {
    if let Want::Claim { claim, .. } = want {
        core.leave_in_background(claim.clone(), None);
    }
}
