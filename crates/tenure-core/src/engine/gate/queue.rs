//! Those who wait at a gate, in the order in which they try. Found by number, by owner and by time without a walk through
//! the queue, so that what one of them costs does not depend on how many there are.
//!
//! Waiters of a queued kind stand in the order of the store's queue: a store may tell only the head of its queue, and the
//! gate listens for the first of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::Waiter;
use crate::backend::{Durability, Error};
use crate::engine::acquire::Backoff;
use crate::engine::core::Core;

#[derive(Default)]
pub(super) struct Queue {
    waiters: BTreeMap<Key, Waiter>,
    /// Where each stands, by its number.
    keys: HashMap<u64, Key>,
    owners: HashMap<u64, BTreeSet<Key>>,
    /// When the deadline or the warning of a waiter is due.
    times: BTreeSet<(Instant, u64)>,
    /// The numbers of those who do not wait any more.
    gone: Vec<u64>,
    /// How many ask for as many copies.
    trace: BTreeMap<Durability, usize>,
    failing: BTreeMap<Durability, Failing>,
    /// Who was in the way and is not here. It may still come: if an attempt is executed twice, its claim may hold the name
    /// before it comes here to wait for it.
    in_the_way: Option<u64>,
    /// Since when the store has been asked without an answer.
    asked: Option<Instant>,
    turn: i64,
    /// How many waiters were looked at.
    #[cfg(test)]
    pub(super) looked_at: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

/// What the order goes by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    /// Who may stand in the store's queue at a position that is not known here tries first, to learn it.
    placed: bool,
    position: u64,
    turn: i64,
}

/// A stretch in which the store fails for those who ask for as many copies.
struct Failing {
    error: Error,
    retry_at: Instant,
    /// None while it says when it will be ready: that is waited for, however long it takes.
    backoff: Option<Backoff>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Adds a waiter where it belongs: by its position in the store's queue, or at the end where there is none.
    pub(super) fn push(&mut self, waiter: Waiter) {
        if waiter.heard {
            self.answered(waiter.want.durability());
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
        *self.trace.entry(waiter.want.durability()).or_default() += 1;
        if let Some(owner) = waiter.owner {
            self.owners.entry(owner).or_default().insert(key);
        }
        self.times.extend(waiter.times().map(|at| (at, waiter.n)));
        self.waiters.insert(key, waiter);
    }

    pub(super) fn remove(&mut self, n: u64) -> Option<Waiter> {
        let key = self.keys.remove(&n)?;
        let waiter = self.waiters.remove(&key)?;
        if let Some(owner) = waiter.owner
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
        if let Some(trace) = self.trace.get_mut(&waiter.want.durability()) {
            *trace -= 1;
            if *trace == 0 {
                self.trace.remove(&waiter.want.durability());
            }
        }
        Some(waiter)
    }

    /// Moves a waiter to where it belongs by its position in the store.
    pub(super) fn put(&mut self, n: u64, position: u64) {
        let known = self.keys.get(&n).and_then(|key| self.waiters.get(key)).and_then(|w| w.position);
        // One that was brought to the front stays there.
        if known == Some(position) {
            return;
        }
        if let Some(mut waiter) = self.remove(n) {
            waiter.position = Some(position);
            self.push(waiter);
        }
    }

    /// Moves a waiter to the front. `false` if it is there already or is not here.
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

    /// In their order, those who may try now: without those for whom the store has just failed.
    pub(super) fn ready(&self, now: Instant) -> impl Iterator<Item = &Waiter> {
        let may_try = move |durability: Durability| match self.failing.get(&durability) {
            Some(failing) => failing.retry_at <= now,
            None => true,
        };
        // Nobody is looked at where the store fails for all of them.
        let some = self.trace.keys().any(|durability| may_try(*durability));
        let waiters = some.then(|| self.waiters.values()).into_iter().flatten();
        waiters.inspect(|_| self.looks(1)).filter(move |w| may_try(w.want.durability()))
    }

    /// Those of one owner.
    pub(super) fn of_owner(&self, owner: u64) -> Vec<Waiter> {
        let keys = self.owners.get(&owner).into_iter().flatten();
        keys.filter_map(|key| self.waiters.get(key)).inspect(|_| self.looks(1)).cloned().collect()
    }

    /// Counts, in tests, how many waiters were looked at.
    fn looks(&self, _n: u64) {
        #[cfg(test)]
        self.looked_at.fetch_add(_n, std::sync::atomic::Ordering::SeqCst);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.values()
    }

    /// Somebody does not wait any more.
    pub(super) fn gone(&mut self, n: u64) {
        self.gone.push(n);
    }

    /// Takes out those who do not wait any more, and those whose time is over.
    pub(super) fn take_over(&mut self, now: Instant) -> Over {
        let mut over = Over::default();
        self.looks(self.gone.len() as u64);
        for n in std::mem::take(&mut self.gone) {
            over.gone.extend(self.remove(n));
        }
        while let Some((at, n)) = self.times.first().copied()
            && at <= now
        {
            self.times.pop_first();
            let Some(waiter) = self.keys.get(&n).and_then(|key| self.waiters.get_mut(key)) else { continue };
            if waiter.warn_at.is_some_and(|at| at <= now) {
                waiter.warn_at = None;
                over.warn.extend(waiter.flow.task);
            }
            if waiter.deadline.is_some_and(|at| at <= now) {
                over.gone.extend(self.remove(n));
            }
        }
        over
    }

    /// When the next deadline or warning is due, or the store may be tried again by those for whom it failed.
    pub(super) fn timer(&self, now: Instant) -> Option<Instant> {
        let times = self.times.first().map(|(at, _)| *at);
        let retries = self.failing.values().map(|f| f.retry_at).filter(|at| *at > now);
        retries.chain(times).min()
    }

    /// The store failed for who asks for as many copies. Those who have borne that for long enough.
    pub(super) fn failed(&mut self, durability: Durability, error: &Error, outage: Duration) -> Vec<Waiter> {
        let now = Instant::now();
        let mut backoff = self.failing.get(&durability).and_then(|f| f.backoff).unwrap_or_else(Backoff::new);
        let (retry_at, since) = (now + backoff.pause(), backoff.since());
        self.failing.insert(durability, Failing { error: error.clone(), retry_at, backoff: Some(backoff) });
        let borne = |w: &&Waiter| w.want.durability() == durability && w.since.max(since) + outage <= now;
        self.waiters.values().filter(borne).cloned().collect()
    }

    /// The store is not ready yet, and says when it will be.
    pub(super) fn not_ready(&mut self, durability: Durability, error: &Error) {
        let failing = Failing { error: error.clone(), retry_at: Instant::now(), backoff: None };
        self.failing.insert(durability, failing);
    }

    /// The store answered who asks for as many copies.
    pub(super) fn answered(&mut self, durability: Durability) {
        self.failing.remove(&durability);
    }

    /// The store is asked from now on, or not any more.
    pub(super) fn asks(&mut self, since: Option<Instant>) {
        self.asked = since;
    }

    /// Why nobody knows whether those who ask for as many copies are kept out by others: the store is not ready, or has
    /// failed or been silent for `patience`.
    pub(super) fn error(&self, durability: Durability, patience: Duration, core: &Core) -> Option<Error> {
        // A call that failed once says little, unless it says that the store is not ready.
        let lasts = |failing: &&Failing| failing.backoff.is_none_or(|b| b.since().elapsed() >= patience);
        if let Some(failing) = self.failing.get(&durability).filter(lasts) {
            return Some(failing.error.clone());
        }
        let silent = self.asked.is_some_and(|since| since.elapsed() >= patience);
        silent.then(|| core.out_of_time("wait"))
    }

    /// Takes out all.
    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        let all: Vec<u64> = self.keys.keys().copied().collect();
        all.into_iter().filter_map(|n| self.remove(n)).collect()
    }
}

/// Who was taken out of a queue, and whose warning is due.
#[derive(Default)]
pub(super) struct Over {
    pub(super) gone: Vec<Waiter>,
    pub(super) warn: Vec<tokio::task::Id>,
}
