//! Pending releases: those that a node has not confirmed. They are sent again in the background until the node confirms
//! them, or until their claims have expired there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::sync::Notify;

use super::fan_out::Calls;
use super::rounds::Entry;
use super::{Inner, SCHEME};
use tenure_core::backend::Released;
use tenure_core::{Claim, Error, HoldId, Result, Time};

/// The most releases sent to one node at a time.
const BATCH: usize = 64;
/// The delay before the first retry, which doubles up to the longest. Counted on the clock of the quorum, which tests
/// drive by hand, and without jitter, so that a simulated history can be repeated: core's `Backoff` fits neither.
const FIRST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// A node that answers nothing for this long counts as silent.
const SILENT_AFTER: Duration = Duration::from_millis(200);

/// The releases that one node has not confirmed.
#[derive(Debug, Default)]
pub(super) struct PendingReleases {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Releases to send, by due time.
    queue: BTreeMap<(Time, u64), Release>,
    /// All unconfirmed releases, including those in flight.
    unconfirmed: HashMap<HoldId, Unconfirmed>,
    /// Their numbers, in order.
    numbers: BTreeSet<u64>,
    /// The number of the newest release.
    last: u64,
    /// Whether a task is sending them.
    is_sending: bool,
    /// Whether the node did not answer the last time.
    is_silent: bool,
    /// How many batches it has answered.
    answered_batches: u64,
}

#[derive(Debug)]
struct Unconfirmed {
    number: u64,
    /// Whether it is in flight. If it is requested again meanwhile, it is sent once more: what it undoes may have
    /// arrived after it.
    is_in_flight: bool,
    again: Option<Release>,
}

impl State {
    fn push(&mut self, number: u64, release: Release) {
        self.queue.insert((release.at, number), release);
    }

    fn remove(&mut self, id: HoldId) {
        if let Some(release) = self.unconfirmed.remove(&id) {
            self.numbers.remove(&release.number);
        }
    }

    /// Pops the first release and marks it as in flight.
    fn pop(&mut self) -> Option<Release> {
        let (_, release) = self.queue.pop_first()?;
        if let Some(unconfirmed) = self.unconfirmed.get_mut(&release.claim.id) {
            unconfirmed.is_in_flight = true;
        }
        Some(release)
    }
}

#[derive(Clone, Debug)]
struct Release {
    claim: Arc<Claim>,
    entry: Option<Arc<Entry>>,
    /// When its claim has expired on the node.
    until: Time,
    /// When it is sent next, and the delay after that.
    at: Time,
    delay: Duration,
}

/// The next step of the sending task.
enum Step {
    Send(Vec<Release>),
    Wait(Time),
    Stop,
}

impl PendingReleases {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn is_silent(&self) -> bool {
        self.lock().is_silent
    }

    /// Marks the node as silent: no caller waits for it again until it has answered what is pending.
    pub(super) fn mark_silent(&self) {
        self.lock().is_silent = true;
        self.changed.notify_waiters();
    }

    /// Adds a release. Returns whether a task must be started to send it.
    fn enqueue(&self, release: Release) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let id = release.claim.id;
        if let Some(unconfirmed) = state.unconfirmed.get_mut(&id) {
            unconfirmed.again = unconfirmed.is_in_flight.then_some(release);
            return false;
        }
        state.last += 1;
        let number = state.last;
        state.unconfirmed.insert(id, Unconfirmed { number, is_in_flight: false, again: None });
        state.numbers.insert(number);
        state.push(number, release);
        !std::mem::replace(&mut state.is_sending, true)
    }

    /// Takes the releases that are due and drops expired ones. A silent node gets one at a time.
    fn take_due(&self, now: Time) -> Step {
        let mut guard = self.lock();
        let state = &mut *guard;
        let most = if state.is_silent { 1 } else { BATCH };
        let mut due = Vec::new();
        while due.len() < most
            && let Some((&(first, _), _)) = state.queue.first_key_value()
        {
            if first > now {
                if due.is_empty() {
                    return Step::Wait(first);
                }
                break;
            }
            match state.pop() {
                Some(release) if release.until > now => due.push(release),
                Some(expired) => state.remove(expired.claim.id),
                None => break,
            }
        }
        if !due.is_empty() {
            return Step::Send(due);
        }
        (state.is_sending, state.is_silent) = (false, false);
        drop(guard);
        self.changed.notify_waiters();
        Step::Stop
    }

    /// Takes all queued releases, due or not.
    fn take_all(&self) -> Vec<Release> {
        let mut state = self.lock();
        std::iter::from_fn(|| state.pop()).collect()
    }

    /// Queues a release again, after a delay.
    fn requeue(&self, mut release: Release, now: Time) {
        release.at = now.after(release.delay);
        release.delay = (release.delay * 2).min(LONGEST_DELAY);
        let mut state = self.lock();
        let Some(unconfirmed) = state.unconfirmed.get_mut(&release.claim.id) else { return };
        unconfirmed.is_in_flight = false;
        if let Some(again) = unconfirmed.again.take() {
            release.until = release.until.max(again.until);
        }
        let number = unconfirmed.number;
        state.push(number, release);
    }

    /// Records that the node has confirmed a release. If it was requested again meanwhile, it is sent once more.
    fn confirm(&self, id: HoldId) {
        let mut state = self.lock();
        let again = state.unconfirmed.get_mut(&id).and_then(|unconfirmed| {
            unconfirmed.is_in_flight = false;
            unconfirmed.again.take().map(|again| (unconfirmed.number, again))
        });
        match again {
            Some((number, again)) => state.push(number, again),
            None => state.remove(id),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The number of pending releases up to this number.
    fn count(&self, last: u64) -> usize {
        self.lock().numbers.range(..=last).count()
    }

    /// Whether everything up to this number is confirmed; `Err` if it cannot be soon, because no task is sending it or
    /// the node is silent.
    fn is_confirmed(&self, last: u64) -> Result<bool, ()> {
        let state = self.lock();
        if state.numbers.first().is_none_or(|first| *first > last) {
            return Ok(true);
        }
        if state.is_silent || !state.is_sending { Err(()) } else { Ok(false) }
    }

    /// Waits until everything up to this number is confirmed. Returns `false` as soon as no task is sending it or the
    /// node is silent.
    async fn wait_confirmed(&self, last: u64) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.is_confirmed(last) {
                Ok(true) => return true,
                Ok(false) => changed.await,
                Err(()) => return false,
            }
        }
    }
}

impl Inner {
    /// Sends a release in the background, until it is confirmed. A claim identified by its token alone is not retried:
    /// the retry could hit a later hold of that token.
    pub(super) fn release_in_background(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        entry: Option<&Arc<Entry>>,
    ) {
        if claim.id == HoldId::NONE {
            return;
        }
        let now = self.clock().now();
        let (claim, entry) = (claim.clone(), entry.cloned());
        let release = Release { until: now.after(claim.lasts()), at: now, delay: FIRST_DELAY, claim, entry };
        if self.pending[node].enqueue(release) && !self.spawn(send_pending(self.clone(), node)) {
            self.pending[node].lock().is_sending = false;
        }
    }

    /// Records a node's answer to a release. Returns whether no retry is needed.
    pub(super) fn record_answer(
        &self,
        node: usize,
        claim: &Claim,
        entry: Option<&Arc<Entry>>,
        answer: &Result<Released>,
    ) -> bool {
        match answer {
            Ok(released) => {
                if let Some(entry) = entry {
                    entry.record_release(node, *released);
                }
                true
            }
            Err(error) if error.is_transient() => false,
            Err(error) => {
                let (name, node) = (&claim.name, &self.nodes[node].name);
                tracing::warn!(%name, node, %error, "the node refuses the release; the hold ends with its lease");
                true
            }
        }
    }

    /// Waits until every node has confirmed what is pending now, but not for releases that others add meanwhile. A
    /// silent node is sent everything once more, and gets the timeout of any other call.
    pub(super) async fn flush(self: &Arc<Self>, within: Duration) -> Result<()> {
        let last: Vec<u64> = self.pending.iter().map(|pending| pending.lock().last).collect();
        let all = join_all(last.iter().enumerate().map(|(node, last)| self.flush_node(node, *last)));
        let limit = self.timer(self.clock().now().after(within));
        let Either::Right(_) = select(pin!(all), limit).await else { return Ok(()) };
        let open = |((node, pending), last): ((&super::Node, &PendingReleases), &u64)| {
            let n = pending.count(*last);
            (n > 0).then(|| format!("node {}: {n}", node.name))
        };
        let open: Vec<String> = self.nodes.iter().zip(&self.pending).zip(&last).filter_map(open).collect();
        let reason = format!("releases not confirmed within {within:?}: {}", open.join("; "));
        Err(Error::unknown(SCHEME, "close", reason))
    }

    async fn flush_node(self: &Arc<Self>, node: usize, last: u64) {
        let pending = &self.pending[node];
        // The timeout of a node for the longest lease.
        let timeout = self.options.node_timeout(self.options.max_lease);
        loop {
            let (answered, limit) = (pending.lock().answered_batches, self.clock().now().after(timeout));
            match select(pin!(pending.wait_confirmed(last)), self.timer(limit)).await {
                Either::Left((true, _)) => return,
                Either::Left((false, _)) => break,
                // No answer within the timeout: the node counts as silent.
                Either::Right(_) if pending.lock().answered_batches == answered => break,
                Either::Right(_) => {}
            }
        }
        let mut unsent = TakenOut { inner: self, node, releases: pending.take_all() };
        let limit = self.clock().now().after(timeout);
        let backend = &self.nodes[node].backend;
        let mut calls: Calls<Result<Released>> = Calls::new();
        for (at, release) in unsent.releases.iter().enumerate() {
            let (backend, claim) = (backend.clone(), release.claim.clone());
            calls.push(Box::pin(async move { (at, backend.release(&claim, 0).await) }));
        }
        let mut confirmed = HashSet::new();
        self.collect(&mut calls, limit, |at, answer| {
            let Release { claim, entry, .. } = &unsent.releases[at];
            if self.record_answer(node, claim, entry.as_ref(), &answer) {
                pending.confirm(claim.id);
                confirmed.insert(claim.id);
            }
            false
        })
        .await;
        unsent.releases.retain(|release| !confirmed.contains(&release.claim.id));
        drop(unsent);
        // One that is in flight may have been sent just now.
        select(pin!(pending.wait_confirmed(last)), self.timer(limit)).await;
    }
}

/// Releases taken out of a node's queue. Unfinished ones are requeued on drop.
struct TakenOut<'a> {
    inner: &'a Arc<Inner>,
    node: usize,
    releases: Vec<Release>,
}

impl Drop for TakenOut<'_> {
    fn drop(&mut self) {
        let (pending, now) = (&self.inner.pending[self.node], self.inner.clock().now());
        self.releases.drain(..).for_each(|release| pending.requeue(release, now));
        let must_start = {
            let mut state = pending.lock();
            !state.queue.is_empty() && !std::mem::replace(&mut state.is_sending, true)
        };
        if must_start && !self.inner.spawn(send_pending(self.inner.clone(), self.node)) {
            pending.lock().is_sending = false;
        }
    }
}

/// Sends releases until nothing is pending.
async fn send_pending(inner: Arc<Inner>, node: usize) {
    let (backend, pending) = (inner.nodes[node].backend.clone(), &inner.pending[node]);
    loop {
        let due = match pending.take_due(inner.clock().now()) {
            Step::Send(due) => due,
            Step::Wait(at) => {
                // Wakes up early, since releases may be added that are due sooner.
                inner.timer(at.min(inner.clock().now().after(FIRST_DELAY * 5))).await;
                continue;
            }
            Step::Stop => return,
        };
        let sent = inner.clock().now();
        let answers = join_all(due.iter().map(|release| backend.release(&release.claim, 0))).await;
        let now = inner.clock().now();
        // A release whose attempt may still arrive is not confirmed either, but the node has answered.
        let is_silence = |e: &Error| !e.is_unknown() || now.since(sent) >= SILENT_AFTER;
        let is_silent = answers.iter().all(|a| a.as_ref().is_err_and(|e| e.is_transient() && is_silence(e)));
        for (release, answer) in due.into_iter().zip(answers) {
            if inner.record_answer(node, &release.claim, release.entry.as_ref(), &answer) {
                pending.confirm(release.claim.id);
            } else {
                pending.requeue(release, now);
            }
        }
        if is_silent {
            pending.mark_silent();
        } else {
            let mut state = pending.lock();
            state.is_silent = false;
            state.answered_batches += 1;
        }
    }
}

/// Guards a hold that is being restored on a node. If the hold is being released by the time this is dropped, it is
/// released on that node too.
pub(super) struct RestoreGuard<'a> {
    inner: &'a Arc<Inner>,
    node: usize,
    claim: &'a Arc<Claim>,
    entry: &'a Arc<Entry>,
}

impl<'a> RestoreGuard<'a> {
    pub(super) fn new(
        inner: &'a Arc<Inner>,
        node: usize,
        claim: &'a Arc<Claim>,
        entry: &'a Arc<Entry>,
    ) -> Self {
        Self { inner, node, claim, entry }
    }
}

impl Drop for RestoreGuard<'_> {
    fn drop(&mut self) {
        if self.entry.current_id() != Some(self.claim.id) {
            self.inner.release_in_background(self.node, self.claim, Some(self.entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::{ClientId, Kind, Name};

    #[test]
    fn a_release_requested_again_while_in_flight_is_sent_once_more() {
        let (pending, now) = (PendingReleases::default(), Time::from_nanos(0));
        let id = HoldId { client: ClientId::new(), n: 1 };
        let release = || Release {
            claim: Arc::new(Claim::of(id, Name::new("x").unwrap(), Kind::Lock)),
            entry: None,
            until: now.after(Duration::from_secs(1)),
            at: now,
            delay: FIRST_DELAY,
        };
        let taken = || match pending.take_due(now) {
            Step::Send(due) => due.len(),
            _ => 0,
        };
        assert!(pending.enqueue(release()), "no task is sending yet");
        assert!(!pending.enqueue(release()), "queued once is enough");
        assert_eq!(taken(), 1);
        pending.enqueue(release());
        assert_eq!(taken(), 0, "not before the first is answered");
        pending.confirm(id);
        assert_eq!(taken(), 1);
        pending.confirm(id);
        assert_eq!((taken(), pending.is_confirmed(u64::MAX)), (0, Ok(true)));
    }

    #[test]
    fn close_waits_only_for_releases_pending_at_its_start() {
        let (pending, now) = (PendingReleases::default(), Time::from_nanos(0));
        let id = |n| HoldId { client: ClientId::new(), n };
        let (mine, later) = (id(1), id(2));
        let release = |id| Release {
            claim: Arc::new(Claim::of(id, Name::new("x").unwrap(), Kind::Lock)),
            entry: None,
            until: now.after(Duration::from_secs(1)),
            at: now,
            delay: FIRST_DELAY,
        };
        pending.enqueue(release(mine));
        let last = pending.lock().last;
        pending.enqueue(release(later));
        assert!(matches!(pending.take_due(now), Step::Send(due) if due.len() == 2));
        assert_eq!(pending.is_confirmed(last), Ok(false));
        pending.confirm(mine);
        assert_eq!((pending.is_confirmed(last), pending.is_confirmed(u64::MAX)), (Ok(true), Ok(false)));
        assert_eq!((pending.count(last), pending.count(u64::MAX)), (0, 1));
    }

    #[test]
    fn an_expired_release_is_neither_sent_nor_pending() {
        let (pending, now) = (PendingReleases::default(), Time::from_nanos(0));
        let id = HoldId { client: ClientId::new(), n: 1 };
        let until = now.after(Duration::from_secs(1));
        let claim = Arc::new(Claim::of(id, Name::new("x").unwrap(), Kind::Lock));
        pending.enqueue(Release { claim, entry: None, until, at: now, delay: FIRST_DELAY });
        assert!(matches!(pending.take_due(until), Step::Stop));
        assert_eq!(pending.is_confirmed(u64::MAX), Ok(true));
    }
}
