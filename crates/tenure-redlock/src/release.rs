//! Releases a hold on all nodes. A majority decides; releases that the others have not confirmed continue in the
//! background.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::Inner;
use super::fan_out::Calls;
use super::rounds::{Entry, QueuePositions};
use super::votes::{Verdict, Vote, Votes};
use tenure_core::backend::Released;
use tenure_core::{Claim, HoldId, Result, Time};

impl Inner {
    /// Writes the reentry count of a hold that stays. It is only for inspection, so a majority is enough.
    pub(super) async fn set_hold_count(self: &Arc<Self>, claim: &Claim, left: u32) -> Result<Released> {
        let Some(id) = self.rounds.current_id(claim.id) else { return Ok(Released::Gone) };
        let round_claim = Arc::new(Claim { id, ..claim.clone() });
        let until = self.clock().now().after(self.options.node_timeout(claim.lease));
        let votes = self
            .call_for_votes(&round_claim, until, move |node, round_claim| async move {
                Vote::of_release(node.release(&round_claim, left).await)
            })
            .await;
        self.release_result(claim, &votes)
    }

    /// Releases on all nodes. What a node does not confirm is retried in the background.
    pub(super) async fn release(self: &Arc<Self>, claim: &Claim) -> Result<Released> {
        let Some(entry) = self.rounds.begin_release(claim.id, self.clock().now().after(claim.lease)) else {
            return self.release_foreign(claim).await;
        };
        let positions = entry.take_positions();
        let was_waiting = positions.as_ref().is_some_and(|p| !p.nodes.is_empty());
        self.release_positions(positions);
        let Some(id) = entry.id_to_release() else {
            self.rounds.remove(claim.id, &entry);
            return Ok(if was_waiting { Released::Freed } else { Released::Gone });
        };
        let round_claim = Arc::new(Claim { id, wait: None, ..claim.clone() });
        let votes = self.release_on(&round_claim, Some(&entry), 0..self.nodes.len(), |_| false).await;
        let released = self.release_result(claim, &votes);
        if released.is_ok() {
            self.rounds.remove(claim.id, &entry);
        }
        released
    }

    /// The result of a release with these answers.
    fn release_result(&self, claim: &Claim, votes: &Votes) -> Result<Released> {
        match votes.verdict() {
            Verdict::Won => Ok(Released::Freed),
            _ if votes.is_gone() => Ok(Released::Gone),
            _ => {
                let limit = self.options.node_timeout(claim.lease);
                Err(self.unknown(format!("release {}", claim.name), votes, limit))
            }
        }
    }

    /// Releases a hold of another process by its id, or whatever is held by a token.
    async fn release_foreign(self: &Arc<Self>, claim: &Claim) -> Result<Released> {
        let ids = if claim.id == HoldId::NONE { vec![claim.id] } else { self.find_round_ids(claim).await? };
        let mut released = Ok(Released::Gone);
        for id in ids {
            let round_claim = Arc::new(Claim { id, wait: None, ..claim.clone() });
            let votes = self.release_on(&round_claim, None, 0..self.nodes.len(), |_| false).await;
            match self.release_result(claim, &votes) {
                Ok(Released::Gone) => {}
                other => released = other,
            }
        }
        released
    }

    /// Gives up these queue positions, in the background.
    pub(super) fn release_positions(self: &Arc<Self>, positions: Option<QueuePositions>) {
        if let Some(QueuePositions { claim, nodes }) = positions {
            nodes.into_iter().for_each(|node| self.release_in_background(node, &claim, None));
        }
    }

    /// Releases on some nodes. Those that do not confirm in time are retried in the background.
    pub(super) async fn release_on(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        entry: Option<&Arc<Entry>>,
        nodes: impl Iterator<Item = usize>,
        is_silent: impl Fn(usize) -> bool,
    ) -> Votes {
        let (n, limit) = (self.nodes.len(), self.options.node_timeout(claim.lease));
        let mut votes = entry.map_or_else(|| Votes::new(n), |entry| entry.release_answers(n));
        let unconfirmed = nodes.filter(|node| votes.0[*node].is_none());
        let mut release = ReleaseInFlight::new(self, claim, entry, unconfirmed, is_silent);
        release.run(self.clock().now().after(limit), &mut votes).await;
        votes
    }
}

/// A release in flight to some nodes. What is unconfirmed when this is dropped continues in the background.
struct ReleaseInFlight<'a> {
    inner: &'a Arc<Inner>,
    claim: &'a Arc<Claim>,
    entry: Option<&'a Arc<Entry>>,
    calls: Calls<Result<Released>>,
    /// The nodes that have not confirmed.
    unconfirmed: Vec<usize>,
}

impl<'a> ReleaseInFlight<'a> {
    /// Sends the release to those of `nodes` that answer. Silent ones are released in the background, unless the claim
    /// is identified by its token alone.
    fn new(
        inner: &'a Arc<Inner>,
        claim: &'a Arc<Claim>,
        entry: Option<&'a Arc<Entry>>,
        nodes: impl Iterator<Item = usize>,
        is_silent: impl Fn(usize) -> bool,
    ) -> Self {
        let (calls, mut unconfirmed) = (Calls::new(), Vec::new());
        for node in nodes {
            if claim.id != HoldId::NONE && (is_silent(node) || inner.pending[node].is_silent()) {
                inner.release_in_background(node, claim, entry);
                continue;
            }
            let (backend, claim) = (inner.nodes[node].backend.clone(), claim.clone());
            let call: BoxFuture<'static, _> =
                Box::pin(async move { (node, backend.release(&claim, 0).await) });
            calls.push(call);
            unconfirmed.push(node);
        }
        Self { inner, claim, entry, calls, unconfirmed }
    }

    /// Collects answers until a majority has released, all have answered, or the deadline passes. After a majority the
    /// others get as much time again: it costs little, and a node that answers now needs no retry.
    async fn run(&mut self, until: Time, votes: &mut Votes) {
        let Self { inner, claim, entry, calls, unconfirmed } = self;
        let sent = inner.clock().now();
        let mut done = |node: usize, answer: Result<Released>| {
            if inner.record_answer(node, claim, *entry, &answer) {
                unconfirmed.retain(|n| *n != node);
            }
            votes.0[node] = Some(Vote::of_release(answer));
            votes.verdict() == Verdict::Won
        };
        inner.collect(calls, until, &mut done).await;
        if !calls.is_empty() {
            let now = inner.clock().now();
            let grace = now.after(now.since(sent)).min(until);
            inner
                .collect(calls, grace, |node, answer| {
                    done(node, answer);
                    false
                })
                .await;
        }
        for node in self.unconfirmed.iter().filter(|node| votes.0[**node].is_none()) {
            self.inner.pending[*node].mark_silent();
        }
    }
}

impl Drop for ReleaseInFlight<'_> {
    fn drop(&mut self) {
        for node in self.unconfirmed.drain(..) {
            self.inner.release_in_background(node, self.claim, self.entry);
        }
    }
}
