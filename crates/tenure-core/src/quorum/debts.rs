//! Releases that a node has not confirmed. They are repeated in the background until it has, or until the lease is
//! over and nothing can be left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};

use super::Inner;
use super::ask::Calls;
use super::rounds::Entry;
use super::votes::{Verdict, Vote, Votes};
use crate::backend::Released;
use crate::{Claim, Error, Result, Time};

/// Releases sent to one node at once.
const BATCH: usize = 64;

/// What one node owes.
#[derive(Debug, Default)]
pub(super) struct Debts(Mutex<Owed>);

#[derive(Debug, Default)]
struct Owed {
    queue: VecDeque<Debt>,
    /// Whether somebody works on it.
    working: bool,
}

#[derive(Clone, Debug)]
struct Debt {
    claim: Arc<Claim>,
    entry: Option<Arc<Entry>>,
    /// When the lease is over.
    until: Time,
}

impl Debts {
    fn lock(&self) -> MutexGuard<'_, Owed> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Some of them, those that are over left out. `None` when there are none, and nobody works on them any more.
    fn take(&self, most: usize, now: Time) -> Option<Vec<Debt>> {
        let mut owed = self.lock();
        let mut taken = Vec::new();
        while taken.len() < most {
            match owed.queue.pop_front() {
                Some(debt) if debt.until > now => taken.push(debt),
                Some(_) => {}
                None => break,
            }
        }
        if taken.is_empty() {
            owed.working = false;
            return None;
        }
        Some(taken)
    }
}

impl Inner {
    fn owe(self: &Arc<Self>, node: usize, debt: Debt) {
        let idle = {
            let mut owed = self.debts[node].lock();
            owed.queue.push_back(debt);
            !std::mem::replace(&mut owed.working, true)
        };
        if idle {
            self.spawn(pay(self.clone(), node));
        }
    }

    fn debt(&self, claim: &Arc<Claim>, entry: Option<&Arc<Entry>>) -> Debt {
        let until = self.clock().now().after(claim.lease);
        Debt { claim: claim.clone(), entry: entry.cloned(), until }
    }
}

/// Works until nothing is owed. While the node does not answer, one by one.
async fn pay(inner: Arc<Inner>, node: usize) {
    const SOON: Duration = Duration::from_millis(10);
    let (backend, mut pause, mut most) = (inner.nodes[node].backend.clone(), SOON, BATCH);
    while let Some(debts) = inner.debts[node].take(most, inner.clock().now()) {
        let answers = join_all(debts.iter().map(|debt| backend.release(&debt.claim, 0))).await;
        let mut failed = false;
        for (debt, answer) in debts.into_iter().zip(answers) {
            failed |= answer.as_ref().is_err_and(Error::is_transient);
            inner.answered(node, &answer, debt);
        }
        if failed {
            inner.timer(inner.clock().now().after(pause)).await;
            (pause, most) = ((pause * 2).min(Duration::from_secs(1)), 1);
        } else {
            (pause, most) = (SOON, BATCH);
        }
    }
}

fn settle(entry: Option<&Arc<Entry>>, node: usize, released: Released) {
    if let Some(entry) = entry {
        entry.settle(node, released);
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
    /// To those of `nodes` that answer and owe nothing. The others get to it in their turn.
    pub(super) fn new(
        inner: &'a Arc<Inner>,
        claim: &'a Arc<Claim>,
        entry: Option<&'a Arc<Entry>>,
        nodes: impl Iterator<Item = usize>,
        silent: impl Fn(usize) -> bool,
    ) -> Self {
        let (calls, mut open) = (Calls::new(), Vec::new());
        for node in nodes {
            if silent(node) || !inner.debts[node].is_empty() {
                inner.owe(node, inner.debt(claim, entry));
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
            open.retain(|n| *n != node);
            inner.answered(node, &answer, inner.debt(claim, *entry));
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
    }
}

impl Inner {
    fn answered(self: &Arc<Self>, node: usize, answer: &Result<Released>, debt: Debt) {
        match answer {
            Ok(released) => settle(debt.entry.as_ref(), node, *released),
            Err(error) if error.is_transient() => self.owe(node, debt),
            Err(error) => {
                let (name, node) = (&debt.claim.name, &self.nodes[node].name);
                tracing::warn!(%name, node, %error, "not released there; it ends with its lease");
            }
        }
    }
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        for node in self.open.drain(..) {
            self.inner.owe(node, self.inner.debt(self.claim, self.entry));
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
            self.inner.owe(self.node, self.inner.debt(self.claim, Some(self.entry)));
        }
    }
}
