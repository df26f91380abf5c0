//! RedLock: one lock on several independent stores, held by the client that a majority of them has granted it to.
//!
//! All nodes are called in parallel. Each round has its own id on the nodes and is released by that id only, so that
//! leftovers of a lost round cannot affect the next one. Validity counts from the moment the round was sent, minus the
//! allowed clock drift.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
//! use std::sync::Arc;
//! use tenure_core::{Client, Memory};
//! use tenure_redlock::{Node, Quorum, QuorumOptions};
//!
//! // In earnest these are stores on servers that do not fail together.
//! let nodes = ["a", "b", "c"].map(|name| Node { name: name.into(), backend: Arc::new(Memory::new()) });
//! let client = Client::new(Quorum::new(nodes.into(), QuorumOptions::default())?);
//! let guard = client.lock("orders/42").acquire().await?; // two of three have granted it
//! guard.release().await
//! # }
//! ```

mod connect;
mod fan_out;
mod inspect;
mod options;
mod pending;
mod release;
mod renew;
mod round_backoff;
mod rounds;
mod stragglers;
mod votes;
mod watch;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

pub use options::QuorumOptions;

use self::fan_out::Calls;
use self::pending::PendingReleases;
use self::round_backoff::RoundBackoffs;
use self::rounds::{LostRounds, QueuePositions, Rounds};
use self::votes::{Verdict, Vote, Votes, majority};
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Query, Released, Renewal,
    Snapshot, Watch,
};
use tenure_core::{
    Background, Claim, Clock, Error, Family, Finding, Kind, Name, OpId, Result, Suspicion, Time,
};

const SCHEME: &str = "redlock";

const REFUSALS: &[(Family, &str)] = &[
    (Family::Fair, "each node has a queue of its own, and their orders may differ"),
    (Family::Leader, "a quorum has no fencing token, and elections need one"),
    (Family::ReadWrite, "a node does not know the readers of the others"),
    (Family::Permit, "a majority for each permit does not limit their number"),
    (Family::Latch, "counts on independent nodes would differ"),
    (Family::Count, "counts on independent nodes would differ"),
];

/// One of the stores of a quorum.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name in error messages.
    pub name: String,
    /// The store.
    pub backend: Arc<dyn Backend>,
}

/// A RedLock: one lock on several independent stores. It works while a majority of them does.
///
/// Locks only, without a fence. Clones share one state.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure_core::{Client, Memory};
/// use tenure_redlock::{Node, Quorum, QuorumOptions};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
///
/// let node = |name: &str| Node { name: name.to_owned(), backend: Arc::new(Memory::new()) };
/// let quorum = Quorum::new(vec![node("a"), node("b"), node("c")], QuorumOptions::default())?;
/// quorum.connect(|_| async { Ok(()) }).await?; // where nodes have to be connected to
/// assert_eq!(quorum.nodes().len(), 3);
/// let guard = Client::new(quorum).lock("orders/42").acquire().await?;
/// guard.release().await
/// # }
/// ```
#[derive(Clone)]
pub struct Quorum(Arc<Inner>);

struct Inner {
    nodes: Vec<Node>,
    info: Info,
    options: QuorumOptions,
    rounds: Rounds,
    pending: Vec<PendingReleases>,
    backoffs: RoundBackoffs,
    /// Limits how many decided rounds may still have attempts in flight.
    straggler_permits: Arc<Semaphore>,
    background: Background,
}

impl Quorum {
    /// Creates a quorum of these stores, which must support locks and be independent of each other.
    ///
    /// # Errors
    /// `Config` if there are no nodes or an option is invalid; `Unsupported` if one of them does not support locks.
    pub fn new(nodes: Vec<Node>, options: QuorumOptions) -> Result<Self> {
        options.check()?;
        let Some(first) = nodes.first() else {
            return Err(Error::Config(format!("{SCHEME}: no nodes are given: give three or five")));
        };
        let suspicion = Suspicion::new();
        for node in &nodes {
            let info = node.backend.info();
            info.require(Family::Lock)?;
            info.suspicion.also(&suspicion);
        }
        let mut info = Info::new(SCHEME, first.backend.info().environment.clone());
        (info.families, info.refusals) = (&[Family::Lock], REFUSALS);
        info.tokens = nodes.iter().all(|n| n.backend.info().tokens);
        info.poll = first.backend.info().poll;
        info.max_lease = Some(options.max_lease);
        info.address = nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(",");
        (info.drift, info.suspicion) = (options.drift, suspicion);
        let pending = nodes.iter().map(|_| PendingReleases::default()).collect();
        let (rounds, backoffs) = (Rounds::default(), RoundBackoffs::default());
        Ok(Self(Arc::new(Inner {
            straggler_permits: Arc::new(Semaphore::new(stragglers::MAX_ROUNDS)),
            background: Background::new("tenure-quorum"),
            nodes,
            info,
            options,
            rounds,
            pending,
            backoffs,
        })))
    }

    /// Returns the nodes of this quorum.
    pub fn nodes(&self) -> &[Node] {
        &self.0.nodes
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.0.nodes.iter().map(|n| n.name.as_str()).collect();
        f.debug_struct("Quorum").field("nodes", &nodes).finish()
    }
}

#[async_trait]
impl Backend for Quorum {
    fn info(&self) -> &Info {
        &self.0.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let inner = &self.0;
        inner.info.require(claim.kind.family())?;
        inner.check_lease(claim)?;
        if claim.holds > 1 { inner.reenter(claim).await } else { inner.run_round(claim).await }
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        watch::open(&self.0, name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.0.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        if left > 0 { self.0.set_hold_count(claim, left).await } else { self.0.release(claim).await }
    }

    async fn count(&self, name: &Name, counter: Counter, _op: CountOp, _id: OpId) -> Result<CountReply> {
        let family = match counter {
            Counter::Latch => Family::Latch,
            Counter::Semaphore => Family::Count,
            Counter::Size => Family::Permit,
        };
        self.0.info.require(family)?;
        unreachable!("{name}: a quorum supports no counts")
    }

    async fn close(&self, within: Duration) -> Result<()> {
        self.0.flush(within).await
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Admin for Quorum {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        self.0.inspect(query).await
    }

    async fn expel(&self, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        self.0.expel(name, kind, holder).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.0.diagnose().await
    }
}

impl Inner {
    fn clock(&self) -> &Clock {
        self.info.clock()
    }

    fn check_lease(&self, claim: &Claim) -> Result<()> {
        let most = self.options.max_lease;
        if claim.lease <= most {
            return Ok(());
        }
        Err(Error::Config(format!(
            "{SCHEME}: a lease of {:?} for {} is longer than max_lease, {most:?}: a node that was restarted does not \
             vote for that long only. Use a shorter lease, or raise max_lease on all clients",
            claim.lease, claim.name
        )))
    }

    /// How long a queue position on a node lasts: until the next round, which has a new one, and for as long as a hold
    /// that is left to its lease. After a round that was won, nodes that refused keep their positions under the id of the
    /// hold, and these cannot be released: a node that was told to release an id must not be given the hold again.
    fn stamp(&self, claim: &Claim) -> Duration {
        claim.stamp.min(claim.lease.max(self.options.retry_delay.end().saturating_mul(2)))
    }

    fn needed(&self) -> usize {
        majority(self.nodes.len())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|n| n.name.as_str())
    }

    /// Calls all nodes and collects their votes until they decide or the deadline passes.
    async fn call_for_votes<F: Future<Output = Vote> + Send + 'static>(
        &self,
        round_claim: &Arc<Claim>,
        until: Time,
        call: impl Fn(Arc<dyn Backend>, Arc<Claim>) -> F,
    ) -> Votes {
        let done = |votes: &Votes| votes.verdict() != Verdict::Open;
        self.collect_votes(&mut self.call_nodes(round_claim, call), until, done).await
    }

    /// Collects the votes of `calls` until `done` or the deadline passes. Calls still in flight then stay in `calls`.
    async fn collect_votes(
        &self,
        calls: &mut Calls<Vote>,
        until: Time,
        done: impl Fn(&Votes) -> bool,
    ) -> Votes {
        let mut votes = Votes::new(self.nodes.len());
        self.collect(calls, until, |node, vote| {
            votes.0[node] = Some(vote);
            done(&votes)
        })
        .await;
        votes
    }

    /// Runs one round: calls every node, and releases what was granted if there is no majority.
    async fn run_round(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let entry = self.rounds.get_or_create(claim.id, self.clock().now(), self.options.max_lease);
        // A retry waits for the attempt before it and sees its result.
        let _turn = entry.turn.lock().await;
        if claim.wait.is_some()
            && entry.current_id().is_none()
            && let Some(left) = self.backoffs.remaining(&claim.name, self.clock().now())
        {
            return Ok(Attempt::Busy { retry_after: Some(left), behind: None, position: None });
        }
        let Some(round) = entry.begin_round(|| self.rounds.new_id(claim.id)) else {
            return Err(self
                .info
                .unavailable(format!("acquire {}", claim.name), "the claim is being released"));
        };
        let round_claim = Arc::new(Claim { id: round.id, stamp: self.stamp(claim), ..claim.clone() });
        let (sent, limit) = (self.clock().now(), self.options.node_timeout(claim.lease));
        let mut calls = self.call_nodes(&round_claim, |node, round_claim| async move {
            Vote::of_attempt(node.try_acquire(&round_claim).await)
        });
        let votes = self.collect_votes(&mut calls, sent.after(limit), Votes::is_settled).await;
        let now = self.clock().now();
        let until = self.options.drift.until(sent, claim.lease);
        // Nothing to release there, unless an earlier attempt under this id was executed.
        let not_executed =
            |node: usize| !round.is_repeated && votes.0[node].as_ref().is_some_and(Vote::is_not_executed);
        if votes.verdict() == Verdict::Won && now < until {
            (0..self.nodes.len())
                .filter(|node| not_executed(*node))
                .for_each(|node| entry.mark_not_executed(node, round.id));
            self.release_positions(entry.record_grant(until));
            self.backoffs.clear(&claim.name);
            self.finish_in_background(&entry, round, calls, until);
            return Ok(Attempt::Granted { fence: None, until, spare: 0 });
        }
        // Attempts not sent yet must not arrive after their release.
        drop(calls);
        if entry.is_granted() {
            // A retry: what the first attempt was granted is not undone for it.
            return Err(self.unknown(format!("acquire {}", claim.name), &votes, limit));
        }
        // On nodes where another client holds it, a waiter keeps its queue position until the next round has a new one.
        let keeps_position = |node: usize| claim.wait.is_some() && votes.0[node] == Some(Vote::No);
        let positions = || QueuePositions {
            claim: round_claim.clone(),
            nodes: (0..self.nodes.len()).filter(|node| keeps_position(*node)).collect(),
        };
        let (lost, before) = entry.end_lost_round(claim.wait.map(|_| positions()));
        self.release_positions(before);
        let release_on = (0..self.nodes.len()).filter(|node| !keeps_position(*node) && !not_executed(*node));
        // Nodes that have not answered yet are sent the release in the background.
        self.release_on(&round_claim, None, release_on, |node| votes.0[node].is_none()).await;
        // A waiter tries again, and releases explicitly when it gives up.
        if claim.wait.is_none() && !entry.is_waiting() {
            self.rounds.remove(claim.id, &entry);
        }
        self.lost_round_result(claim, &votes, lost, sent, now)
    }

    /// The result of a lost round for the caller.
    fn lost_round_result(
        &self,
        claim: &Claim,
        votes: &Votes,
        lost: LostRounds,
        sent: Time,
        now: Time,
    ) -> Result<Attempt> {
        let what = format!("acquire {}", claim.name);
        let (took, limit) = (now.since(sent), self.options.node_timeout(claim.lease));
        let time_up = took >= limit;
        if votes.verdict() == Verdict::Won {
            let reason = format!(
                "a majority granted it, but that took {took:?} of a lease of {:?}: use a longer lease",
                claim.lease
            );
            return Err(self.info.unavailable(what, reason));
        }
        let answers = || votes.describe(self.names(), took, limit);
        let contended = votes.is_contended();
        let retry_after = votes.retry_after(time_up).filter(|_| !contended);
        // A waiter's first attempt was made without a queue position, and its entry was removed: it counts as one more
        // round.
        let rounds = lost.count + 1;
        if claim.wait == Some(Duration::MAX)
            && retry_after.is_none()
            && self.has_used_tries(rounds, lost.begun, now)
        {
            let reason = format!("after {rounds} rounds; in the last one {}", answers());
            return Err(Error::GaveUp { backend: SCHEME, what, reason });
        }
        if contended {
            let delay = self.options.delay_after(took, &self.info.environment.chance);
            // Counted from now, after what was granted has been given back.
            let now = self.clock().now();
            self.backoffs.set(&claim.name, now.after(delay), votes.yes_count() > 0, now);
            return Ok(Attempt::Busy { retry_after: Some(delay), behind: None, position: None });
        }
        match votes.permanent_error().filter(|_| retry_after.is_none()) {
            Some(Error::Config(why)) => {
                return Err(Error::Config(format!("{SCHEME}: {what}: {why}; {}", answers())));
            }
            Some(unsupported @ Error::Unsupported { .. }) => return Err(unsupported.clone()),
            _ => {}
        }
        Err(Error::unavailable(SCHEME, what, answers()).ready_after(retry_after))
    }

    /// Whether a waiter without a timeout has used up its `tries`: enough rounds, and no sooner than their delays would
    /// allow. Wake-ups under contention make many rounds start early.
    fn has_used_tries(&self, rounds: u32, begun: Time, now: Time) -> bool {
        let tries = self.options.tries;
        let least = self.options.retry_delay.start().saturating_mul(tries.saturating_sub(2));
        tries > 0 && rounds >= tries && now.since(begun) >= least
    }

    /// Re-enters a hold on all nodes that have it.
    async fn reenter(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let Some(id) = self.rounds.current_id(claim.id) else { return Ok(Attempt::Gone) };
        let round_claim = Arc::new(Claim { id, wait: None, ..claim.clone() });
        let (sent, limit) = (self.clock().now(), self.options.node_timeout(claim.lease));
        let votes = self
            .call_for_votes(&round_claim, sent.after(limit), |node, round_claim| async move {
                Vote::of_attempt(node.try_acquire(&round_claim).await)
            })
            .await;
        match votes.verdict() {
            Verdict::Won => Ok(Attempt::Granted {
                fence: None,
                until: self.options.drift.until(sent, claim.lease),
                spare: 0,
            }),
            _ if votes.is_gone() => Ok(Attempt::Gone),
            _ => Err(self.unknown(format!("enter {}", claim.name), &votes, limit)),
        }
    }

    fn unknown(&self, what: String, votes: &Votes, limit: Duration) -> Error {
        Error::unknown(SCHEME, what, votes.describe(self.names(), limit, limit))
    }
}
