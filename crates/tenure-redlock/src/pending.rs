//! Releases that a node has not confirmed. They are retried in the background until confirmed, or until nothing of
//! their claims can be left there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::sync::Notify;

use super::ask::Calls;
use super::rounds::Entry;
use super::{Inner, SCHEME};
use tenure_core::backend::Released;
use tenure_core::{Claim, Error, HoldId, Result, Time};

/// The most releases sent to one node at a time.
const BATCH: usize = 64;
/// Backoff of retries: starts here and doubles up to `LATEST`.
const SOON: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_secs(1);
/// A node that answers nothing for this long counts as silent.
const DEAF: Duration = Duration::from_millis(200);

/// The releases that one node has not confirmed.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Releases to send, by due time.
    queue: BTreeMap<(Time, u64), Release>,
    /// All unconfirmed releases, including those in flight.
    ids: HashMap<HoldId, Open>,
    /// Their numbers, in order.
    open: BTreeSet<u64>,
    /// The number of the newest release.
    last: u64,
    /// Whether a task is sending them.
    working: bool,
    /// Whether the node did not answer the last time.
    silent: bool,
    /// How many batches it has answered.
    answers: u64,
}

/// An unconfirmed release.
#[derive(Debug)]
struct Open {
    number: u64,
    /// Whether it is in flight. If it is requested again meanwhile, it is sent once more: what it undoes may have
    /// arrived after it.
    sent: bool,
    again: Option<Release>,
}

impl State {
    fn enqueue(&mut self, number: u64, release: Release) {
        self.queue.insert((release.at, number), release);
    }

    fn forget(&mut self, id: HoldId) {
        if let Some(open) = self.ids.remove(&id) {
            self.open.remove(&open.number);
        }
    }

    /// Pops the first release and marks it as in flight.
    fn next(&mut self) -> Option<Release> {
        let (_, release) = self.queue.pop_first()?;
        if let Some(open) = self.ids.get_mut(&release.claim.id) {
            open.sent = true;
        }
        Some(release)
    }
}

#[derive(Clone, Debug)]
struct Release {
    claim: Arc<Claim>,
    entry: Option<Arc<Entry>>,
    /// When nothing of its claim can be left.
    until: Time,
    /// When it is sent next, and the backoff after that.
    at: Time,
    pause: Duration,
}

/// The next step of the sending task.
enum Work {
    Send(Vec<Release>),
    Wait(Time),
    Nothing,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn is_silent(&self) -> bool {
        self.lock().silent
    }

    /// Marks the node as silent: no caller waits for it again until it has answered what is pending.
    pub(super) fn fell_silent(&self) {
        self.lock().silent = true;
        self.changed.notify_waiters();
    }

    /// Adds a release. Returns whether a task must be started to send it.
    fn add(&self, release: Release) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let id = release.claim.id;
        if let Some(open) = state.ids.get_mut(&id) {
            open.again = open.sent.then_some(release);
            return false;
        }
        state.last += 1;
        let number = state.last;
        state.ids.insert(id, Open { number, sent: false, again: None });
        state.open.insert(number);
        state.enqueue(number, release);
        !std::mem::replace(&mut state.working, true)
    }

    /// Takes the releases that are due and drops expired ones. A silent node gets one at a time.
    fn take(&self, now: Time) -> Work {
        let mut guard = self.lock();
        let state = &mut *guard;
        let most = if state.silent { 1 } else { BATCH };
        let mut due = Vec::new();
        while due.len() < most
            && let Some((&(first, _), _)) = state.queue.first_key_value()
        {
            if first > now {
                if due.is_empty() {
                    return Work::Wait(first);
                }
                break;
            }
            match state.next() {
                Some(release) if release.until > now => due.push(release),
                Some(over) => state.forget(over.claim.id),
                None => break,
            }
        }
        if !due.is_empty() {
            return Work::Send(due);
        }
        (state.working, state.silent) = (false, false);
        drop(guard);
        self.changed.notify_waiters();
        Work::Nothing
    }

    /// Takes all queued releases, due or not.
    fn take_all(&self) -> Vec<Release> {
        let mut state = self.lock();
        std::iter::from_fn(|| state.next()).collect()
    }

    /// Requeues a release with backoff.
    fn later(&self, mut release: Release, now: Time) {
        release.at = now.after(release.pause);
        release.pause = (release.pause * 2).min(LATEST);
        let mut state = self.lock();
        let Some(open) = state.ids.get_mut(&release.claim.id) else { return };
        open.sent = false;
        if let Some(again) = open.again.take() {
            release.until = release.until.max(again.until);
        }
        let number = open.number;
        state.enqueue(number, release);
    }

    fn confirmed(&self, id: HoldId) {
        let mut state = self.lock();
        let again = state.ids.get_mut(&id).and_then(|open| {
            open.sent = false;
            open.again.take().map(|again| (open.number, again))
        });
        match again {
            Some((number, again)) => state.enqueue(number, again),
            None => state.forget(id),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The number of pending releases up to this number.
    fn count(&self, last: u64) -> usize {
        self.lock().open.range(..=last).count()
    }

    /// Whether nothing up to this number is pending; `Err` if something is and nobody is sending it or the node is
    /// silent.
    fn standing(&self, last: u64) -> Result<bool, ()> {
        let state = self.lock();
        if state.open.first().is_none_or(|first| *first > last) {
            return Ok(true);
        }
        if state.silent || !state.working { Err(()) } else { Ok(false) }
    }

    /// Waits until nothing up to this number is pending. Returns `false` as soon as nobody is sending it or the node is
    /// silent.
    async fn cleared(&self, last: u64) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.standing(last) {
                Ok(true) => return true,
                Ok(false) => changed.await,
                Err(()) => return false,
            }
        }
    }
}

impl Inner {
    /// Releases in the background. A claim identified by its token alone is not retried: the retry could hit a later
    /// hold of that token.
    pub(super) fn release_later(
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
        let release = Release { until: now.after(claim.lasts()), at: now, pause: SOON, claim, entry };
        if self.pending[node].add(release) && !self.spawn(send_pending(self.clone(), node)) {
            self.pending[node].lock().working = false;
        }
    }

    /// Records a node's answer to a release. Returns whether no retry is needed.
    pub(super) fn answered(
        &self,
        node: usize,
        claim: &Claim,
        entry: Option<&Arc<Entry>>,
        answer: &Result<Released>,
    ) -> bool {
        match answer {
            Ok(released) => {
                if let Some(entry) = entry {
                    entry.settle(node, *released);
                }
                true
            }
            Err(error) if error.is_transient() => false,
            Err(error) => {
                let (name, node) = (&claim.name, &self.nodes[node].name);
                tracing::warn!(%name, node, %error, "not released there; it ends with its lease");
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
        let open = |((node, pending), last): ((&super::Node, &Pending), &u64)| {
            let n = pending.count(*last);
            (n > 0).then(|| format!("node {}: {n}", node.name))
        };
        let open: Vec<String> = self.nodes.iter().zip(&self.pending).zip(&last).filter_map(open).collect();
        let reason = format!("releases not confirmed within {within:?}: {}", open.join("; "));
        Err(Error::Unknown { backend: SCHEME, what: "close".to_owned(), reason })
    }

    async fn flush_node(self: &Arc<Self>, node: usize, last: u64) {
        let pending = &self.pending[node];
        // The timeout of a node for the longest lease.
        let patience = self.options.node_timeout(self.options.max_lease);
        loop {
            let (answers, limit) = (pending.lock().answers, self.clock().now().after(patience));
            match select(pin!(pending.cleared(last)), self.timer(limit)).await {
                Either::Left((true, _)) => return,
                Either::Left((false, _)) => break,
                // No answer within the timeout: the node counts as silent.
                Either::Right(_) if pending.lock().answers == answers => break,
                Either::Right(_) => {}
            }
        }
        let mut rest = Rest { inner: self, node, releases: pending.take_all() };
        let limit = self.clock().now().after(patience);
        let backend = &self.nodes[node].backend;
        let mut calls: Calls<Result<Released>> = Calls::new();
        for (at, release) in rest.releases.iter().enumerate() {
            let (backend, claim) = (backend.clone(), release.claim.clone());
            calls.push(Box::pin(async move { (at, backend.release(&claim, 0).await) }));
        }
        let mut ended = HashSet::new();
        self.gather(&mut calls, limit, |at, answer| {
            let Release { claim, entry, .. } = &rest.releases[at];
            if self.answered(node, claim, entry.as_ref(), &answer) {
                pending.confirmed(claim.id);
                ended.insert(claim.id);
            }
            false
        })
        .await;
        rest.releases.retain(|release| !ended.contains(&release.claim.id));
        drop(rest);
        // One that is in flight may have been sent just now.
        select(pin!(pending.cleared(last)), self.timer(limit)).await;
    }
}

/// Releases taken out of a node's queue. Unfinished ones are requeued on drop.
struct Rest<'a> {
    inner: &'a Arc<Inner>,
    node: usize,
    releases: Vec<Release>,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        let (pending, now) = (&self.inner.pending[self.node], self.inner.clock().now());
        self.releases.drain(..).for_each(|release| pending.later(release, now));
        let idle = {
            let mut state = pending.lock();
            !state.queue.is_empty() && !std::mem::replace(&mut state.working, true)
        };
        if idle && !self.inner.spawn(send_pending(self.inner.clone(), self.node)) {
            pending.lock().working = false;
        }
    }
}

/// Sends releases until nothing is pending.
async fn send_pending(inner: Arc<Inner>, node: usize) {
    let (backend, pending) = (inner.nodes[node].backend.clone(), &inner.pending[node]);
    loop {
        let due = match pending.take(inner.clock().now()) {
            Work::Send(due) => due,
            Work::Wait(at) => {
                // Wakes up early, since releases may be added that are due sooner.
                inner.timer(at.min(inner.clock().now().after(SOON * 5))).await;
                continue;
            }
            Work::Nothing => return,
        };
        let sent = inner.clock().now();
        let answers = join_all(due.iter().map(|release| backend.release(&release.claim, 0))).await;
        let now = inner.clock().now();
        // A release whose attempt may still arrive is not confirmed either, but the node has answered.
        let deaf = |e: &Error| !e.is_unknown() || now.since(sent) >= DEAF;
        let silent = answers.iter().all(|a| a.as_ref().is_err_and(|e| e.is_transient() && deaf(e)));
        for (release, answer) in due.into_iter().zip(answers) {
            if inner.answered(node, &release.claim, release.entry.as_ref(), &answer) {
                pending.confirmed(release.claim.id);
            } else {
                pending.later(release, now);
            }
        }
        if silent {
            pending.fell_silent();
        } else {
            let mut state = pending.lock();
            state.silent = false;
            state.answers += 1;
        }
    }
}

/// Guards a hold that is being restored on a node. If the hold is being released by the time this is dropped, it is
/// released on that node too.
pub(super) struct Undo<'a> {
    inner: &'a Arc<Inner>,
    node: usize,
    claim: &'a Arc<Claim>,
    entry: &'a Arc<Entry>,
}

impl<'a> Undo<'a> {
    pub(super) fn new(
        inner: &'a Arc<Inner>,
        node: usize,
        claim: &'a Arc<Claim>,
        entry: &'a Arc<Entry>,
    ) -> Self {
        Self { inner, node, claim, entry }
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.entry.current() != Some(self.claim.id) {
            self.inner.release_later(self.node, self.claim, Some(self.entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::{ClientId, Kind, Name};

    #[test]
    fn one_that_is_asked_for_again_while_it_is_in_flight_is_sent_once_more() {
        let (pending, now) = (Pending::default(), Time::from_nanos(0));
        let id = HoldId { client: ClientId::new(), n: 1 };
        let release = || Release {
            claim: Arc::new(Claim::of(id, Name::new("x").unwrap(), Kind::Lock)),
            entry: None,
            until: now.after(Duration::from_secs(1)),
            at: now,
            pause: SOON,
        };
        let taken = || match pending.take(now) {
            Work::Send(due) => due.len(),
            _ => 0,
        };
        assert!(pending.add(release()), "nobody works on it yet");
        assert!(!pending.add(release()), "queued once is enough");
        assert_eq!(taken(), 1);
        pending.add(release());
        assert_eq!(taken(), 0, "not before the first is answered");
        pending.confirmed(id);
        assert_eq!(taken(), 1);
        pending.confirmed(id);
        assert_eq!((taken(), pending.standing(u64::MAX)), (0, Ok(true)));
    }

    #[test]
    fn whoever_closes_waits_only_for_what_was_pending_then() {
        let (pending, now) = (Pending::default(), Time::from_nanos(0));
        let id = |n| HoldId { client: ClientId::new(), n };
        let (mine, later) = (id(1), id(2));
        let release = |id| Release {
            claim: Arc::new(Claim::of(id, Name::new("x").unwrap(), Kind::Lock)),
            entry: None,
            until: now.after(Duration::from_secs(1)),
            at: now,
            pause: SOON,
        };
        pending.add(release(mine));
        let last = pending.lock().last;
        pending.add(release(later));
        assert!(matches!(pending.take(now), Work::Send(due) if due.len() == 2));
        assert_eq!(pending.standing(last), Ok(false));
        pending.confirmed(mine);
        assert_eq!((pending.standing(last), pending.standing(u64::MAX)), (Ok(true), Ok(false)));
        assert_eq!((pending.count(last), pending.count(u64::MAX)), (0, 1));
    }

    #[test]
    fn what_is_over_is_not_sent_and_not_pending() {
        let (pending, now) = (Pending::default(), Time::from_nanos(0));
        let id = HoldId { client: ClientId::new(), n: 1 };
        let until = now.after(Duration::from_secs(1));
        let claim = Arc::new(Claim::of(id, Name::new("x").unwrap(), Kind::Lock));
        pending.add(Release { claim, entry: None, until, at: now, pause: SOON });
        assert!(matches!(pending.take(until), Work::Nothing));
        assert_eq!(pending.standing(u64::MAX), Ok(true));
    }
}
