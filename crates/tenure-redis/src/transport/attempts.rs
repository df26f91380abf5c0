//! Tracks unanswered attempts and their connections, so that a release is sent on the same connection, after the
//! attempt.
//!
//! An attempt whose connection died may still be executed: the server may read what it was sent even after later calls
//! on other connections. Until the lease of the attempt is over, a release that finds nothing proves nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tenure_core::HoldId;

use super::bounded;
use super::connection::Connection;

#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    by_hold: HashMap<HoldId, Record>,
    /// Deadlines of attempts that may still arrive, in order, so that each is visited once, however many a broken
    /// connection leaves.
    ends: BTreeSet<(Instant, HoldId)>,
    /// How many entries were visited.
    visited: u64,
}

#[derive(Debug, Default)]
struct Record {
    /// The unanswered attempts. A quorum re-enters a hold while the first attempt is still in flight to a slow node.
    pending: Vec<Pending>,
    /// Until when an attempt that was lost with its connection may still arrive.
    may_arrive_until: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    connection: Weak<Connection>,
    number: u64,
    lease_end: Instant,
}

/// The state of the attempts of a hold.
#[derive(Debug)]
pub(crate) enum AttemptState {
    /// All were answered.
    Answered,
    /// The newest unanswered one is on this connection.
    InFlight(Arc<Connection>),
    /// One may still arrive.
    MayArrive,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn sent(
        &self,
        id: HoldId,
        connection: &Arc<Connection>,
        number: u64,
        lease: Duration,
        now: Instant,
    ) {
        let mut records = self.lock();
        let pending =
            Pending { connection: Arc::downgrade(connection), number, lease_end: now + bounded(lease) };
        records.by_hold.entry(id).or_default().pending.push(pending);
        records.remove_expired(now);
    }

    /// Records that the attempt with this number was answered, or was certainly never sent.
    pub(crate) fn answered(&self, id: HoldId, number: u64) {
        let mut records = self.lock();
        let Some(record) = records.by_hold.get_mut(&id) else { return };
        record.pending.retain(|p| p.number != number);
        if record.pending.is_empty() && record.may_arrive_until.is_none() {
            records.by_hold.remove(&id);
        }
    }

    /// Records that the connection died before the answer.
    pub(crate) fn lost(&self, id: HoldId, number: u64) {
        let (mut records, now) = (self.lock(), Instant::now());
        let lost = records.by_hold.get_mut(&id).and_then(|record| {
            let at = record.pending.iter().position(|p| p.number == number)?;
            Some(record.pending.remove(at))
        });
        if let Some(lost) = lost {
            records.may_arrive(id, lost.lease_end);
        }
        records.remove_expired(now);
    }

    pub(crate) fn state(&self, id: HoldId) -> AttemptState {
        let mut records = self.lock();
        let Some(record) = records.by_hold.get(&id) else { return AttemptState::Answered };
        if let Some(connection) = record.pending.iter().rev().find_map(|p| p.connection.upgrade()) {
            return AttemptState::InFlight(connection);
        }
        let over = record.may_arrive_until.max(record.pending.iter().map(|p| p.lease_end).max());
        if over.is_some_and(|over| over > Instant::now()) {
            return AttemptState::MayArrive;
        }
        records.remove(id);
        AttemptState::Answered
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().by_hold.len()
    }

    #[cfg(test)]
    pub(crate) fn visited(&self) -> u64 {
        self.lock().visited
    }
}

impl Records {
    /// Records that an attempt of this hold may arrive until then.
    fn may_arrive(&mut self, id: HoldId, until: Instant) {
        let Some(record) = self.by_hold.get_mut(&id) else { return };
        let before = record.may_arrive_until;
        let until = before.map_or(until, |before| before.max(until));
        record.may_arrive_until = Some(until);
        if let Some(before) = before {
            self.ends.remove(&(before, id));
        }
        self.ends.insert((until, id));
    }

    /// Removes attempts that cannot arrive any more.
    fn remove_expired(&mut self, now: Instant) {
        while let Some((end, id)) = self.ends.first().copied() {
            self.visited += 1;
            if end > now {
                return;
            }
            self.ends.pop_first();
            let Some(record) = self.by_hold.get_mut(&id) else { continue };
            record.may_arrive_until = None;
            if record.pending.is_empty() {
                self.by_hold.remove(&id);
            }
        }
    }

    fn remove(&mut self, id: HoldId) {
        let record = self.by_hold.remove(&id);
        if let Some(end) = record.and_then(|record| record.may_arrive_until) {
            self.ends.remove(&(end, id));
        }
    }
}
