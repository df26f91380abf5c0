//! A gate at work: tries those in front, watches, tries again.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use super::{Gate, Waiter, Want, leave_place};
use crate::acquire::{Tried, Trouble, admit, enter_into};
use crate::backend::{Attempt, CountOp, Counter, Interest, Liveness, Renewal, Watch};
use crate::client::Core;
use crate::count::Taken;
use crate::mailbox::{Grant, Letter};
use crate::owner::SlotUse;
use crate::{Claim, Error, HoldId, Kind, Name, Result};

/// The most attempts that a gate makes at once.
const BURST: usize = 64;

/// What came of trying those in front.
enum Progress {
    /// All of them are in: the next may try at once.
    More,
    /// One is in the way. Look again then, if nothing is heard before.
    Blocked(Option<Duration>),
    /// The store fails.
    Failing,
}

/// A gate at work.
pub(super) struct Run {
    core: Arc<Core>,
    name: Name,
    gate: Arc<Gate>,
    watch: Option<Box<dyn Watch>>,
    /// Whom the watch is for, where each waiter has its own.
    watch_for: Option<HoldId>,
    burst: usize,
    trouble: Option<Trouble>,
    stamp_at: Instant,
    retired: bool,
}

impl Run {
    pub(super) fn new(core: &Arc<Core>, name: &Name, gate: &Arc<Gate>) -> Self {
        Self {
            core: core.clone(),
            name: name.clone(),
            gate: gate.clone(),
            watch: None,
            watch_for: None,
            burst: 1,
            trouble: None,
            stamp_at: Instant::now() + core.poll(),
            retired: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            if self.gate.recheck.swap(false, SeqCst) {
                self.let_owners_in().await;
            }
            if self.gate.doubt.swap(false, SeqCst) {
                // Places in the queue may be forgotten too.
                self.stamp_at = Instant::now();
            }
            self.sweep();
            let front = self.front();
            if front.is_empty() {
                if self.core.gates.retire(&self.name, &self.gate) {
                    self.retired = true;
                    return;
                }
                continue;
            }
            // Watch before the look, or a release in between is missed.
            self.subscribe(&front[0]).await;
            let progress = self.try_all(&front).await;
            // After those in front: whose places were given up while this process stood still queue anew in their order.
            self.stamp_places(&front).await;
            let retry_after = match progress {
                Progress::More => {
                    self.trouble = None;
                    self.burst = (self.burst * 2).min(BURST);
                    continue;
                }
                Progress::Blocked(retry_after) => {
                    self.trouble = None;
                    self.burst = 1;
                    retry_after
                }
                Progress::Failing => {
                    self.watch = None;
                    let trouble = self.trouble.get_or_insert_with(|| Trouble::new(self.core.settings.outage));
                    Some(trouble.pause())
                }
            };
            self.sleep(retry_after, &front).await;
        }
    }

    /// Removes those who do not wait any more, and tells those whose time is over.
    fn sweep(&self) {
        let now = Instant::now();
        let core = &self.core;
        let (mut gone, mut warn) = (Vec::new(), Vec::new());
        let mut queue = self.gate.queue.lock().unwrap();
        let stale = self.gate.stale.swap(false, SeqCst);
        // Ten thousand who only wait are not looked at for each one who comes.
        if !stale && queue.timer.is_none_or(|at| at > now) {
            return;
        }
        queue.waiters.retain_mut(|waiter| {
            if waiter.warn_at.is_some_and(|at| at <= now) {
                waiter.warn_at = None;
                warn.extend(waiter.flow.task);
            }
            let waits = waiter.mailbox.is_waiting() && waiter.deadline.is_none_or(|d| d > now);
            if !waits {
                gone.push(waiter.clone());
            }
            waits
        });
        queue.timer = queue.waiters.iter().flat_map(Waiter::times).min();
        drop(queue);
        for task in warn {
            warn_of_self(core, &self.name, task);
        }
        for waiter in gone {
            // Fails where it was told something else already.
            let _ = waiter.mailbox.deliver(Letter::TimedOut);
            if waiter.mailbox.is_placed() {
                leave_place(core, &waiter.want);
            }
        }
    }

    /// Those who may try now: whoever must find its position first, else the first, or a run of readers, or of permits
    /// once the one before got in.
    fn front(&self) -> Vec<Waiter> {
        let queue = &self.gate.queue.lock().unwrap().waiters;
        let read = |w: &&Waiter| matches!(&w.want, Want::Claim { claim, .. } if matches!(claim.kind, Kind::Read { .. }));
        // Of permits only those who want no less than the one before: if that one does not fit, they do not either.
        let mut most = 0;
        let take = |w: &&Waiter| {
            let wanted = match &w.want {
                Want::Claim { claim, .. } => match claim.kind {
                    Kind::Permit { n, .. } => u64::from(n),
                    _ => return false,
                },
                Want::Take { n } => *n,
            };
            let fits = wanted >= most;
            most = wanted;
            fits
        };
        match queue.front() {
            None => Vec::new(),
            Some(first) if first.is_unplaced() => {
                queue.iter().take_while(|w| w.is_unplaced()).take(BURST).cloned().collect()
            }
            Some(first) if read(&first) => queue.iter().take_while(read).take(BURST).cloned().collect(),
            Some(first) if first.want.is_permits() => {
                queue.iter().take_while(take).take(self.burst).cloned().collect()
            }
            Some(first) => vec![first.clone()],
        }
    }

    async fn subscribe(&mut self, first: &Waiter) {
        // A store that goes by sessions has queues for all kinds, and each waiter there waits for the one before it.
        let session = self.core.backend.info().liveness == Liveness::Session;
        let wanted = first.want.id().filter(|_| first.want.is_queued() || session);
        if self.watch.is_some() && self.watch_for == wanted {
            return;
        }
        let interest = match &first.want {
            Want::Claim { claim, .. } => Interest::Claim(claim),
            Want::Take { .. } => Interest::Count(self.core.id, Counter::Semaphore),
        };
        self.watch_for = wanted;
        self.watch = match self.core.backend.watch(&self.name, interest).await {
            Ok(watch) => Some(watch),
            Err(error) => {
                self.core.signs.cannot_watch(&self.name, &error);
                None
            }
        };
    }

    /// Places in the store's queue are kept by a sign of life; that of the first is kept by its attempts.
    async fn stamp_places(&mut self, front: &[Waiter]) {
        if Instant::now() < self.stamp_at {
            return;
        }
        self.stamp_at = Instant::now() + self.core.poll();
        let trying: Vec<_> = front.iter().filter_map(|w| w.want.id()).collect();
        let places: Vec<Waiter> = {
            let queue = self.gate.queue.lock().unwrap();
            let others = queue.waiters.iter().filter(|w| w.want.is_queued());
            others.filter(|w| w.want.id().is_some_and(|id| !trying.contains(&id))).cloned().collect()
        };
        for some in places.chunks(500) {
            let claims: Vec<Arc<Claim>> = some.iter().filter_map(claim_of).cloned().collect();
            let Ok(answers) = self.core.backend.renew(&claims).await else { return };
            for (waiter, answer) in some.iter().zip(answers) {
                // Its place was given up while this process was not looking: it queues anew.
                if answer != Renewal::Queued {
                    self.try_one(waiter, true).await;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    async fn try_all(&mut self, front: &[Waiter]) -> Progress {
        let tried = match front {
            [one] => vec![self.try_one(one, true).await],
            // Of those without an order of their own, only the first is recorded as waiting.
            many => {
                join_all(many.iter().enumerate().map(|(i, w)| self.try_one(w, i == 0 || w.want.is_queued())))
                    .await
            }
        };
        let mut progress = Progress::More;
        for tried in tried {
            match tried {
                Try::In => {}
                Try::Busy { retry_after, behind } => {
                    // Ours came to the store in another order than to this gate: let that one try first.
                    if behind.is_some_and(|id| self.to_front(id)) {
                        return Progress::More;
                    }
                    progress = match progress {
                        Progress::Blocked(Some(d)) => {
                            Progress::Blocked(Some(retry_after.map_or(d, |r| r.min(d))))
                        }
                        Progress::Failing => Progress::Failing,
                        _ => Progress::Blocked(retry_after),
                    };
                }
                Try::Failed(error) => {
                    if self.trouble.as_ref().is_some_and(Trouble::is_over) {
                        self.gate.fail(&error);
                    }
                    progress = Progress::Failing;
                }
            }
        }
        progress
    }

    /// Moves a waiter of this gate to the front. `false` if it is there already or is not here.
    fn to_front(&self, id: HoldId) -> bool {
        if id.client != self.core.id {
            return false;
        }
        let mut queue = self.gate.queue.lock().unwrap();
        let at = queue.waiters.iter().position(|w| w.want.id() == Some(id));
        queue.in_the_way = Some(id).filter(|_| at.is_none());
        let moved = at.filter(|at| *at > 0).and_then(|at| queue.waiters.remove(at));
        moved.map(|waiter| queue.waiters.push_front(waiter)).is_some()
    }

    async fn try_one(&self, waiter: &Waiter, place: bool) -> Try {
        if place {
            waiter.mailbox.place();
        }
        waiter.mailbox.tally.attempt();
        let seen = self.core.doubts();
        let letter = match &waiter.want {
            Want::Claim { claim, terms } => match self.attempt(claim, place).await {
                Ok(Attempt::Granted { fence, until }) => {
                    match admit(&waiter.inner, claim, fence, until, *terms, waiter.caller()) {
                        Ok(guard) => {
                            self.core.doubt_since(seen, guard.hold());
                            self.settle_owner(waiter, &guard);
                            Letter::Grant(Grant::Guard(guard))
                        }
                        // The answer came after the lease: its id is dead, and the waiter begins anew.
                        Err(error) if error.is_transient() => Letter::Reclaimed,
                        Err(error) => Letter::Failed(error),
                    }
                }
                Ok(Attempt::Busy { retry_after, behind, position }) => {
                    waiter.mailbox.tally.busy(behind);
                    if let Some(position) = position.filter(|_| waiter.want.is_queued())
                        && waiter.position != Some(position)
                    {
                        self.gate.queue.lock().unwrap().put(waiter, position);
                    }
                    return Try::Busy { retry_after, behind };
                }
                Ok(Attempt::Gone) => return Try::Busy { retry_after: None, behind: None },
                Err(error) if error.retry_after().is_some() => {
                    if !self.gate.told.swap(true, SeqCst) {
                        self.core.signs.not_ready(&self.name, &error);
                    }
                    return Try::Busy { retry_after: error.retry_after(), behind: None };
                }
                Err(error) if error.is_transient() => {
                    // It may have been granted: whoever gives up now must undo it.
                    if error.is_unknown() {
                        waiter.mailbox.place();
                    }
                    return Try::Failed(error);
                }
                Err(error) => {
                    // A script may have queued it before it failed.
                    if waiter.mailbox.is_placed() {
                        leave_place(&self.core, &waiter.want);
                    }
                    Letter::Failed(error)
                }
            },
            Want::Take { n } => {
                let taken = Taken::new(&waiter.inner, &self.name);
                let id = taken.id();
                match self
                    .core
                    .backend
                    .count(&self.name, Counter::Semaphore, CountOp::TakeIfAtLeast(*n), id)
                    .await
                {
                    Ok(reply) if reply.applied => Letter::Grant(Grant::Taken(taken)),
                    Ok(_) => {
                        taken.keep();
                        return Try::Busy { retry_after: None, behind: None };
                    }
                    Err(error) if error.is_transient() => return Try::Failed(error),
                    Err(error) => {
                        taken.keep();
                        Letter::Failed(error)
                    }
                }
            }
        };
        self.hand_over(waiter, letter);
        Try::In
    }

    async fn attempt(&self, claim: &Arc<Claim>, place: bool) -> Result<Attempt> {
        if place {
            return self.core.backend.try_acquire(claim).await;
        }
        self.core.backend.try_acquire(&Claim { wait: None, ..(**claim).clone() }).await
    }

    /// Puts a letter into the waiter's mailbox and takes the waiter out of the queue.
    fn hand_over(&self, waiter: &Waiter, letter: Letter) {
        {
            let mut queue = self.gate.queue.lock().unwrap();
            if let Some(at) = queue.position(waiter) {
                queue.waiters.remove(at);
            }
        }
        let uncollected = match &letter {
            Letter::Grant(Grant::Guard(guard)) => {
                let patience = self.core.patience(guard.hold().claim.lease);
                guard.hold().put_into(&waiter.mailbox, patience);
                self.core.keeper.sooner(guard.hold());
                None
            }
            Letter::Grant(Grant::Taken(_)) => Some(waiter.mailbox.clone()),
            _ => None,
        };
        // A letter that nobody wants any more falls back here, and what it grants is given back.
        drop(waiter.mailbox.deliver(letter));
        if let Some(mailbox) = uncollected {
            let limit = self.core.settings.lease / 3;
            tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                drop(mailbox.reclaim());
            });
        }
    }

    /// Notes what an owner holds now, and lets its other waiters look at it.
    fn settle_owner(&self, waiter: &Waiter, guard: &crate::Guard) {
        if let Some(owner) = waiter.owner {
            SlotUse::new(&self.core, owner, &self.name, false).add(guard.hold());
            self.gate.recheck.store(true, SeqCst);
        }
    }

    /// Lets in those whose owner is inside already. Without it two tasks of one owner, with a stranger between them,
    /// would wait for each other.
    async fn let_owners_in(&self) {
        let owned: Vec<Waiter> =
            self.gate.queue.lock().unwrap().waiters.iter().filter(|w| w.owner.is_some()).cloned().collect();
        for waiter in owned {
            let (Some(owner), Want::Claim { claim, terms }) = (waiter.owner, &waiter.want) else { continue };
            let slot = SlotUse::new(&self.core, owner, &self.name, false);
            // In turn if it can be. Whoever is entering may be a future that nobody polls: the gate goes on without.
            let _one = slot.entering.try_lock();
            if slot.held().is_empty() {
                continue;
            }
            // Its own place in the queue is not needed any more: it enters under a claim of its own.
            let fresh = Arc::new(Claim { id: self.core.fresh_id(), wait: None, ..(**claim).clone() });
            let letter = match enter_into(&waiter.inner, &slot, &fresh, *terms, waiter.caller()).await {
                Ok(Tried::Granted(guard)) => Letter::Grant(Grant::Guard(guard)),
                Ok(Tried::Busy { doubtful, .. }) => {
                    if doubtful {
                        self.core.leave_in_background(fresh, None);
                    }
                    continue;
                }
                Ok(Tried::Revoked) => {
                    self.gate.recheck.store(true, SeqCst);
                    continue;
                }
                Err(error) if error.is_transient() => {
                    self.gate.recheck.store(true, SeqCst);
                    continue;
                }
                Err(error) => Letter::Failed(error),
            };
            if waiter.mailbox.is_placed() {
                leave_place(&self.core, &waiter.want);
            }
            self.hand_over(&waiter, letter);
        }
    }

    /// Sleeps until something is heard, time is up, or those in front are others.
    async fn sleep(&mut self, retry_after: Option<Duration>, front: &[Waiter]) {
        let core = self.core.clone();
        let poll_at = Instant::now() + core.poll();
        // No timer for what comes after the poll: each costs wake-ups of its own, in every process that waits.
        let sooner = retry_after.filter(|d| *d < core.poll() || core.clock.is_manual());
        let retry = async {
            match sooner {
                Some(d) => core.clock.sleep(d).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(retry);
        loop {
            self.sweep();
            let (same, next) = {
                let queue = self.gate.queue.lock().unwrap();
                (queue.position(&front[0]) == Some(0), queue.timer)
            };
            if !same || self.gate.recheck.load(SeqCst) || self.gate.doubt.load(SeqCst) {
                return;
            }
            let signal = async {
                match &mut self.watch {
                    Some(watch) => watch.signal().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = signal => return,
                () = &mut retry => return,
                () = sleep_until(next.map_or(poll_at, |at| at.min(poll_at))) => {
                    if Instant::now() >= poll_at {
                        return;
                    }
                }
                () = self.gate.wake.notified() => {}
            }
        }
    }
}

/// What came of one attempt.
enum Try {
    /// In, or out for good: it does not wait any more.
    In,
    Busy {
        retry_after: Option<Duration>,
        behind: Option<HoldId>,
    },
    Failed(Error),
}

fn claim_of(waiter: &Waiter) -> Option<&Arc<Claim>> {
    match &waiter.want {
        Want::Claim { claim, .. } => Some(claim),
        Want::Take { .. } => None,
    }
}

fn warn_of_self(core: &Core, name: &Name, task: tokio::task::Id) {
    if core.keeper.held_by_task(name, task) {
        core.signs.waits_for_itself(name);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.retired {
            // It was cut short, by a panic or the end of the runtime: nobody shall wait at a gate that does not work.
            let error =
                self.core.backend.info().unavailable(format!("wait for {}", self.name), "the gate broke");
            self.core.gates.remove(&self.name, &self.gate, &error);
        }
        self.core.keeper.something_ended();
    }
}
