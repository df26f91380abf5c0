//! Which round of a claim stands on the nodes. Each has an id of its own there, and one that was undone is never used
//! again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::late::Late;
use super::votes::{Vote, Votes};
use tenure_core::backend::Released;
use tenure_core::{Claim, HoldId, Time};

/// The last bits of the number of a hold say which round it is: whoever looks at a node knows the claim.
const BITS: u32 = 20;

/// The claim that a round was for. What others have there is not changed.
pub(super) fn claim_of(id: HoldId) -> HoldId {
    if id.n >> BITS == 0 { id } else { HoldId { n: id.n >> BITS, ..id } }
}

#[derive(Debug, Default)]
pub(super) struct Rounds {
    entries: Mutex<HashMap<HoldId, Arc<Entry>>>,
    next: AtomicU64,
    /// How many make it worth while to look for those that are over.
    sweep_at: AtomicUsize,
    /// What goes wrong without an id per round.
    #[cfg(test)]
    pub(super) one_id: std::sync::atomic::AtomicBool,
}

impl Rounds {
    fn lock(&self) -> MutexGuard<'_, HashMap<HoldId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The id of another round.
    pub(super) fn fresh(&self, claim: HoldId) -> HoldId {
        let round = self.next.fetch_add(1, SeqCst) & ((1 << BITS) - 1);
        #[cfg(test)]
        let round = if self.one_id.load(SeqCst) { 0 } else { round };
        HoldId { n: claim.n << BITS | round, ..claim }
    }

    /// The entry of a claim, made if there is none. Now and then those go of which nothing can be left: guards may be
    /// detached, and then nobody releases them.
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

    /// The id under which a claim of this process stands on the nodes, unless it is being released.
    pub(super) fn current(&self, claim: HoldId) -> Option<HoldId> {
        self.get(claim).and_then(|entry| entry.current())
    }

    /// From now on it is being released. Remembered until nothing of it can be left. What has not been sent of its
    /// attempts is not sent any more: it would come behind the release.
    pub(super) fn leave(&self, claim: HoldId, until: Time) -> Option<Arc<Entry>> {
        let entry = self.get(claim)?;
        let late = {
            let mut state = entry.lock();
            state.leaving.get_or_insert(until);
            state.late.take()
        };
        if let Some(late) = late {
            late.cancel();
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

/// Places among the waiters of some nodes.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) claim: Arc<Claim>,
    pub(super) nodes: Vec<usize>,
}

/// What is known of a lost round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// How many there were.
    pub(super) rounds: u32,
    /// When the first began.
    pub(super) begun: Time,
}

/// A round that begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Begun {
    pub(super) id: HoldId,
    /// Nobody knows what came of an earlier attempt under this id.
    pub(super) again: bool,
}

/// A claim of this process.
#[derive(Debug)]
pub(super) struct Entry {
    /// One attempt at a time.
    pub(super) turn: tokio::sync::Mutex<()>,
    begun: Time,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<HoldId>,
    /// Until when it is held, once it was granted.
    until: Option<Time>,
    rounds: u32,
    /// What the last round left for people to see.
    places: Option<Places>,
    /// Until when something of it may be left.
    leaving: Option<Time>,
    /// Which nodes have confirmed its release.
    said: HashMap<usize, Released>,
    /// Nodes that certainly did not execute an attempt of the current round: there is nothing to release there.
    without: BTreeSet<usize>,
    /// Nodes that were given it again since: what is heard late of the first attempt says nothing of them.
    given: BTreeSet<usize>,
    /// Attempts that the decision did not wait for.
    late: Option<Arc<Late>>,
}

impl Entry {
    fn new(begun: Time) -> Self {
        Self { turn: tokio::sync::Mutex::default(), begun, state: Mutex::default() }
    }

    fn is_over(&self, now: Time, max_lease: Duration) -> bool {
        let state = self.lock();
        let last = state.leaving.max(state.until);
        last.is_some_and(|last| last.after(max_lease) < now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The next round, under the id of the last one if nobody knows what came of it. `None` once it is released.
    pub(super) fn begin(&self, fresh: impl FnOnce() -> HoldId) -> Option<Begun> {
        let mut state = self.lock();
        if state.leaving.is_some() {
            return None;
        }
        let again = state.current.is_some();
        state.without.clear();
        state.given.clear();
        Some(Begun { id: *state.current.get_or_insert_with(fresh), again })
    }

    /// Its places are not needed any more.
    pub(super) fn granted(&self, until: Time) -> Option<Places> {
        self.lock().until = Some(until);
        self.places()
    }

    /// These attempts go on, until it is released. Those of an earlier round under the same id do not.
    pub(super) fn set_late(&self, late: &Arc<Late>) {
        let over = {
            let mut state = self.lock();
            if state.leaving.is_some() { Some(late.clone()) } else { state.late.replace(late.clone()) }
        };
        if let Some(over) = over {
            over.cancel();
        }
    }

    /// A node has certainly not executed the attempt of this round.
    pub(super) fn is_not_at(&self, node: usize, round: HoldId) {
        let mut state = self.lock();
        if state.current == Some(round) && !state.given.contains(&node) {
            state.without.insert(node);
        }
    }

    /// It is about to be given to a node, whatever was known of it before.
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

    /// The round is over, and its id dead but for its places. How many there were, and the places of the one before.
    /// Without new ones the old places stay.
    pub(super) fn lost(&self, places: Option<Places>) -> (Lost, Option<Places>) {
        let mut state = self.lock();
        state.current = None;
        state.rounds += 1;
        let before = places.and_then(|places| state.places.replace(places));
        (Lost { rounds: state.rounds, begun: self.begun }, before)
    }

    pub(super) fn current(&self) -> Option<HoldId> {
        let state = self.lock();
        state.current.filter(|_| state.leaving.is_none())
    }

    /// What is to be released.
    pub(super) fn leaving(&self) -> Option<HoldId> {
        self.lock().current
    }

    pub(super) fn settle(&self, node: usize, released: Released) {
        self.lock().said.entry(node).or_insert(released);
    }

    /// What nodes have said about its release so far, or would say.
    pub(super) fn said(&self, n: usize) -> Votes {
        let mut votes = Votes::new(n);
        let state = self.lock();
        for node in &state.without {
            votes.0[*node] = Some(Vote::of_release(Ok(Released::Gone)));
        }
        for (node, released) in &state.said {
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
        let said = entry.said(3);
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
        rounds.leave(claim, now);
        assert_eq!(entry.begin(|| rounds.fresh(claim)), None, "released is released");
        assert_eq!(rounds.current(claim), None);
        assert!(!entry.is_over(now, lease));
        assert!(entry.is_over(now.after(lease * 2), lease), "nobody may ever ask for it again");
    }
}
