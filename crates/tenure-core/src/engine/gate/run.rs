//! The loop of a gate: tries the waiters in front, watches, tries again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use super::handover::{Granted, Look};
use super::{Gate, Waiter, Want};
use crate::backend::{
    Attempt, Claim, CountOp, Counter, Error, HoldId, Interest, Liveness, Name, Renewal, Result, Watch,
};
use crate::engine::acquire::{Tried, admit, enter_into};
use crate::engine::acquisition::Flow;
use crate::engine::core::Core;
use crate::engine::count::Taken;
use crate::engine::entry::Entry;
use crate::engine::limit::Limit;
use crate::engine::mailbox::{Grant, Letter};
use crate::engine::reentry::SlotUse;
use crate::engine::relay::Relay;

/// The maximum number of concurrent attempts of a gate.
const BURST: usize = 64;

/// How long a wait counts as brief.
const BRIEF: Duration = Duration::from_millis(200);

/// How many expired positions are taken again before those in front are tried again: they would wait for all of them,
/// which may take longer than positions last.
const RETAKEN: usize = 32;

/// How long a gate pauses if the store failed while an owner was re-entering.
const AGAIN: Duration = Duration::from_millis(50);

/// The result of trying the waiters in front.
enum Progress {
    /// All of them were granted: the next may try at once.
    More,
    /// One is blocked. Try again after this time, if no signal comes before.
    Blocked(Option<Duration>),
    /// The store fails for them: others may try.
    Failing,
}

impl Progress {
    fn block(&mut self, until: Option<Duration>) {
        match self {
            Self::Failing => {}
            Self::Blocked(Some(d)) => *d = until.map_or(*d, |until| until.min(*d)),
            _ => *self = Self::Blocked(until),
        }
    }
}

/// The state of the loop of a gate.
pub(super) struct Run {
    pub(super) core: Arc<Core>,
    name: Name,
    gate: Arc<Gate>,
    watch: Option<Box<dyn Watch>>,
    /// The waiter that the watch is for, where each waiter has its own.
    watch_for: Option<HoldId>,
    /// The last attempt of the waiter in front, if the watch is for it.
    pub(super) looked: Option<(HoldId, Look)>,
    /// What a signal says was granted to the waiter that the watch is for.
    pub(super) granted: Option<Granted>,
    burst: usize,
    stamp_at: Instant,
    /// Those whose positions are left to be refreshed, after another look at those in front.
    unstamped: HashSet<u64>,
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
            looked: None,
            granted: None,
            burst: 1,
            stamp_at: Instant::now() + core.poll(),
            unstamped: HashSet::new(),
            retired: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.let_owners_in().await;
            if self.gate.suspicion.swap(false, SeqCst) {
                // The store may have lost queue positions, too.
                self.stamp_at = Instant::now();
            }
            self.sweep();
            let front = self.front();
            let Some(first) = front.first() else {
                if self.gate.queue.lock().unwrap().is_empty() && self.pause().await {
                    continue;
                }
                if self.core.gates.retire(&self.name, &self.gate) {
                    self.retired = true;
                    return;
                }
                // The store fails for all of them.
                self.sleep(None, None).await;
                continue;
            };
            if first.want.is_lock() && self.pause().await {
                continue;
            }
            // A hold may have been passed on to it since.
            if !self.gate.queue.lock().unwrap().begins(first.n) {
                continue;
            }
            // Watch before the attempt, or a release in between is missed.
            self.subscribe(first).await;
            let progress = match self.take_granted(first) {
                true => Progress::More,
                false => self.try_all(&front).await,
            };
            // After those in front: waiters whose positions expired while this process was suspended queue again in
            // their order.
            self.stamp_places(&front).await;
            self.gate.queue.lock().unwrap().ends();
            match progress {
                Progress::More => self.burst = (self.burst * 2).min(BURST),
                Progress::Blocked(retry_after) => {
                    self.burst = 1;
                    if self.unstamped.is_empty() {
                        self.sleep(retry_after, Some(first)).await;
                    }
                }
                Progress::Failing => self.watch = None,
            }
        }
    }

    /// Waits until something changes or the pause is over. Returns `false` if there is none.
    async fn pause(&mut self) -> bool {
        let until = {
            let now = Instant::now();
            let mut queue = self.gate.queue.lock().unwrap();
            let Some(until) = queue.pause.until(now).filter(|_| self.core.check_open().is_ok()) else {
                return false;
            };
            let until = queue.timer(now).map_or(until, |at| at.min(until));
            queue.planned = Some(until);
            until
        };
        let signal = async {
            match &mut self.watch {
                Some(watch) => watch.signal().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = signal => self.gate.queue.lock().unwrap().pause.signalled(Instant::now()),
            () = sleep_until(until) => {}
            () = self.gate.wake.notified() => {}
        }
        self.gate.queue.lock().unwrap().planned = None;
        true
    }

    /// Removes those who no longer wait, and ends the waits whose deadline has passed.
    fn sweep(&self) {
        let core = &self.core;
        let over = self.gate.queue.lock().unwrap().take_over(Instant::now());
        for flow in over.warn {
            warn_of_self(core, &self.name, flow);
        }
        for waiter in over.gone {
            // Before it is told, or the process might end in between.
            waiter.leave_place(core);
            let error = self.gate.error(core, waiter.durability(), waiter.since);
            // Fails if the waiter already got another letter.
            let _ = waiter.mailbox.deliver(error.map_or(Letter::TimedOut, Letter::Failed));
        }
        drop(over.pending);
    }

    /// Returns the waiters that may try now: those that must learn their position, else the first; with it the readers
    /// that follow, or more permits once the previous ones were granted.
    fn front(&self) -> Vec<Waiter> {
        let queue = self.gate.queue.lock().unwrap();
        let mut ready = queue.ready(Instant::now());
        let Some(first) = ready.next().cloned() else { return Vec::new() };
        let (unplaced, read) = (first.is_unplaced(), first.want.is_read());
        let mut most = first.want.permits();
        let burst = match most {
            _ if unplaced || read => BURST,
            Some(_) => self.burst,
            None => 1,
        };
        let mut front = vec![first];
        let together = |w: &&Waiter| {
            if unplaced || read {
                return w.is_unplaced() == unplaced && w.want.is_read() == read;
            }
            // Of permits only those that want no fewer than the previous one: if that does not fit, they do not either.
            let before = std::mem::replace(&mut most, w.want.permits());
            most >= before
        };
        front.extend(ready.take_while(together).take(burst - 1).cloned());
        front
    }

    async fn subscribe(&mut self, first: &Waiter) {
        // A session-based store has queues for all kinds, and each waiter there waits for its predecessor.
        let session = self.core.backend.info().liveness == Liveness::Session;
        let wanted = first.want.id().filter(|_| first.want.is_queued() || session);
        if self.watch.is_some() && self.watch_for == wanted {
            return;
        }
        let interest = match &first.want {
            Want::Claim(claim) => Interest::Claim(claim),
            Want::Take { .. } => Interest::Count(self.core.id, Counter::Semaphore),
        };
        self.watch_for = wanted;
        self.watch = match self.core.backend.watch(&self.name, interest).await {
            Ok(watch) => Some(watch),
            Err(error) => {
                self.core.telemetry.cannot_watch(&self.name, &error);
                None
            }
        };
    }

    /// Refreshes the positions in the store's queue. Those in front are refreshed by their attempts.
    async fn stamp_places(&mut self, front: &[Waiter]) {
        let is_due = Instant::now() >= self.stamp_at;
        if !is_due && self.unstamped.is_empty() {
            return;
        }
        let left = std::mem::take(&mut self.unstamped);
        if is_due {
            self.stamp_at = Instant::now() + self.core.poll();
        }
        let trying: Vec<_> = front.iter().filter_map(|w| w.want.id()).collect();
        let places: Vec<Waiter> = {
            let queue = self.gate.queue.lock().unwrap();
            let others = queue.all().filter(|w| w.want.is_queued() && (is_due || left.contains(&w.n)));
            others.filter(|w| w.want.id().is_some_and(|id| !trying.contains(&id))).cloned().collect()
        };
        let (mut seen, mut retaken) = (0, 0);
        for some in places.chunks(500) {
            let claims: Vec<Arc<Claim>> = some.iter().filter_map(claim_of).cloned().collect();
            let Ok(answers) = self.core.backend.renew(&claims).await else { return };
            for (waiter, answer) in some.iter().zip(answers) {
                // Its position expired while this process was not running: it queues again. If the store fails, the
                // rest does so in the next round: those in front would have to wait for as many failures.
                if answer != Renewal::Queued {
                    if retaken == RETAKEN {
                        self.unstamped = places[seen..].iter().map(|w| w.n).collect();
                        return;
                    }
                    retaken += 1;
                    if let Try::Failed(_) | Try::NotReady(_) = self.try_one(waiter, true).await {
                        return;
                    }
                }
                seen += 1;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn try_all(&mut self, front: &[Waiter]) -> Progress {
        let watched = self.watch_for.filter(|_| self.watch.is_some());
        self.looked = watched.map(|id| (id, Look::begin(&self.core)));
        let tried = match front {
            [one] => vec![self.try_one(one, true).await],
            // For unqueued kinds, only the first is recorded as waiting.
            many => {
                join_all(many.iter().enumerate().map(|(i, w)| self.try_one(w, i == 0 || w.want.is_queued())))
                    .await
            }
        };
        let mut progress = Progress::More;
        // They are tried concurrently, so if the store fails for one with this durability, it counts as failing for
        // all.
        let (mut answered, mut failed) = (BTreeSet::new(), BTreeMap::new());
        let mut in_the_way = None;
        for (waiter, tried) in front.iter().zip(tried) {
            let durability = waiter.durability();
            match tried {
                Try::In => drop(answered.insert(durability)),
                Try::Busy { retry_after, behind } => {
                    answered.insert(durability);
                    in_the_way = in_the_way.or(behind.filter(|id| id.client == self.core.id));
                    progress.block(retry_after);
                }
                Try::NotReady(error) | Try::Failed(error) => drop(failed.insert(durability, error)),
            }
        }
        let mut queue = self.gate.queue.lock().unwrap();
        answered.iter().filter(|d| !failed.contains_key(d)).for_each(|d| queue.answered(*d));
        let mut given_up = Vec::new();
        for (durability, error) in failed {
            if error.retry_after().is_some() {
                queue.not_ready(durability, &error);
                progress.block(error.retry_after());
            } else {
                let some = queue.failed(durability, &error, &self.core);
                given_up.push((some, error));
                progress = Progress::Failing;
            }
        }
        // Our own claims reached the store in another order than this gate: let the blocking one try first.
        let brought = in_the_way.is_some_and(|id: HoldId| queue.bring_to_front(id.n));
        drop(queue);
        given_up.iter().for_each(|(some, error)| self.gate.fail_some(some, error));
        if brought { Progress::More } else { progress }
    }

    async fn try_one(&self, waiter: &Waiter, place: bool) -> Try {
        if place {
            waiter.mailbox.place();
        }
        waiter.mailbox.stats.attempt();
        let (seen, sent) = (self.core.suspicions(), self.core.clock.now());
        let letter = match &waiter.want {
            Want::Claim(claim) => match self.attempt(waiter, claim, place).await {
                Ok(Attempt::Granted { fence, until, spare }) => {
                    let relay = Relay::new(sent, self.core.bound_of(claim), seen, spare);
                    match admit(&waiter.asked, claim, fence, until, relay) {
                        Ok(entry) => {
                            if relay.is_some() {
                                let until = Instant::now() + self.core.longest_pause();
                                self.gate.queue.lock().unwrap().pause.passes_on(until);
                            }
                            self.core.suspect_since(seen, entry.hold());
                            self.settle_owner(waiter, &entry);
                            Letter::Grant(Grant::Entry(entry))
                        }
                        // The answer came after the end of the lease: its id is dead, and the waiter starts again.
                        Err(error) if error.is_transient() => Letter::Expired,
                        Err(error) => Letter::Failed(error),
                    }
                }
                Ok(Attempt::Busy { retry_after, behind, position }) => {
                    waiter.mailbox.stats.busy(behind);
                    if behind.is_none_or(|id| id.client != self.core.id) {
                        self.gate.queue.lock().unwrap().pause.sees_others(Instant::now());
                    }
                    if let Some(position) = position.filter(|_| waiter.want.is_queued()) {
                        self.gate.queue.lock().unwrap().put(waiter.n, position);
                    }
                    return Try::Busy { retry_after, behind };
                }
                Ok(Attempt::Gone) => return Try::Busy { retry_after: None, behind: None },
                Err(error) if error.retry_after().is_some() => {
                    if !self.gate.told.swap(true, SeqCst) {
                        self.core.telemetry.not_ready(&self.name, &error);
                    }
                    return Try::NotReady(error);
                }
                Err(error) if error.is_transient() => {
                    // It may have been granted, so it must be undone if the waiter gives up.
                    if error.is_unknown() {
                        waiter.mailbox.place();
                    }
                    return Try::Failed(error);
                }
                Err(error) => {
                    // A script may have queued it before it failed.
                    waiter.leave_place(&self.core);
                    Letter::Failed(error)
                }
            },
            Want::Take { n, unanswered } => {
                // An unanswered take is repeated with the same id: however often it fails, there is only one to undo.
                let before = unanswered.lock().unwrap().take();
                let again = before.is_some();
                let taken = before.unwrap_or_else(|| Taken::new(&waiter.asked.engine, &self.name));
                let Ok(id) = taken.id().map_err(|error| self.hand_over(waiter, Letter::Failed(error))) else {
                    return Try::In;
                };
                let take = CountOp::TakeIfAtLeast(*n);
                match self.core.backend.count(&self.name, Counter::Semaphore, take, id).await {
                    Ok(reply) if reply.applied => Letter::Grant(Grant::Taken(taken)),
                    Ok(_) => {
                        taken.keep();
                        // The count may have changed between the first, unanswered take and the watch, so try again at
                        // once.
                        return Try::Busy { retry_after: again.then_some(Duration::ZERO), behind: None };
                    }
                    Err(error) => {
                        if !again && !error.is_unknown() {
                            taken.keep();
                        } else if error.is_transient() {
                            *unanswered.lock().unwrap() = Some(taken);
                        }
                        if error.is_transient() {
                            return Try::Failed(error);
                        }
                        Letter::Failed(error)
                    }
                }
            }
        };
        self.hand_over(waiter, letter);
        Try::In
    }

    async fn attempt(&self, waiter: &Waiter, claim: &Claim, place: bool) -> Result<Attempt> {
        let wait = claim.wait.filter(|_| place);
        let brief = !claim.kind.is_queued() && waiter.since.elapsed() < BRIEF;
        let look = self.looked.filter(|(id, _)| place && *id == claim.id);
        let watched = look.map(|(_, look)| look.attempt);
        let reserve = self.core.reserves(waiter);
        self.core.backend.try_acquire(&Claim { wait, brief, watched, reserve, ..(*claim).clone() }).await
    }

    /// Puts a letter into the waiter's mailbox and removes the waiter from the queue.
    pub(super) fn hand_over(&self, waiter: &Waiter, letter: Letter) {
        self.gate.queue.lock().unwrap().remove(waiter.n);
        let uncollected = match &letter {
            Letter::Grant(Grant::Entry(entry)) => {
                let patience = self.core.patience(entry.hold().claim.lease);
                entry.hold().put_into(&waiter.mailbox, patience);
                self.core.keeper.sooner(entry.hold());
                None
            }
            Letter::Grant(Grant::Taken(_)) => Some(waiter.mailbox.clone()),
            _ => None,
        };
        // If nobody waits any more, the letter is dropped here, and what it grants is given back.
        drop(waiter.mailbox.deliver(letter));
        if let Some(mailbox) = uncollected {
            let limit = self.core.settings.lease / 3;
            tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                drop(mailbox.reclaim());
            });
        }
    }

    /// Records the new hold of an owner, and makes the other waiters of that owner check it.
    pub(super) fn settle_owner(&self, waiter: &Waiter, entry: &Entry) {
        if let Some(owner) = waiter.asked.owner {
            SlotUse::new(&self.core, owner, &self.name, false).add(entry.hold());
            self.gate.recheck.lock().unwrap().insert(owner);
        }
    }

    /// Lets in waiters whose owner already holds the name. Otherwise two tasks of one owner, with another owner between
    /// them in the queue, would wait for each other.
    async fn let_owners_in(&self) {
        let owners = std::mem::take(&mut *self.gate.recheck.lock().unwrap());
        for owner in owners {
            self.let_in(owner).await;
        }
    }

    async fn let_in(&self, owner: u64) {
        let slot = SlotUse::new(&self.core, owner, &self.name, false);
        let mut last = None;
        // Without a hold there is nothing to enter, so none of the owner's waiters is examined.
        while !slot.held().is_empty() {
            let next = self.gate.queue.lock().unwrap().next_of_owner(owner, last);
            let Some((key, waiter)) = next else { return };
            last = Some(key);
            let Want::Claim(claim) = &waiter.want else { continue };
            // Takes the turn if it is free. The task that has it may no longer be polled, so the gate continues without
            // it.
            let _one = slot.entering.try_lock();
            // It enters with a claim of its own, so its queue position is no longer needed.
            let fresh = Arc::new(Claim { id: self.core.fresh_id(), wait: None, ..(**claim).clone() });
            // A short limit, because others wait at this gate meanwhile.
            let limit = Limit::within(self.core.settings.call_timeout / 5);
            let letter = match enter_into(&waiter.asked, &slot, &fresh, &waiter.mailbox.stats, limit).await {
                Ok(Tried::Granted(entry)) => Letter::Grant(Grant::Entry(entry)),
                Ok(Tried::Busy { may_be_queued, .. }) => {
                    if may_be_queued {
                        self.core.leave_claim(fresh);
                    }
                    continue;
                }
                Ok(Tried::Revoked) => {
                    self.gate.recheck.lock().unwrap().insert(owner);
                    continue;
                }
                Err(error) if error.is_transient() => {
                    self.gate.recheck.lock().unwrap().insert(owner);
                    return;
                }
                Err(error) => Letter::Failed(error),
            };
            waiter.leave_place(&self.core);
            self.hand_over(&waiter, letter);
        }
    }

    /// Sleeps until a signal, a timer, or a change of the waiter in front.
    async fn sleep(&mut self, retry_after: Option<Duration>, first: Option<&Waiter>) {
        let core = self.core.clone();
        let poll_at = Instant::now() + core.poll();
        // No timer for what comes after the poll: each costs extra wake-ups, in every waiting process.
        let sooner = retry_after.filter(|d| *d < core.poll() || core.clock.is_manual());
        let retry = async {
            match sooner {
                Some(d) => core.clock.sleep(d).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(retry);
        loop {
            self.let_owners_in().await;
            // The store failed while an owner was re-entering.
            let again = !self.gate.recheck.lock().unwrap().is_empty();
            self.sweep();
            let now = Instant::now();
            let (same, next) = {
                let mut queue = self.gate.queue.lock().unwrap();
                let same = queue.ready(now).next().map(|w| w.n) == first.map(|w| w.n);
                let again = again.then(|| now + AGAIN);
                let next = queue.timer(now).into_iter().chain(again).min();
                queue.planned = Some(next.map_or(poll_at, |at| at.min(poll_at)));
                (same && !queue.is_empty(), next)
            };
            if !same || now >= poll_at || self.gate.suspicion.load(SeqCst) {
                return;
            }
            let signal = async {
                match &mut self.watch {
                    Some(watch) => watch.signal().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                signal = signal => {
                    self.gate.queue.lock().unwrap().pause.signalled(Instant::now());
                    self.granted = Granted::from(signal);
                    return;
                }
                () = &mut retry => return,
                () = sleep_until(next.map_or(poll_at, |at| at.min(poll_at))) => {}
                () = self.gate.wake.notified() => {}
            }
        }
    }
}

/// The result of one attempt.
enum Try {
    /// Granted, or failed for good: it no longer waits.
    In,
    Busy {
        retry_after: Option<Duration>,
        behind: Option<HoldId>,
    },
    /// The store says when it will be ready.
    NotReady(Error),
    Failed(Error),
}

fn claim_of(waiter: &Waiter) -> Option<&Arc<Claim>> {
    match &waiter.want {
        Want::Claim(claim) => Some(claim),
        Want::Take { .. } => None,
    }
}

fn warn_of_self(core: &Core, name: &Name, flow: Flow) {
    if core.keeper.is_held_by(name, flow) {
        core.telemetry.waits_for_itself(name);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.retired {
            // A panic or the end of the runtime stopped the loop: nobody must keep waiting at a gate that no longer
            // works.
            let error =
                self.core.backend.info().unavailable(format!("wait for {}", self.name), "the gate broke");
            self.core.gates.remove(&self.core, &self.name, &self.gate, &error);
        }
        self.core.releases.look_again();
    }
}
