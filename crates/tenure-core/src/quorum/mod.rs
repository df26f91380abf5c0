//! RedLock: one lock on several stores that know nothing of each other, held by whoever has most of them.
//!
//! All nodes are asked at the same time. Each round has an id of its own on the nodes and is undone by that id only, so
//! that what is left of a lost round cannot touch the next one. A grant counts from the moment the round was sent, with
//! what clocks may differ taken off.

mod ask;
mod debts;
mod options;
mod pauses;
mod people;
mod renew;
mod rounds;
mod votes;
mod watch;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use options::QuorumOptions;

use self::debts::Debts;
use self::pauses::Pauses;
use self::rounds::{Entry, Lost, Places, Rounds};
use self::votes::{Verdict, Vote, Votes, majority};
use crate::backend::{
    Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Liveness, Query, Released, Renewal,
    Snapshot, Watch,
};
use crate::{
    Background, Claim, Clock, Doubt, Error, Family, Finding, HoldId, Kind, Name, OpId, Result, Time,
};

const SCHEME: &str = "redlock";

const REFUSALS: &[(Family, &str)] = &[
    (Family::Fair, "each node has a queue of its own, and they need not agree"),
    (Family::Leader, "a quorum hands out no fence, and elections need one"),
    (Family::ReadWrite, "each node would have to know the readers of the others"),
    (Family::Permit, "a majority for each permit does not keep their number"),
    (Family::Latch, "numbers on several nodes do not stay the same"),
    (Family::Count, "numbers on several nodes do not stay the same"),
];

/// One of the stores of a quorum.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is called in errors.
    pub name: String,
    /// The store.
    pub backend: Arc<dyn Backend>,
}

/// A lock on several stores that know nothing of each other: RedLock. It works while a majority of them does.
///
/// Locks only, without a fence. Clones are the same store.
#[derive(Clone)]
pub struct Quorum(Arc<Inner>);

struct Inner {
    nodes: Vec<Node>,
    info: Info,
    options: QuorumOptions,
    rounds: Rounds,
    debts: Vec<Debts>,
    pauses: Pauses,
    background: Background,
}

impl Quorum {
    /// Of these stores, which must serve locks and be independent of each other.
    ///
    /// # Errors
    /// `Config` for none at all, and for options that make no sense; `Unsupported` when one of them has no locks.
    pub fn new(nodes: Vec<Node>, options: QuorumOptions) -> Result<Self> {
        options.check()?;
        let Some(first) = nodes.first() else {
            return Err(Error::Config(format!("{SCHEME}: no nodes: three or five are usual")));
        };
        let doubt = Doubt::new();
        for node in &nodes {
            let info = node.backend.info();
            info.require(Family::Lock)?;
            info.doubt.also(&doubt);
        }
        let info = Info {
            scheme: SCHEME,
            families: &[Family::Lock],
            refusals: REFUSALS,
            fenced: false,
            tokens: nodes.iter().all(|n| n.backend.info().tokens),
            durable: false,
            liveness: Liveness::Lease,
            poll: first.backend.info().poll,
            clock: first.backend.info().clock.clone(),
            drift: options.drift,
            doubt,
            shared_proof: None,
        };
        let debts = nodes.iter().map(|_| Debts::default()).collect();
        let (rounds, pauses) = (Rounds::default(), Pauses::default());
        let background = Background::new("tenure-quorum");
        Ok(Self(Arc::new(Inner { nodes, info, options, rounds, debts, pauses, background })))
    }

    /// Its nodes.
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
        if claim.holds > 1 { inner.enter(claim).await } else { inner.round(claim).await }
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        watch::open(&self.0, name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.0.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        if left > 0 { self.0.unnest(claim, left).await } else { self.0.leave(claim).await }
    }

    async fn count(&self, name: &Name, counter: Counter, _op: CountOp, _id: OpId) -> Result<CountReply> {
        let family = match counter {
            Counter::Latch => Family::Latch,
            Counter::Semaphore => Family::Count,
            Counter::Size => Family::Permit,
        };
        self.0.info.require(family)?;
        unreachable!("{name}: no counts here")
    }

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
        &self.info.clock
    }

    fn check_lease(&self, claim: &Claim) -> Result<()> {
        let most = self.options.max_lease;
        if claim.lease <= most {
            return Ok(());
        }
        Err(Error::Config(format!(
            "{SCHEME}: a lease of {:?} for {} is longer than max_lease, {most:?}: a node that was restarted keeps out for \
             that long only",
            claim.lease, claim.name
        )))
    }

    fn needed(&self) -> usize {
        majority(self.nodes.len())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|n| n.name.as_str())
    }

    /// What the nodes say to `ask`, as far as it takes to decide, or by the end of their time.
    async fn votes<F: Future<Output = Vote> + Send + 'static>(
        &self,
        ask: &Arc<Claim>,
        until: Time,
        call: impl Fn(Arc<dyn Backend>, Arc<Claim>) -> F,
    ) -> Votes {
        let mut votes = Votes::new(self.nodes.len());
        let mut calls = self.ask(ask, call);
        self.gather(&mut calls, until, |node, vote| {
            votes.0[node] = Some(vote);
            votes.verdict() != Verdict::Open
        })
        .await;
        votes
    }

    /// One round: every node is asked, and told to let go if too few agree.
    async fn round(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let entry = self.rounds.enter(claim.id, self.clock().now(), self.options.max_lease);
        // A repeat waits for the one before it, and finds what came of it.
        let _turn = entry.turn.lock().await;
        if claim.wait.is_some()
            && entry.current().is_none()
            && let Some(left) = self.pauses.left(&claim.name, self.clock().now())
        {
            return Ok(Attempt::Busy { retry_after: Some(left), behind: None, position: None });
        }
        let Some(id) = entry.begin(|| self.rounds.fresh(claim.id)) else {
            return Err(self.info.unavailable(format!("acquire {}", claim.name), "it is being released"));
        };
        let ask = Arc::new(Claim { id, ..claim.clone() });
        let (sent, limit) = (self.clock().now(), self.options.node_timeout(claim.lease));
        let votes = self
            .votes(&ask, sent.after(limit), |node, ask| async move {
                Vote::of_attempt(node.try_acquire(&ask).await)
            })
            .await;
        let now = self.clock().now();
        let until = self.options.drift.until(sent, claim.lease);
        if votes.verdict() == Verdict::Won && now < until {
            self.abandon(entry.granted(until));
            self.pauses.clear(&claim.name);
            return Ok(Attempt::Granted { fence: None, until });
        }
        if entry.is_granted() {
            // A repeat. What was granted the first time is not undone for it.
            return Err(self.unknown(format!("acquire {}", claim.name), &votes, limit));
        }
        // Where another one has it, who waits keeps its place until the next round has given it another.
        let stays = |node: usize| claim.wait.is_some() && votes.0[node] == Some(Vote::No);
        let places = || Places {
            claim: ask.clone(),
            nodes: (0..self.nodes.len()).filter(|node| stays(*node)).collect(),
        };
        let (lost, before) = entry.lost(claim.wait.map(|_| places()));
        self.abandon(before);
        let going = (0..self.nodes.len()).filter(|node| !stays(*node));
        // Who has not answered so far is told in the background.
        self.farewell(&ask, None, going, |node| votes.0[node].is_none()).await;
        // Who waits comes again, and says when it does not any more.
        if claim.wait.is_none() && !entry.waits() {
            self.rounds.forget(claim.id, &entry);
        }
        self.verdict(claim, &votes, lost, sent, now)
    }

    /// What a lost round is to whoever asked.
    fn verdict(&self, claim: &Claim, votes: &Votes, lost: Lost, sent: Time, now: Time) -> Result<Attempt> {
        let what = format!("acquire {}", claim.name);
        let (took, limit) = (now.since(sent), self.options.node_timeout(claim.lease));
        let time_up = took >= limit;
        if votes.verdict() == Verdict::Won {
            let reason =
                format!("most nodes granted it, but that took {took:?}, of a lease of {:?}", claim.lease);
            return Err(self.info.unavailable(what, reason));
        }
        let said = || votes.tell(self.names(), took, limit);
        let contended = votes.is_contended(time_up);
        let retry_after = votes.retry_after(time_up).filter(|_| !contended);
        // The first attempt of whoever waits is made without a place, and forgotten.
        let rounds = lost.rounds + 1;
        if claim.wait == Some(Duration::MAX)
            && retry_after.is_none()
            && self.is_enough(rounds, lost.begun, now)
        {
            let reason = format!("after {rounds} rounds; in the last one {}", said());
            return Err(Error::GaveUp { backend: SCHEME, what, reason });
        }
        if contended {
            let pause = self.options.pause(took);
            // Counted from now on, when what was got has been given back.
            let now = self.clock().now();
            self.pauses.set(&claim.name, now.after(pause), votes.yes() > 0, now);
            return Ok(Attempt::Busy { retry_after: Some(pause), behind: None, position: None });
        }
        if retry_after.is_none()
            && let Some(Error::Config(why)) = votes.refused()
        {
            return Err(Error::Config(format!("{SCHEME}: {what}: {why}; {}", said())));
        }
        Err(Error::Unavailable { backend: SCHEME, what, reason: said(), retry_after })
    }

    /// Whether whoever waits for as long as it takes has tried often enough: so many rounds, and not faster than they
    /// come by themselves. Many are woken for nothing while others come and go.
    fn is_enough(&self, rounds: u32, begun: Time, now: Time) -> bool {
        let tries = self.options.tries;
        let least = self.options.retry_delay.start().saturating_mul(tries.saturating_sub(2));
        tries > 0 && rounds >= tries && now.since(begun) >= least
    }

    /// Enters a hold once more, on all nodes that have it.
    async fn enter(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let Some(id) = self.rounds.current(claim.id) else { return Ok(Attempt::Gone) };
        let ask = Arc::new(Claim { id, wait: None, ..claim.clone() });
        let (sent, limit) = (self.clock().now(), self.options.node_timeout(claim.lease));
        let votes = self
            .votes(&ask, sent.after(limit), |node, ask| async move {
                Vote::of_attempt(node.try_acquire(&ask).await)
            })
            .await;
        match votes.verdict() {
            Verdict::Won => {
                Ok(Attempt::Granted { fence: None, until: self.options.drift.until(sent, claim.lease) })
            }
            _ if votes.gone() => Ok(Attempt::Gone),
            _ => Err(self.unknown(format!("enter {}", claim.name), &votes, limit)),
        }
    }

    fn unknown(&self, what: String, votes: &Votes, limit: Duration) -> Error {
        Error::Unknown { backend: SCHEME, what, reason: votes.tell(self.names(), limit, limit) }
    }

    /// Writes the count of a hold that stays. It is for people: most nodes are enough.
    async fn unnest(self: &Arc<Self>, claim: &Claim, left: u32) -> Result<Released> {
        let Some(id) = self.rounds.current(claim.id) else { return Ok(Released::Gone) };
        let ask = Arc::new(Claim { id, ..claim.clone() });
        let limit = self.options.node_timeout(claim.lease);
        let until = self.clock().now().after(limit);
        let votes =
            self.votes(&ask, until, move |node, ask| async move {
                Vote::of_release(node.release(&ask, left).await)
            })
            .await;
        match votes.verdict() {
            Verdict::Won => Ok(Released::Freed),
            _ if votes.gone() => Ok(Released::Gone),
            _ => Err(self.unknown(format!("release {}", claim.name), &votes, limit)),
        }
    }

    /// Leaves on all nodes. What one of them did not confirm is repeated in the background.
    async fn leave(self: &Arc<Self>, claim: &Claim) -> Result<Released> {
        let Some(entry) = self.rounds.leave(claim.id, self.clock().now().after(claim.lease)) else {
            return self.leave_unknown(claim).await;
        };
        let places = entry.places();
        let waited = places.as_ref().is_some_and(|p| !p.nodes.is_empty());
        self.abandon(places);
        let Some(id) = entry.leaving() else {
            self.rounds.forget(claim.id, &entry);
            return Ok(if waited { Released::Freed } else { Released::Gone });
        };
        let ask = Arc::new(Claim { id, wait: None, ..claim.clone() });
        let votes = self.farewell(&ask, Some(&entry), 0..self.nodes.len(), |_| false).await;
        let released = self.left(claim, &votes);
        if released.is_ok() {
            self.rounds.forget(claim.id, &entry);
        }
        released
    }

    fn left(&self, claim: &Claim, votes: &Votes) -> Result<Released> {
        match votes.verdict() {
            Verdict::Won => Ok(Released::Freed),
            _ if votes.gone() => Ok(Released::Gone),
            _ => {
                let limit = self.options.node_timeout(claim.lease);
                Err(self.unknown(format!("release {}", claim.name), votes, limit))
            }
        }
    }

    /// A hold of another process, by its id, or whatever is held by a token.
    async fn leave_unknown(self: &Arc<Self>, claim: &Claim) -> Result<Released> {
        let ids = if claim.id == HoldId::NONE { vec![claim.id] } else { self.find(claim).await? };
        let mut released = Ok(Released::Gone);
        for id in ids {
            let ask = Arc::new(Claim { id, wait: None, ..claim.clone() });
            let votes = self.farewell(&ask, None, 0..self.nodes.len(), |_| false).await;
            match self.left(claim, &votes) {
                Ok(Released::Gone) => {}
                other => released = other,
            }
        }
        released
    }

    /// Leaves these places, in the background.
    fn abandon(self: &Arc<Self>, places: Option<Places>) {
        if let Some(Places { claim, nodes }) = places.filter(|p| !p.nodes.is_empty()) {
            drop(debts::Farewell::new(self, &claim, None, nodes.into_iter(), |_| false));
        }
    }

    /// Tells nodes to let go. Those that do not confirm it in time are told again in the background.
    async fn farewell(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        entry: Option<&Arc<Entry>>,
        nodes: impl Iterator<Item = usize>,
        silent: impl Fn(usize) -> bool,
    ) -> Votes {
        let (n, limit) = (self.nodes.len(), self.options.node_timeout(claim.lease));
        let mut votes = entry.map_or_else(|| Votes::new(n), |entry| entry.said(n));
        let open = nodes.filter(|node| votes.0[*node].is_none());
        let mut farewell = debts::Farewell::new(self, claim, entry, open, silent);
        farewell.run(self.clock().now().after(limit), &mut votes).await;
        votes
    }
}
