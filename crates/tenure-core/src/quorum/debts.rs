//! Releases that a node has not confirmed. They are repeated in the background until it has, or until the lease is
//! over and nothing can be left.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};

use super::Inner;
use super::ask::Calls;
use super::rounds::Entry;
use super::votes::{Verdict, Vote, Votes};
use crate::backend::Released;
use crate::{Claim, Error, HoldId, Result, Time};

/// Releases sent to one node at once.
const BATCH: usize = 64;
/// How soon one that was not confirmed is sent again; twice as late each time.
const SOON: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_secs(1);
/// A node that answers nothing for so long does not answer.
const DEAF: Duration = Duration::from_millis(200);

/// What one node owes.
#[derive(Debug, Default)]
pub(super) struct Debts(Mutex<Owed>);

#[derive(Debug, Default)]
struct Owed {
    debts: Vec<Debt>,
    /// The same once is enough.
    ids: HashSet<HoldId>,
    /// Whether somebody works on it.
    working: bool,
    /// Whether the node did not answer the last time.
    silent: bool,
}

#[derive(Clone, Debug)]
struct Debt {
    claim: Arc<Claim>,
    entry: Option<Arc<Entry>>,
    /// When the lease is over.
    until: Time,
    /// When it is sent again, and how long after that once more.
    at: Time,
    pause: Duration,
}

/// What there is to do.
enum Work {
    Send(Vec<Debt>),
    Wait(Time),
    Nothing,
}

impl Debts {
    fn lock(&self) -> MutexGuard<'_, Owed> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn is_silent(&self) -> bool {
        self.lock().silent
    }

    /// Adds one. Whether nobody works on them yet.
    fn add(&self, debt: Debt) -> bool {
        let mut owed = self.lock();
        if !owed.ids.insert(debt.claim.id) {
            return false;
        }
        owed.debts.push(debt);
        !std::mem::replace(&mut owed.working, true)
    }

    /// What is due, those that are over left out. A node that does not answer is asked one thing at a time.
    fn take(&self, now: Time) -> Work {
        let mut guard = self.lock();
        let owed = &mut *guard;
        owed.debts.retain(|debt| {
            let open = debt.until > now;
            if !open {
                owed.ids.remove(&debt.claim.id);
            }
            open
        });
        let Some(first) = owed.debts.iter().map(|debt| debt.at).min() else {
            (owed.working, owed.silent) = (false, false);
            return Work::Nothing;
        };
        if first > now {
            return Work::Wait(first);
        }
        let most = if owed.silent { 1 } else { BATCH };
        let (mut due, rest): (Vec<Debt>, Vec<Debt>) = owed.debts.drain(..).partition(|debt| debt.at <= now);
        owed.debts = rest;
        owed.debts.extend(due.split_off(due.len().min(most)));
        Work::Send(due)
    }

    /// Back to the others, for later.
    fn later(&self, mut debt: Debt, now: Time) {
        debt.at = now.after(debt.pause);
        debt.pause = (debt.pause * 2).min(LATEST);
        self.lock().debts.push(debt);
    }

    fn paid(&self, id: HoldId) {
        self.lock().ids.remove(&id);
    }
}

impl Inner {
    fn owe(self: &Arc<Self>, node: usize, claim: &Arc<Claim>, entry: Option<&Arc<Entry>>) {
        let now = self.clock().now();
        let (claim, entry) = (claim.clone(), entry.cloned());
        let debt = Debt { until: now.after(claim.lease), at: now, pause: SOON, claim, entry };
        if self.debts[node].add(debt) && !self.spawn(pay(self.clone(), node)) {
            self.debts[node].lock().working = false;
        }
    }

    /// What a node said about a release. Whether that is the end of it.
    fn told(
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
}

/// Works until nothing is owed.
async fn pay(inner: Arc<Inner>, node: usize) {
    let (backend, debts) = (inner.nodes[node].backend.clone(), &inner.debts[node]);
    loop {
        let due = match debts.take(inner.clock().now()) {
            Work::Send(due) => due,
            Work::Wait(at) => {
                // Not for long: others may come that are due sooner.
                inner.timer(at.min(inner.clock().now().after(SOON * 5))).await;
                continue;
            }
            Work::Nothing => return,
        };
        let sent = inner.clock().now();
        let answers = join_all(due.iter().map(|debt| backend.release(&debt.claim, 0))).await;
        let now = inner.clock().now();
        // One whose attempt may still arrive is not confirmed either, but the node has answered.
        let deaf = |e: &Error| !e.is_unknown() || now.since(sent) >= DEAF;
        debts.lock().silent = answers.iter().all(|a| a.as_ref().is_err_and(|e| e.is_transient() && deaf(e)));
        for (debt, answer) in due.into_iter().zip(answers) {
            if inner.told(node, &debt.claim, debt.entry.as_ref(), &answer) {
                debts.paid(debt.claim.id);
            } else {
                debts.later(debt, now);
            }
        }
    }
}

/// A release on its way to some nodes. What is not confirmed when it is dropped goes on in the background.
pub(super) struct Farewell<'a> {
    inner: &'a Arc<Inner>,
    claim: &'a Arc<Claim>,
    entry: Option<&'a Arc<Entry>>,
    calls: Calls<Result<Released>>,
    /// Whom the calls are to.
    open: Vec<usize>,
}

impl<'a> Farewell<'a> {
    /// To those of `nodes` that answer. The others are told in the background.
    pub(super) fn new(
        inner: &'a Arc<Inner>,
        claim: &'a Arc<Claim>,
        entry: Option<&'a Arc<Entry>>,
        nodes: impl Iterator<Item = usize>,
        silent: impl Fn(usize) -> bool,
    ) -> Self {
        let (calls, mut open) = (Calls::new(), Vec::new());
        for node in nodes {
            if silent(node) || inner.debts[node].is_silent() {
                inner.owe(node, claim, entry);
                continue;
            }
            let (backend, claim) = (inner.nodes[node].backend.clone(), claim.clone());
            let call: BoxFuture<'static, _> =
                Box::pin(async move { (node, backend.release(&claim, 0).await) });
            calls.push(call);
            open.push(node);
        }
        Self { inner, claim, entry, calls, open }
    }

    /// Takes answers in until most nodes have let go, all have answered, or the time is up. The others have as long
    /// again: it costs little, and one that is heard now need not be told twice.
    pub(super) async fn run(&mut self, until: Time, votes: &mut Votes) {
        let Self { inner, claim, entry, calls, open } = self;
        let sent = inner.clock().now();
        let mut done = |node: usize, answer: Result<Released>| {
            if inner.told(node, claim, *entry, &answer) {
                open.retain(|n| *n != node);
            }
            votes.0[node] = Some(Vote::of_release(answer));
            votes.verdict() == Verdict::Won
        };
        inner.gather(calls, until, &mut done).await;
        if !calls.is_empty() {
            let now = inner.clock().now();
            let grace = now.after(now.since(sent)).min(until);
            inner
                .gather(calls, grace, |node, answer| {
                    done(node, answer);
                    false
                })
                .await;
        }
        // Nobody waits for these again until they have answered what they owe.
        for node in self.open.iter().filter(|node| votes.0[**node].is_none()) {
            self.inner.debts[*node].lock().silent = true;
        }
    }
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        for node in self.open.drain(..) {
            self.inner.owe(node, self.claim, self.entry);
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
            self.inner.owe(self.node, self.claim, Some(self.entry));
        }
    }
}
