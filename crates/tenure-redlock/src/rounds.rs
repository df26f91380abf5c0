//! The current round of each claim. Each round has its own id on the nodes, and the id of an undone round is never
//! reused.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::stragglers::Stragglers;
use super::votes::{Vote, Votes};
use tenure_core::backend::Released;
use tenure_core::{Claim, HoldId, Time};

/// The low bits of a hold number are the round, so that the claim can be derived from a hold found on a node.
const BITS: u32 = 20;

/// The claim that a round was made for. Ids of other clients are returned unchanged.
pub(super) fn claim_of(id: HoldId) -> HoldId {
    if id.n >> BITS == 0 { id } else { HoldId { n: id.n >> BITS, ..id } }
}

#[derive(Debug, Default)]
pub(super) struct Rounds {
    entries: Mutex<HashMap<HoldId, Arc<Entry>>>,
    next: AtomicU64,
    /// The number of entries that triggers the next removal of finished ones.
    sweep_at: AtomicUsize,
    /// Makes all rounds of a claim use one id, to test what goes wrong then.
    #[cfg(test)]
    pub(super) one_id: std::sync::atomic::AtomicBool,
}

impl Rounds {
    fn lock(&self) -> MutexGuard<'_, HashMap<HoldId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The id of a new round.
    pub(super) fn fresh(&self, claim: HoldId) -> HoldId {
        let round = self.next.fetch_add(1, SeqCst) & ((1 << BITS) - 1);
        #[cfg(test)]
        let round = if self.one_id.load(SeqCst) { 0 } else { round };
        HoldId { n: claim.n << BITS | round, ..claim }
    }

    /// The entry of a claim, created if there is none. From time to time removes entries of which nothing can be left:
    /// detached guards are never released.
    pub(super) fn enter(&self, claim: HoldId, now: Time, max_lease: Duration) -> Arc<Entry> {
        let mut entries = self.lock();
        if entries.len() >= self.sweep_at.load(SeqCst).max(1024) {
            entries.retain(|_, entry| !entry.is_over(now, max_lease));
            self.sweep_at.store(entries.len() * 2, SeqCst);
        }
        entries.entry(claim).or_insert_with(|| Arc::new(Entry::new(now))).clone()
    }

    pub(super) fn renewed(&self, claim: HoldId, until: Time) {
        if let Some(entry) = self.get(claim) {
            entry.lock().until = Some(until);
        }
    }

    pub(super) fn get(&self, claim: HoldId) -> Option<Arc<Entry>> {
        self.lock().get(&claim).cloned()
    }

    /// The id under which a claim of this process is on the nodes, unless it is being released.
    pub(super) fn current(&self, claim: HoldId) -> Option<HoldId> {
        self.get(claim).and_then(|entry| entry.current())
    }

    /// Marks the claim as being released, and remembers this until it has expired on all nodes. Cancels attempts that
    /// have not been sent: they would arrive after the release.
    pub(super) fn begin_release(&self, claim: HoldId, until: Time) -> Option<Arc<Entry>> {
        let entry = self.get(claim)?;
        let stragglers = {
            let mut state = entry.lock();
            state.releasing.get_or_insert(until);
            state.stragglers.take()
        };
        if let Some(stragglers) = stragglers {
            stragglers.cancel();
        }
        Some(entry)
    }

    pub(super) fn forget(&self, claim: HoldId, entry: &Arc<Entry>) {
        let mut entries = self.lock();
        if entries.get(&claim).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            entries.remove(&claim);
        }
    }
}

/// Queue positions of a waiter on some nodes.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) claim: Arc<Claim>,
    pub(super) nodes: Vec<usize>,
}

/// What is known about a lost round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// The number of rounds so far.
    pub(super) rounds: u32,
    /// When the first round began.
    pub(super) begun: Time,
}

/// A round that has begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Begun {
    pub(super) id: HoldId,
    /// Whether the outcome of an earlier attempt under this id is unknown.
    pub(super) again: bool,
}

/// A claim of this process.
#[derive(Debug)]
pub(super) struct Entry {
    /// Serializes the attempts of this claim.
    pub(super) turn: tokio::sync::Mutex<()>,
    begun: Time,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<HoldId>,
    /// The end of validity, once granted.
    until: Option<Time>,
    rounds: u32,
    /// The queue positions that the last round left on the nodes.
    places: Option<Places>,
    /// Set while it is being released: when it has expired on all nodes.
    releasing: Option<Time>,
    /// Nodes that have confirmed its release.
    released_on: HashMap<usize, Released>,
    /// Nodes that certainly did not execute an attempt of the current round: nothing to release there.
    without: BTreeSet<usize>,
    /// Nodes to which it was restored since: a late answer to the first attempt says nothing about them.
    given: BTreeSet<usize>,
    /// Attempts still in flight after the decision.
    stragglers: Option<Arc<Stragglers>>,
}

impl Entry {
    fn new(begun: Time) -> Self {
        Self { turn: tokio::sync::Mutex::default(), begun, state: Mutex::default() }
    }

    fn is_over(&self, now: Time, max_lease: Duration) -> bool {
        let state = self.lock();
        let last = state.releasing.max(state.until);
        last.is_some_and(|last| last.after(max_lease) < now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins the next round, under the id of the last one if its outcome is unknown. `None` once the claim is being
    /// released.
    pub(super) fn begin(&self, fresh: impl FnOnce() -> HoldId) -> Option<Begun> {
        let mut state = self.lock();
        if state.releasing.is_some() {
            return None;
        }
        let again = state.current.is_some();
        state.without.clear();
        state.given.clear();
        Some(Begun { id: *state.current.get_or_insert_with(fresh), again })
    }

    /// Records the grant. Returns the queue positions, which are no longer needed.
    pub(super) fn granted(&self, until: Time) -> Option<Places> {
        self.lock().until = Some(until);
        self.places()
    }

    /// Keeps these attempts going until the release, and cancels those of an earlier round under the same id.
    pub(super) fn set_stragglers(&self, stragglers: &Arc<Stragglers>) {
        let obsolete = {
            let mut state = self.lock();
            match state.releasing {
                Some(_) => Some(stragglers.clone()),
                None => state.stragglers.replace(stragglers.clone()),
            }
        };
        if let Some(obsolete) = obsolete {
            obsolete.cancel();
        }
    }

    /// Records that a node has certainly not executed the attempt of this round.
    pub(super) fn is_not_at(&self, node: usize, round: HoldId) {
        let mut state = self.lock();
        if state.current == Some(round) && !state.given.contains(&node) {
            state.without.insert(node);
        }
    }

    /// Records that the hold is about to be restored on a node, which overrides what was known before.
    pub(super) fn may_be_at(&self, node: usize) {
        let mut state = self.lock();
        state.without.remove(&node);
        state.given.insert(node);
    }

    pub(super) fn waits(&self) -> bool {
        let state = self.lock();
        state.current.is_none() && state.places.as_ref().is_some_and(|p| !p.nodes.is_empty())
    }

    pub(super) fn places(&self) -> Option<Places> {
        self.lock().places.take()
    }

    pub(super) fn is_granted(&self) -> bool {
        self.lock().until.is_some()
    }

    /// Ends a lost round: its id is dead except for its queue positions. Returns the number of rounds, and the queue
    /// positions of the round before if `places` replaces them.
    pub(super) fn lost(&self, places: Option<Places>) -> (Lost, Option<Places>) {
        let mut state = self.lock();
        state.current = None;
        state.rounds += 1;
        let before = places.and_then(|places| state.places.replace(places));
        (Lost { rounds: state.rounds, begun: self.begun }, before)
    }

    pub(super) fn current(&self) -> Option<HoldId> {
        let state = self.lock();
        state.current.filter(|_| state.releasing.is_none())
    }

    /// The id that is to be released.
    pub(super) fn id_to_release(&self) -> Option<HoldId> {
        self.lock().current
    }

    /// Records that a node has confirmed its release.
    pub(super) fn record_release(&self, node: usize, released: Released) {
        self.lock().released_on.entry(node).or_insert(released);
    }

    /// The answers of nodes to its release so far, including those that are certain without asking.
    pub(super) fn release_answers(&self, n: usize) -> Votes {
        let mut votes = Votes::new(n);
        let state = self.lock();
        for node in &state.without {
            votes.0[*node] = Some(Vote::of_release(Ok(Released::Gone)));
        }
        for (node, released) in &state.released_on {
            votes.0[*node] = Some(Vote::of_release(Ok(*released)));
        }
        votes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::ClientId;

    #[test]
    fn a_round_tells_its_claim_and_no_id_comes_twice() {
        let rounds = Rounds::default();
        let claim = HoldId { client: ClientId::new(), n: 7 };
        let (a, b) = (rounds.fresh(claim), rounds.fresh(claim));
        assert_ne!(a, b);
        assert_eq!((claim_of(a), claim_of(b)), (claim, claim));
        let jvm = HoldId { n: 47, ..claim };
        assert_eq!(claim_of(jvm), jvm);
    }

    #[test]
    fn what_is_heard_late_of_an_attempt_says_nothing_of_a_node_that_was_given_it_again() {
        let entry = Entry::new(Time::from_nanos(0));
        let id = HoldId { client: ClientId::new(), n: 1 };
        let round = entry.begin(|| id).unwrap().id;
        entry.is_not_at(1, round);
        entry.may_be_at(2);
        entry.is_not_at(2, round);
        let said = entry.release_answers(3);
        assert!(said.0[0].is_none() && said.0[1].is_some() && said.0[2].is_none(), "node 2 is to be asked");
    }

    #[test]
    fn an_unanswered_round_is_repeated_and_a_lost_one_is_not() {
        let (rounds, claim) = (Rounds::default(), HoldId { client: ClientId::new(), n: 7 });
        let (now, lease) = (Time::from_nanos(0), Duration::from_secs(1));
        let entry = rounds.enter(claim, now, lease);
        let first = entry.begin(|| rounds.fresh(claim)).unwrap();
        assert!(!first.again);
        assert_eq!(entry.begin(|| rounds.fresh(claim)), Some(Begun { again: true, ..first }));
        let template = Claim::of(claim, tenure_core::Name::new("x").unwrap(), tenure_core::Kind::Lock);
        assert_eq!(entry.lost(Some(Places { claim: Arc::new(template), nodes: Vec::new() })).0.rounds, 1);
        assert_ne!(entry.begin(|| rounds.fresh(claim)).unwrap().id, first.id);
        rounds.begin_release(claim, now);
        assert_eq!(entry.begin(|| rounds.fresh(claim)), None, "released is released");
        assert_eq!(rounds.current(claim), None);
        assert!(!entry.is_over(now, lease));
        assert!(entry.is_over(now.after(lease * 2), lease), "nobody may ever ask for it again");
    }
}
