//! The current round of each claim of this process. Each round has its own id on the nodes, and the id of a round that
//! was lost is never used again, so that its releases cannot affect a later round.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::stragglers::Stragglers;
use super::votes::{Vote, Votes};
use tenure_core::backend::Released;
use tenure_core::{Claim, HoldId, Time};

/// The low bits of a hold number are the round, so that the claim can be derived from a hold found on a node.
const ROUND_BITS: u32 = 20;

/// The claim that a round was made for. Ids of other clients are returned unchanged.
pub(super) fn claim_of(id: HoldId) -> HoldId {
    if id.n >> ROUND_BITS == 0 { id } else { HoldId { n: id.n >> ROUND_BITS, ..id } }
}

#[derive(Debug, Default)]
pub(super) struct Rounds {
    entries: Mutex<HashMap<HoldId, Arc<Entry>>>,
    next: AtomicU64,
    /// The number of entries that triggers the next removal of finished ones.
    sweep_at: AtomicUsize,
    /// Makes all rounds of a claim use one id, to show what goes wrong then.
    #[cfg(test)]
    pub(super) reuse_id: std::sync::atomic::AtomicBool,
}

impl Rounds {
    fn lock(&self) -> MutexGuard<'_, HashMap<HoldId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the id of a new round.
    pub(super) fn new_id(&self, claim: HoldId) -> HoldId {
        let round = self.next.fetch_add(1, SeqCst) & ((1 << ROUND_BITS) - 1);
        #[cfg(test)]
        let round = if self.reuse_id.load(SeqCst) { 0 } else { round };
        HoldId { n: claim.n << ROUND_BITS | round, ..claim }
    }

    /// Returns the entry of a claim, and creates it if there is none. From time to time removes expired entries:
    /// detached guards are never released.
    pub(super) fn get_or_create(&self, claim: HoldId, now: Time, max_lease: Duration) -> Arc<Entry> {
        let mut entries = self.lock();
        if entries.len() >= self.sweep_at.load(SeqCst).max(1024) {
            entries.retain(|_, entry| !entry.is_expired(now, max_lease));
            self.sweep_at.store(entries.len() * 2, SeqCst);
        }
        entries.entry(claim).or_insert_with(|| Arc::new(Entry::new(now))).clone()
    }

    pub(super) fn record_renewal(&self, claim: HoldId, until: Time) {
        if let Some(entry) = self.get(claim) {
            entry.lock().until = Some(until);
        }
    }

    pub(super) fn get(&self, claim: HoldId) -> Option<Arc<Entry>> {
        self.lock().get(&claim).cloned()
    }

    /// Returns the id under which a claim of this process is on the nodes, unless it is being released.
    pub(super) fn current_id(&self, claim: HoldId) -> Option<HoldId> {
        self.get(claim).and_then(|entry| entry.current_id())
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

    pub(super) fn remove(&self, claim: HoldId, entry: &Arc<Entry>) {
        let mut entries = self.lock();
        if entries.get(&claim).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            entries.remove(&claim);
        }
    }
}

/// Queue positions of a waiter on some nodes.
#[derive(Debug)]
pub(super) struct QueuePositions {
    pub(super) claim: Arc<Claim>,
    pub(super) nodes: Vec<usize>,
}

/// The rounds that a claim has lost so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostRounds {
    /// Their number.
    pub(super) count: u32,
    /// When the first round began.
    pub(super) begun: Time,
}

/// One round of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    pub(super) id: HoldId,
    /// Whether the outcome of an earlier attempt under this id is unknown.
    pub(super) is_repeated: bool,
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
    lost_rounds: u32,
    /// The queue positions that the last round left on the nodes.
    positions: Option<QueuePositions>,
    /// Set while it is being released: when it has expired on all nodes.
    releasing: Option<Time>,
    /// Nodes that have confirmed its release.
    released_on: HashMap<usize, Released>,
    /// Nodes that certainly did not execute an attempt of the current round: nothing to release there.
    not_executed_on: BTreeSet<usize>,
    /// Nodes on which it was restored since: a late answer to the first attempt says nothing about them.
    restored_on: BTreeSet<usize>,
    /// Attempts still in flight after the decision.
    stragglers: Option<Arc<Stragglers>>,
}

impl Entry {
    fn new(begun: Time) -> Self {
        Self { turn: tokio::sync::Mutex::default(), begun, state: Mutex::default() }
    }

    /// Whether nothing of it can be left on any node.
    fn is_expired(&self, now: Time, max_lease: Duration) -> bool {
        let state = self.lock();
        let last = state.releasing.max(state.until);
        last.is_some_and(|last| last.after(max_lease) < now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins the next round, under the id of the last one if its outcome is unknown. `None` once the claim is being
    /// released.
    pub(super) fn begin_round(&self, new_id: impl FnOnce() -> HoldId) -> Option<Round> {
        let mut state = self.lock();
        if state.releasing.is_some() {
            return None;
        }
        let is_repeated = state.current.is_some();
        state.not_executed_on.clear();
        state.restored_on.clear();
        Some(Round { id: *state.current.get_or_insert_with(new_id), is_repeated })
    }

    /// Records the grant. Returns the queue positions, which are no longer needed.
    pub(super) fn record_grant(&self, until: Time) -> Option<QueuePositions> {
        self.lock().until = Some(until);
        self.take_positions()
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
    pub(super) fn mark_not_executed(&self, node: usize, round: HoldId) {
        let mut state = self.lock();
        if state.current == Some(round) && !state.restored_on.contains(&node) {
            state.not_executed_on.insert(node);
        }
    }

    /// Records that the hold is about to be restored on a node, which overrides what was known before.
    pub(super) fn mark_restored(&self, node: usize) {
        let mut state = self.lock();
        state.not_executed_on.remove(&node);
        state.restored_on.insert(node);
    }

    /// Whether it has queue positions and no round under way.
    pub(super) fn is_waiting(&self) -> bool {
        let state = self.lock();
        state.current.is_none() && state.positions.as_ref().is_some_and(|p| !p.nodes.is_empty())
    }

    pub(super) fn take_positions(&self) -> Option<QueuePositions> {
        self.lock().positions.take()
    }

    pub(super) fn is_granted(&self) -> bool {
        self.lock().until.is_some()
    }

    /// Ends a lost round: its id is not used again, except for its queue positions. Returns the number of rounds, and
    /// the queue positions of the round before if `positions` replaces them.
    pub(super) fn end_lost_round(
        &self,
        positions: Option<QueuePositions>,
    ) -> (LostRounds, Option<QueuePositions>) {
        let mut state = self.lock();
        state.current = None;
        state.lost_rounds += 1;
        let before = positions.and_then(|positions| state.positions.replace(positions));
        (LostRounds { count: state.lost_rounds, begun: self.begun }, before)
    }

    /// Returns the id of the current round, unless the claim is being released.
    pub(super) fn current_id(&self) -> Option<HoldId> {
        let state = self.lock();
        state.current.filter(|_| state.releasing.is_none())
    }

    /// Returns the id that is to be released.
    pub(super) fn id_to_release(&self) -> Option<HoldId> {
        self.lock().current
    }

    /// Records that a node has confirmed its release.
    pub(super) fn record_release(&self, node: usize, released: Released) {
        self.lock().released_on.entry(node).or_insert(released);
    }

    /// Returns the answers of nodes to its release so far. Nodes that never executed it need no call.
    pub(super) fn release_answers(&self, n: usize) -> Votes {
        let mut votes = Votes::new(n);
        let state = self.lock();
        for node in &state.not_executed_on {
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
    fn the_claim_follows_from_the_id_of_a_round_and_ids_are_unique() {
        let rounds = Rounds::default();
        let claim = HoldId { client: ClientId::new(), n: 7 };
        let (a, b) = (rounds.new_id(claim), rounds.new_id(claim));
        assert_ne!(a, b);
        assert_eq!((claim_of(a), claim_of(b)), (claim, claim));
        let jvm = HoldId { n: 47, ..claim };
        assert_eq!(claim_of(jvm), jvm);
    }

    #[test]
    fn a_late_answer_says_nothing_about_a_node_on_which_the_hold_was_restored() {
        let entry = Entry::new(Time::from_nanos(0));
        let id = HoldId { client: ClientId::new(), n: 1 };
        let round = entry.begin_round(|| id).unwrap().id;
        entry.mark_not_executed(1, round);
        entry.mark_restored(2);
        entry.mark_not_executed(2, round);
        let answers = entry.release_answers(3);
        assert!(
            answers.0[0].is_none() && answers.0[1].is_some() && answers.0[2].is_none(),
            "node 2 gets the release"
        );
    }

    #[test]
    fn an_unanswered_round_is_repeated_and_a_lost_one_is_not() {
        let (rounds, claim) = (Rounds::default(), HoldId { client: ClientId::new(), n: 7 });
        let (now, lease) = (Time::from_nanos(0), Duration::from_secs(1));
        let entry = rounds.get_or_create(claim, now, lease);
        let first = entry.begin_round(|| rounds.new_id(claim)).unwrap();
        assert!(!first.is_repeated);
        assert_eq!(entry.begin_round(|| rounds.new_id(claim)), Some(Round { is_repeated: true, ..first }));
        let template = Claim::of(claim, tenure_core::Name::new("x").unwrap(), tenure_core::Kind::Lock);
        assert_eq!(
            entry
                .end_lost_round(Some(QueuePositions { claim: Arc::new(template), nodes: Vec::new() }))
                .0
                .count,
            1
        );
        assert_ne!(entry.begin_round(|| rounds.new_id(claim)).unwrap().id, first.id);
        rounds.begin_release(claim, now);
        assert_eq!(entry.begin_round(|| rounds.new_id(claim)), None, "a released claim begins no round");
        assert_eq!(rounds.current_id(claim), None);
        assert!(!entry.is_expired(now, lease));
        assert!(entry.is_expired(now.after(lease * 2), lease), "removed although it was never released");
    }

    #[test]
    fn a_round_that_is_never_released_is_removed_when_it_has_expired() {
        let (rounds, client, lease) = (Rounds::default(), ClientId::new(), Duration::from_secs(60));
        let most = (0..20_000)
            .map(|n| {
                let now = Time::from_nanos(0).after(Duration::from_secs(n));
                let entry = rounds.get_or_create(HoldId { client, n }, now, lease);
                entry.record_grant(now.after(lease));
                rounds.lock().len()
            })
            .max();
        assert!(most < Some(2_000), "{most:?} entries for 20000 holds, of which 60 last at a time");
    }
}
