//! The waiters at a gate, in the order in which they try. They are indexed by number, owner and time, so that the cost
//! of one waiter does not depend on the length of the queue.
//!
//! Waiters of a queued kind are in the order of the store's queue: a store may notify only the head of its queue, and
//! the gate watches for the first of its own waiters.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use tokio::time::Instant;

use super::Waiter;
use super::pause::Pause;
use crate::backend::{Backoff, Durability, Error};
use crate::engine::acquisition::Flow;
use crate::engine::core::Core;
use crate::engine::limit::RETRIES;
use crate::engine::releases::Pending;

#[derive(Default)]
pub(super) struct Queue {
    waiters: BTreeMap<Key, Waiter>,
    /// The key of each waiter by its number.
    keys: HashMap<u64, Key>,
    owners: HashMap<u64, BTreeSet<Key>>,
    /// When the deadline or the warning of a waiter is due.
    times: BTreeSet<(Instant, u64)>,
    /// The numbers of those who no longer wait. What they left in the store counts as pending until it is swept.
    gone: Vec<(u64, Option<Pending>)>,
    /// The number of waiters per durability.
    by_durability: BTreeMap<Durability, usize>,
    failing: BTreeMap<Durability, Failing>,
    /// When the store last answered.
    answered: BTreeMap<Durability, Instant>,
    /// The number of a waiter that blocked another one but is not in this queue. It may still join: if an attempt is
    /// executed twice, its claim may hold the name before it joins to wait for it.
    in_the_way: Option<u64>,
    /// Since when a request to the store has been unanswered.
    asked: Option<Instant>,
    /// For whom.
    trying: Option<u64>,
    turn: i64,
    /// When the gate does not try.
    pub(super) pause: Pause,
    /// When the gate looks next, if it sleeps.
    pub(super) planned: Option<Instant>,
    /// How many waiters were examined.
    #[cfg(test)]
    pub(super) looked_at: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

/// The sort key of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    /// `false` sorts first: a waiter whose position in the store's queue is unknown tries first, to learn it.
    placed: bool,
    position: u64,
    turn: i64,
}

/// A period in which the store fails for one durability.
struct Failing {
    error: Error,
    retry_at: Instant,
    /// Since when it fails, and the backoff. `None` while the store says when it will be ready: that is waited for,
    /// however long it takes.
    backoff: Option<(Instant, Backoff)>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Adds a new waiter. Returns whether the gate has to look: not if it is one more lock behind others, and not due before
    /// the gate looks anyway.
    pub(super) fn join(&mut self, waiter: Waiter) -> bool {
        let (n, is_lock, due) = (waiter.n, waiter.want.is_lock(), waiter.times().min());
        self.push(waiter);
        let is_first = self.waiters.first_key_value().is_some_and(|(_, first)| first.n == n);
        let is_seen = self.planned.is_some_and(|planned| due.is_none_or(|due| planned <= due));
        let paused = self.pause.until(Instant::now()).is_some();
        // The store may fail for those before it, and not for this one.
        let is_alike = self.by_durability.len() == 1;
        !(is_lock && is_alike && is_seen && (paused || !is_first))
    }

    /// Adds a waiter by its position in the store's queue, or at the end if it has none.
    pub(super) fn push(&mut self, waiter: Waiter) {
        if waiter.heard {
            self.answered(waiter.durability());
        }
        if self.in_the_way == Some(waiter.n) {
            self.in_the_way = None;
            return self.push_front(waiter);
        }
        let position = match waiter.position {
            _ if waiter.is_unplaced() => 0,
            Some(position) => position,
            None => self.waiters.last_key_value().map_or(0, |(last, _)| last.position),
        };
        self.turn += 1;
        self.insert(Key { placed: !waiter.is_unplaced(), position, turn: self.turn }, waiter);
    }

    fn insert(&mut self, key: Key, waiter: Waiter) {
        self.keys.insert(waiter.n, key);
        *self.by_durability.entry(waiter.durability()).or_default() += 1;
        if let Some(owner) = waiter.asked.owner {
            self.owners.entry(owner).or_default().insert(key);
        }
        self.times.extend(waiter.times().map(|at| (at, waiter.n)));
        self.waiters.insert(key, waiter);
    }

    pub(super) fn remove(&mut self, n: u64) -> Option<Waiter> {
        let key = self.keys.remove(&n)?;
        let waiter = self.waiters.remove(&key)?;
        if let Some(owner) = waiter.asked.owner
            && let Some(keys) = self.owners.get_mut(&owner)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.owners.remove(&owner);
            }
        }
        for at in waiter.times() {
            self.times.remove(&(at, n));
        }
        if let Some(by_durability) = self.by_durability.get_mut(&waiter.durability()) {
            *by_durability -= 1;
            if *by_durability == 0 {
                self.by_durability.remove(&waiter.durability());
            }
        }
        Some(waiter)
    }

    /// Whether a new waiter for a lock may join without an attempt of its own.
    pub(super) fn is_joined(&self, durability: Durability) -> bool {
        let is_joined = match self.waiters.first_key_value() {
            Some((_, first)) => first.want.is_lock() && first.durability() == durability,
            None => self.pause.until(Instant::now()).is_some(),
        };
        is_joined && !self.failing.contains_key(&durability)
    }

    /// Moves a waiter according to its position in the store.
    pub(super) fn put(&mut self, n: u64, position: u64) {
        let known = self.keys.get(&n).and_then(|key| self.waiters.get(key)).and_then(|w| w.position);
        // A waiter that was brought to the front stays there.
        if known == Some(position) {
            return;
        }
        if let Some(mut waiter) = self.remove(n) {
            waiter.position = Some(position);
            self.push(waiter);
        }
    }

    /// Moves a waiter to the front. Returns `false` if it is already there or not in the queue.
    pub(super) fn bring_to_front(&mut self, n: u64) -> bool {
        let first = self.waiters.first_key_value().map(|(key, _)| *key);
        let Some(key) = self.keys.get(&n) else {
            self.in_the_way = Some(n);
            return false;
        };
        if Some(*key) == first {
            return false;
        }
        let Some(waiter) = self.remove(n) else { return false };
        self.push_front(waiter);
        true
    }

    fn push_front(&mut self, waiter: Waiter) {
        let first = self.waiters.first_key_value().map_or(0, |(key, _)| key.turn.min(0));
        self.insert(Key { placed: false, position: 0, turn: first - 1 }, waiter);
    }

    /// Returns, in order, the waiters that may try now: not those in a backoff after a failure of the store.
    pub(super) fn ready(&self, now: Instant) -> impl Iterator<Item = &Waiter> {
        let may_try = move |durability: Durability| match self.failing.get(&durability) {
            Some(failing) => failing.retry_at <= now,
            None => true,
        };
        // Skips the scan if the store fails for all of them.
        let some = self.by_durability.keys().any(|durability| may_try(*durability));
        let waiters = some.then(|| self.waiters.values()).into_iter().flatten();
        waiters.inspect(|_| self.looks(1)).filter(move |w| may_try(w.durability()))
    }

    /// Returns the first waiter of an owner, or the next one after the key `last`.
    pub(super) fn next_of_owner(&self, owner: u64, last: Option<Key>) -> Option<(Key, Waiter)> {
        self.looks(1);
        let after = (last.map_or(Unbounded, Excluded), Unbounded);
        let key = self.owners.get(&owner)?.range(after).next()?;
        Some((*key, self.waiters.get(key)?.clone()))
    }

    /// Counts, in tests, how many waiters were examined.
    fn looks(&self, _n: u64) {
        #[cfg(test)]
        self.looked_at.fetch_add(_n, std::sync::atomic::Ordering::SeqCst);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.values()
    }

    /// Marks a waiter as no longer waiting.
    pub(super) fn gone(&mut self, n: u64) {
        self.gone.push((n, None));
    }

    /// As [`Queue::gone`], of one that is not told anything. If it is here, what it leaves counts as a pending release
    /// until it is swept.
    pub(super) fn abandoned(&mut self, n: u64, pending: impl FnOnce() -> Pending) {
        self.gone.push((n, self.keys.contains_key(&n).then(pending)));
    }

    /// Removes those who no longer wait, and those whose deadline has passed.
    pub(super) fn take_over(&mut self, now: Instant) -> Over {
        let mut over = Over::default();
        self.looks(self.gone.len() as u64);
        for (n, pending) in std::mem::take(&mut self.gone) {
            over.gone.extend(self.remove(n));
            over.pending.extend(pending);
        }
        while let Some((at, n)) = self.times.first().copied()
            && at <= now
        {
            self.times.pop_first();
            let Some(waiter) = self.keys.get(&n).and_then(|key| self.waiters.get_mut(key)) else { continue };
            if waiter.warn_at.is_some_and(|at| at <= now) {
                waiter.warn_at = None;
                over.warn.push(waiter.asked.flow);
            }
            if waiter.asked.deadline.is_some_and(|at| at <= now) {
                over.gone.extend(self.remove(n));
            }
        }
        over
    }

    /// When the next deadline or warning is due, or the next retry after a failure.
    pub(super) fn timer(&self, now: Instant) -> Option<Instant> {
        let times = self.times.first().map(|(at, _)| *at);
        let retries = self.failing.values().map(|f| f.retry_at).filter(|at| *at > now);
        retries.chain(times).min()
    }

    /// Records that the store failed for a durability. Returns the waiters that have tolerated that for `outage`.
    pub(super) fn failed(&mut self, durability: Durability, error: &Error, core: &Core) -> Vec<Waiter> {
        let now = Instant::now();
        let before = self.failing.get(&durability).and_then(|f| f.backoff);
        let (since, mut backoff) = before.unwrap_or((now, RETRIES));
        let retry_at = now + backoff.failed_by(core.chance());
        let backoff = Some((since, backoff));
        self.failing.insert(durability, Failing { error: error.clone(), retry_at, backoff });
        let borne =
            |w: &&Waiter| w.durability() == durability && w.since.max(since) + core.settings.outage <= now;
        self.waiters.values().filter(borne).cloned().collect()
    }

    /// Records that the store is not ready yet, and has said when it will be.
    pub(super) fn not_ready(&mut self, durability: Durability, error: &Error) {
        let failing = Failing { error: error.clone(), retry_at: Instant::now(), backoff: None };
        self.failing.insert(durability, failing);
    }

    /// Records that the store answered for a durability.
    pub(super) fn answered(&mut self, durability: Durability) {
        self.failing.remove(&durability);
        self.answered.insert(durability, Instant::now());
    }

    /// Records that a request is begun for a waiter. Returns `false` if it does not wait here any more.
    pub(super) fn begins(&mut self, n: u64) -> bool {
        let waits = self.keys.contains_key(&n);
        if waits {
            (self.asked, self.trying) = (Some(Instant::now()), Some(n));
        }
        waits
    }

    /// Records that the request was answered.
    pub(super) fn ends(&mut self) {
        (self.asked, self.trying) = (None, None);
    }

    /// Whether a request for this waiter is open.
    pub(super) fn tries(&self, n: u64) -> bool {
        self.trying == Some(n)
    }

    /// Returns an error if it is not known whether others block a waiter with this durability, who came at `since`: the
    /// store has not answered since, is not ready, or has failed or been silent for `patience`.
    pub(super) fn error(
        &self,
        durability: Durability,
        since: Instant,
        patience: Duration,
        core: &Core,
    ) -> Option<Error> {
        let unheard = self.answered.get(&durability).is_none_or(|answered| *answered < since);
        // A single failed call says little, unless it says that the store is not ready.
        let lasts = |failing: &&Failing| {
            unheard || failing.backoff.is_none_or(|(from, _)| from.elapsed() >= patience)
        };
        if let Some(failing) = self.failing.get(&durability).filter(lasts) {
            return Some(failing.error.clone());
        }
        let silent = unheard || self.asked.is_some_and(|from| from.elapsed() >= patience);
        silent.then(|| core.out_of_time("wait"))
    }

    /// Removes all waiters.
    pub(super) fn take_all(&mut self) -> Over {
        let all: Vec<u64> = self.keys.keys().copied().collect();
        let gone = all.into_iter().filter_map(|n| self.remove(n)).collect();
        let pending = std::mem::take(&mut self.gone).into_iter().filter_map(|(_, pending)| pending).collect();
        Over { gone, pending, warn: Vec::new() }
    }
}

/// The waiters removed from a queue, and the flows whose warning is due.
#[derive(Default)]
pub(super) struct Over {
    pub(super) gone: Vec<Waiter>,
    /// To be dropped when what they left is being released.
    pub(super) pending: Vec<Pending>,
    pub(super) warn: Vec<Flow>,
}
