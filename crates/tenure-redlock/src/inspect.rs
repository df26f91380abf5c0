//! Administration: inspection of a quorum, forced releases and diagnosis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::rounds::claim_of;
use super::votes::{Vote, Votes, reason};
use super::{Inner, SCHEME};
use tenure_core::backend::{Holder, Query, Reason, Released, Snapshot, Waiter};
use tenure_core::{Claim, Error, Family, Finding, HoldId, Kind, Name, Result};

/// Timeout of nodes for inspection.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// The least extra time of nodes slower than the majority.
const GRACE: Duration = Duration::from_millis(20);

/// The nodes' answers about one name: holders and waiters by claim.
#[derive(Default)]
struct Reported {
    holders: BTreeMap<String, Vec<Holder>>,
    waiters: BTreeMap<String, Waiter>,
}

impl Inner {
    /// Returns what a majority of nodes holds, and the waiters of any node.
    pub(super) async fn inspect(self: &Arc<Self>, query: Query) -> Result<Vec<Snapshot>> {
        let all = self.inspect_nodes(query).await?;
        let mut names: BTreeMap<Name, Reported> = BTreeMap::new();
        for snapshot in all.into_iter().flatten().filter(|s| s.family == Family::Lock) {
            let Reported { holders, waiters } = names.entry(snapshot.name).or_default();
            for mut waiter in snapshot.waiters {
                if let Some(id) = waiter.id.parse().ok().filter(|_| !waiter.foreign) {
                    waiter.id = claim_of(id).to_string();
                }
                waiters.entry(waiter.id.clone()).or_insert(waiter);
            }
            for mut holder in snapshot.holders {
                if let Some(id) = holder.hold_id().filter(|_| !holder.foreign) {
                    holder.id = claim_of(id).to_string();
                }
                holders.entry(holder.id.clone()).or_default().push(holder);
            }
        }
        let held = names.into_iter().filter_map(|(name, seen)| {
            let holders: Vec<Holder> =
                seen.holders.into_values().filter_map(|of| self.merge_holder(of)).collect();
            let mut waiters: Vec<Waiter> = seen.waiters.into_values().collect();
            waiters.sort_by_key(|w| w.since);
            let mut snapshot = Snapshot::new(name, Family::Lock);
            (snapshot.holders, snapshot.waiters) = (holders, waiters);
            let used = !snapshot.holders.is_empty() || !snapshot.waiters.is_empty();
            used.then_some(snapshot)
        });
        Ok(held.collect())
    }

    /// Merges one holder as seen by the nodes; `None` without a majority. Its time left ends when it would lose the
    /// majority.
    fn merge_holder(&self, mut of: Vec<Holder>) -> Option<Holder> {
        of.sort_by_key(|h| std::cmp::Reverse(h.left.unwrap_or(Duration::MAX)));
        let left = of.get(self.needed() - 1)?.left;
        let holds = of.iter().map(|h| h.holds).max()?;
        let mut merged = of.into_iter().next()?;
        (merged.left, merged.holds, merged.fence) = (left, holds, None);
        Some(merged)
    }

    /// The answer of each node, if a majority answers.
    async fn inspect_nodes(self: &Arc<Self>, query: Query) -> Result<Vec<Vec<Snapshot>>> {
        let mut votes = Votes::new(self.nodes.len());
        let mut seen = Vec::new();
        let mut calls =
            self.call_nodes(
                &query,
                |backend, query| async move { backend.require_admin()?.inspect(query).await },
            );
        let begun = self.clock().now();
        let mut done = |node: usize, answer: Result<Vec<Snapshot>>| {
            votes.0[node] = Some(match answer {
                Ok(snapshots) => {
                    seen.push(snapshots);
                    Vote::Yes
                }
                Err(error) => Vote::Failed(error),
            });
            votes.yes_count() >= self.needed()
        };
        self.collect(&mut calls, begun.after(NODE_TIMEOUT), &mut done).await;
        // A majority has answered. The others get as much time again.
        let now = self.clock().now();
        let grace = now.since(begun).max(GRACE);
        self.collect(&mut calls, now.after(grace), |node, answer| {
            done(node, answer);
            false
        })
        .await;
        if seen.len() < self.needed() {
            return Err(self
                .info
                .unavailable("inspect", votes.describe(self.names(), NODE_TIMEOUT, NODE_TIMEOUT)));
        }
        Ok(seen)
    }

    /// Returns the ids under which a claim of another process is on the nodes.
    pub(super) async fn find_round_ids(self: &Arc<Self>, claim: &Claim) -> Result<Vec<HoldId>> {
        let all = self.inspect_nodes(Query::Name(claim.name.clone())).await?;
        let holders = all.iter().flatten().flat_map(|s| &s.holders).filter_map(Holder::hold_id);
        let mut ids: Vec<HoldId> = holders.filter(|id| claim_of(*id) == claim.id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    pub(super) async fn expel(self: &Arc<Self>, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        let mut votes = Votes::new(self.nodes.len());
        let arguments = (name.clone(), Arc::<str>::from(holder));
        let mut calls = self.call_nodes(&arguments, |backend, (name, holder)| async move {
            backend.require_admin()?.expel(&name, kind, &holder).await
        });
        self.collect(&mut calls, self.clock().now().after(NODE_TIMEOUT), |node, answer| {
            votes.0[node] = Some(Vote::of_release(answer));
            false
        })
        .await;
        if votes.yes_count() > 0 {
            return Ok(Released::Freed);
        }
        if votes.is_gone() {
            return Ok(Released::Gone);
        }
        Err(self.unknown(format!("release {name}"), &votes, NODE_TIMEOUT))
    }

    pub(super) async fn diagnose(self: &Arc<Self>) -> Result<Vec<Finding>> {
        let mut findings = vec![self.check_size()];
        let looks = self.nodes.iter().map(|node| async move {
            let found = async { node.backend.require_admin()?.diagnose().await };
            (node, found.await)
        });
        let (mut failed, mut last) = (Vec::new(), None);
        for (node, found) in join_all(looks).await {
            match found {
                Ok(found) => {
                    let named = |f: Finding| if f.place.is_some() { f } else { f.at(&node.name) };
                    findings.extend(found.into_iter().map(named));
                }
                Err(error) => {
                    failed.push(reason(&error));
                    let what = format!("does not answer: {error}");
                    let advice =
                        "bring it back: the others decide without it only as long as they are a majority";
                    findings.push(Finding::warning("node", what, advice).at(&node.name));
                    last = Some(error);
                }
            }
        }
        let answering = self.nodes.len() - failed.len();
        if let Some(last) = last.filter(|_| answering == 0) {
            let text = format!("none of {} nodes answers; the last one: {last}", self.nodes.len());
            let cause = Reason::all(failed).cause;
            return Err(Error::unavailable(SCHEME, "diagnose", Reason { text, cause }));
        }
        if answering < self.needed() {
            let what = format!(
                "{answering} of {} nodes answer, {} needed: nothing can be locked",
                self.nodes.len(),
                self.needed()
            );
            findings.insert(1, Finding::error("majority", what, "bring back the nodes named below"));
        }
        findings.push(Finding::warning(
            "peers",
            "other libraries count the vote of a node that was just restarted, and may grant a lock twice then",
            "make the nodes durable (appendonly yes, appendfsync always), or use these names with Tenure only",
        ));
        Ok(findings)
    }

    fn check_size(&self) -> Finding {
        let (n, needed) = (self.nodes.len(), self.needed());
        let what = format!("{n} nodes, of which {needed} must agree and {} may fail", n - needed);
        if n % 2 == 0 {
            let advice = format!("{} nodes tolerate as many failures", n - 1);
            return Finding::warning("quorum", what, advice);
        }
        if n < 3 {
            return Finding::warning(
                "quorum",
                what,
                "use three or five nodes, which tolerate one or two failures",
            );
        }
        Finding::ok("quorum", what)
    }
}
