//! Releases that a node has not confirmed. They are repeated in the background until it has, or until nothing of their
//! claims can be left there.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::sync::Notify;

use super::ask::Calls;
use super::rounds::Entry;
use super::{Inner, SCHEME};
use crate::backend::Released;
use crate::{Claim, Error, HoldId, Result, Time};

/// Releases sent to one node at once.
const BATCH: usize = 64;
/// How soon one that was not confirmed is sent again; twice as late each time.
const SOON: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_secs(1);
/// A node that answers nothing for so long does not answer.
const DEAF: Duration = Duration::from_millis(200);

/// The releases that one node has not confirmed.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: Vec<Release>,
    /// All that are not confirmed, also those in flight. One that was asked for again while it was in flight is sent
    /// once more: what it is to undo may have arrived behind it.
    ids: HashMap<HoldId, Option<Release>>,
    /// Whether somebody works on them.
    working: bool,
    /// Whether the node did not answer the last time.
    silent: bool,
    /// How often it did.
    answers: u64,
}

#[derive(Clone, Debug)]
struct Release {
    claim: Arc<Claim>,
    entry: Option<Arc<Entry>>,
    /// When nothing of its claim can be left.
    until: Time,
    /// When it is sent again, and how long after that once more.
    at: Time,
    pause: Duration,
}

/// What there is to do.
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

    /// Nobody waits for this node again until it has answered what is pending.
    pub(super) fn fell_silent(&self) {
        self.lock().silent = true;
        self.changed.notify_waiters();
    }

    /// Adds one. Whether nobody works on them yet.
    fn add(&self, release: Release) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let id = release.claim.id;
        if let Some(again) = state.ids.get_mut(&id) {
            if !state.queue.iter().any(|queued| queued.claim.id == id) {
                *again = Some(release);
            }
            return false;
        }
        state.ids.insert(id, None);
        state.queue.push(release);
        !std::mem::replace(&mut state.working, true)
    }

    /// What is due, those that are over left out. A node that does not answer is asked one thing at a time.
    fn take(&self, now: Time) -> Work {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.queue.retain(|release| {
            let open = release.until > now;
            if !open {
                state.ids.remove(&release.claim.id);
            }
            open
        });
        let Some(first) = state.queue.iter().map(|release| release.at).min() else {
            (state.working, state.silent) = (false, false);
            drop(guard);
            self.changed.notify_waiters();
            return Work::Nothing;
        };
        if first > now {
            return Work::Wait(first);
        }
        let most = if state.silent { 1 } else { BATCH };
        let (mut due, rest): (Vec<Release>, Vec<Release>) =
            state.queue.drain(..).partition(|release| release.at <= now);
        state.queue = rest;
        state.queue.extend(due.split_off(due.len().min(most)));
        Work::Send(due)
    }

    /// Back to the others, for later.
    fn later(&self, mut release: Release, now: Time) {
        release.at = now.after(release.pause);
        release.pause = (release.pause * 2).min(LATEST);
        self.lock().queue.push(release);
    }

    fn confirmed(&self, id: HoldId) {
        let mut state = self.lock();
        if let Some(Some(again)) = state.ids.remove(&id) {
            state.ids.insert(id, None);
            state.queue.push(again);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether nothing is pending; `Err` where nobody is known to work on what is.
    fn standing(&self) -> Result<bool, ()> {
        let state = self.lock();
        if state.ids.is_empty() {
            return Ok(true);
        }
        if state.silent || !state.working { Err(()) } else { Ok(false) }
    }

    /// Waits until nothing is pending. `false` as soon as nobody is known to work on it.
    async fn cleared(&self) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.standing() {
                Ok(true) => return true,
                Ok(false) => changed.await,
                Err(()) => return false,
            }
        }
    }
}

impl Inner {
    /// Releases in the background. What goes by a token alone is not repeated there: it could meet a later hold of the
    /// same token.
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

    /// Takes in what a node said about a release. Whether that is the end of it.
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

    /// Waits until every node has confirmed what is pending. One that does not answer is sent all of it once more, and
    /// has as long as for any other call.
    pub(super) async fn flush(self: &Arc<Self>, within: Duration) -> Result<()> {
        let all = join_all((0..self.nodes.len()).map(|node| self.flush_node(node)));
        let limit = self.timer(self.clock().now().after(within));
        let Either::Right(_) = select(pin!(all), limit).await else { return Ok(()) };
        let open = |(node, pending): (&super::Node, &Pending)| {
            let n = pending.lock().ids.len();
            (n > 0).then(|| format!("node {}: {n}", node.name))
        };
        let open: Vec<String> = self.nodes.iter().zip(&self.pending).filter_map(open).collect();
        let reason = format!("releases not confirmed within {within:?}: {}", open.join("; "));
        Err(Error::Unknown { backend: SCHEME, what: "close".to_owned(), reason })
    }

    async fn flush_node(self: &Arc<Self>, node: usize) {
        let pending = &self.pending[node];
        // As long as any node has for the longest lease.
        let patience = self.options.node_timeout(self.options.max_lease);
        loop {
            let (answers, limit) = (pending.lock().answers, self.clock().now().after(patience));
            match select(pin!(pending.cleared()), self.timer(limit)).await {
                Either::Left((true, _)) => return,
                Either::Left((false, _)) => break,
                // One that is asked and says nothing for so long does not answer.
                Either::Right(_) if pending.lock().answers == answers => break,
                Either::Right(_) => {}
            }
        }
        let mut rest = Rest { inner: self, node, releases: std::mem::take(&mut pending.lock().queue) };
        let limit = self.clock().now().after(patience);
        let backend = &self.nodes[node].backend;
        let mut calls: Calls<Result<Released>> = Calls::new();
        for (at, release) in rest.releases.iter().enumerate() {
            let (backend, claim) = (backend.clone(), release.claim.clone());
            calls.push(Box::pin(async move { (at, backend.release(&claim, 0).await) }));
        }
        let mut ended = Vec::new();
        self.gather(&mut calls, limit, |at, answer| {
            let Release { claim, entry, .. } = &rest.releases[at];
            if self.answered(node, claim, entry.as_ref(), &answer) {
                pending.confirmed(claim.id);
                ended.push(claim.id);
            }
            false
        })
        .await;
        rest.releases.retain(|release| !ended.contains(&release.claim.id));
        drop(rest);
        // The one that is under way may have been sent just now.
        select(pin!(pending.cleared()), self.timer(limit)).await;
    }
}

/// Releases taken out of the queue of a node. What is left of them goes back.
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

/// Works until nothing is pending.
async fn send_pending(inner: Arc<Inner>, node: usize) {
    let (backend, pending) = (inner.nodes[node].backend.clone(), &inner.pending[node]);
    loop {
        let due = match pending.take(inner.clock().now()) {
            Work::Send(due) => due,
            Work::Wait(at) => {
                // Not for long: others may come that are due sooner.
                inner.timer(at.min(inner.clock().now().after(SOON * 5))).await;
                continue;
            }
            Work::Nothing => return,
        };
        let sent = inner.clock().now();
        let answers = join_all(due.iter().map(|release| backend.release(&release.claim, 0))).await;
        let now = inner.clock().now();
        // One whose attempt may still arrive is not confirmed either, but the node has answered.
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

/// Something given to a node. If its hold is being released by the time this is dropped, the node is told, too.
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
    use crate::{ClientId, Kind, Name};

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
        assert_eq!((taken(), pending.standing()), (0, Ok(true)));
    }
}
