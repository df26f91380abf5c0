//! Renewal on a majority of nodes. A hold that a node has lost is restored there as long as a majority has it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;

use super::fan_out::Calls;
use super::rounds::Entry;
use super::votes::{Verdict, Vote, Votes};
use super::{Inner, pending};
use tenure_core::backend::{Attempt, Renewal};
use tenure_core::{Claim, Error, HoldId, Result, Time};

/// Calls in flight to renew a batch.
type Renewals = Calls<Result<Vec<Renewal>>>;

impl Inner {
    /// Checks and extends many holds on all nodes, and restores a hold on nodes that lost it, as long as a majority has
    /// it.
    pub(super) async fn renew(self: &Arc<Self>, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        for claim in claims {
            self.check_lease(claim)?;
        }
        let n = self.nodes.len();
        let mut answers = vec![Renewal::Gone; claims.len()];
        let mut asked: Vec<(usize, Arc<Claim>)> = Vec::new();
        for (at, claim) in claims.iter().enumerate() {
            let id = match self.rounds.get(claim.id) {
                Some(entry) if entry.is_waiting() => {
                    // Its rounds refresh its queue positions.
                    answers[at] = Renewal::Queued;
                    None
                }
                Some(entry) => entry.current_id(),
                None if claim.id == HoldId::NONE => Some(claim.id),
                // A hold of another process. In a larger batch it is one of ours that was released by hand.
                None if claims.len() == 1 => self.find_round_ids(claim).await?.first().copied(),
                None => None,
            };
            let stamp = self.stamp(claim);
            asked.extend(id.map(|id| (at, Arc::new(Claim { id, stamp, wait: None, ..(**claim).clone() }))));
        }
        if asked.is_empty() {
            return Ok(answers);
        }
        let sent = self.clock().now();
        let shortest = asked.iter().map(|(_, c)| c.lease).filter(|l| !l.is_zero()).min();
        let limit = self.options.node_timeout(shortest.unwrap_or(Duration::MAX));
        let batch: Arc<[Arc<Claim>]> = asked.iter().map(|(_, c)| c.clone()).collect();
        let mut votes: Vec<Votes> = asked.iter().map(|_| Votes::new(n)).collect();
        let mut failed = None;
        let mut calls: Renewals =
            self.call_nodes(&batch, |backend, batch| async move { backend.renew(&batch).await });
        self.collect(&mut calls, sent.after(limit), |node, answer| {
            for (k, votes) in votes.iter_mut().enumerate() {
                votes.0[node] = Some(match &answer {
                    Ok(found) => match found.get(k) {
                        Some(Renewal::Held { .. }) => Vote::Yes,
                        Some(Renewal::Unanswered) | None => Vote::Failed(self.no_answer()),
                        Some(_) => Vote::No,
                    },
                    Err(error) => Vote::Failed(error.clone()),
                });
            }
            votes.iter().all(|v| v.verdict() == Verdict::Won || v.is_gone())
        })
        .await;
        if !calls.is_empty() {
            let held = asked
                .iter()
                .enumerate()
                .filter(|(k, (_, claim))| !claim.lease.is_zero() && votes[*k].verdict() == Verdict::Won);
            let held = held.filter_map(|(k, (at, claim))| {
                self.rounds.get(claims[*at].id).map(|entry| (k, claim.clone(), entry))
            });
            self.repair_stragglers(calls, held.collect());
        }
        self.repair(&asked, claims, &mut votes, self.clock().now().after(limit)).await;
        for ((at, claim), votes) in asked.iter().zip(&votes) {
            let until = self.options.drift.until(sent, claim.lease);
            answers[*at] = match votes.verdict() {
                Verdict::Won => {
                    self.rounds.record_renewal(claims[*at].id, until);
                    Renewal::Held { until }
                }
                _ if votes.is_gone() => Renewal::Gone,
                _ => {
                    failed = Some(self.unknown(format!("renew {}", claim.name), votes, limit));
                    Renewal::Unanswered
                }
            };
        }
        match failed {
            Some(error) if answers.iter().all(|a| *a == Renewal::Unanswered) => Err(error),
            _ => Ok(answers),
        }
    }

    fn no_answer(&self) -> Error {
        self.info.unavailable("renew", "the node did not answer for this hold")
    }

    /// Restores holds on nodes that lost them. Waits for this only where the hold is short of a majority.
    async fn repair(
        self: &Arc<Self>,
        asked: &[(usize, Arc<Claim>)],
        claims: &[Arc<Claim>],
        votes: &mut [Votes],
        until: Time,
    ) {
        let (n, mut urgent) = (self.nodes.len(), Calls::new());
        for (k, (at, claim)) in asked.iter().enumerate() {
            let Some(entry) = self.rounds.get(claims[*at].id) else { continue };
            if claim.lease.is_zero() || votes[k].is_gone() {
                continue;
            }
            let lost = (0..n).filter(|node| votes[k].0[*node] == Some(Vote::No));
            for node in lost {
                let repair = self.clone().restore(node, claim.clone(), entry.clone());
                if votes[k].verdict() == Verdict::Won {
                    self.spawn(async move { drop(repair.await) });
                } else {
                    let call: BoxFuture<'static, _> = Box::pin(async move { (k * n + node, repair.await) });
                    urgent.push(call);
                }
            }
        }
        if urgent.is_empty() {
            return;
        }
        self.collect(&mut urgent, until, |which, restored| {
            if restored == Ok(true) {
                votes[which / n].0[which % n] = Some(Vote::Yes);
            }
            false
        })
        .await;
    }

    /// Restores holds that a majority has on nodes that report their loss after the decision. `held` are these holds,
    /// with their index in the answers.
    fn repair_stragglers(self: &Arc<Self>, mut calls: Renewals, held: Vec<(usize, Arc<Claim>, Arc<Entry>)>) {
        let Ok(permit) = self.straggler_permits.clone().try_acquire_owned() else { return };
        let inner = self.clone();
        self.spawn_on_caller(async move {
            let _permit = permit;
            while let Some((node, answer)) = calls.next().await {
                let Ok(answers) = answer else { continue };
                let lost = |k: usize| matches!(answers.get(k), Some(Renewal::Gone | Renewal::Queued));
                for (_, claim, entry) in held.iter().filter(|(k, ..)| lost(*k)) {
                    let _ = inner.clone().restore(node, claim.clone(), entry.clone()).await;
                }
            }
        });
    }

    /// Restores a hold on a node, unless it is being released. Returns whether the node has it now.
    async fn restore(self: Arc<Self>, node: usize, claim: Arc<Claim>, entry: Arc<Entry>) -> Result<bool> {
        if entry.current_id() != Some(claim.id) {
            return Ok(false);
        }
        entry.mark_restored(node);
        let again = Claim { holds: 1, ..(*claim).clone() };
        // If it is released meanwhile, the release may have reached the node before this attempt.
        let _guard = pending::RestoreGuard::new(&self, node, &claim, &entry);
        let answer = self.nodes[node].backend.try_acquire(&again).await?;
        if matches!(answer, Attempt::Granted { .. }) {
            let node = &self.nodes[node].name;
            tracing::info!(node, name = %claim.name, "hold restored on a node that had lost it");
            return Ok(true);
        }
        Ok(false)
    }
}
