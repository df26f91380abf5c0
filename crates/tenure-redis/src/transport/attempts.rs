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
    of: HashMap<HoldId, Record>,
    /// Deadlines of attempts that may still arrive, in order, so that each is visited once, however many a broken
    /// connection leaves.
    ends: BTreeSet<(Instant, HoldId)>,
    /// How many entries were visited.
    looked: u64,
}

#[derive(Debug, Default)]
struct Record {
    /// The unanswered attempt: its connection, and its number there.
    pending: Option<Pending>,
    /// Until when an attempt that was lost with its connection may still arrive.
    ghost_until: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    connection: Weak<Connection>,
    number: u64,
    over: Instant,
}

/// The state of the attempts of a hold.
#[derive(Debug)]
pub(crate) enum Known {
    /// All were answered.
    Settled,
    Unanswered(Arc<Connection>),
    /// One may still arrive.
    Ghost,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn sent(&self, id: HoldId, connection: &Arc<Connection>, number: u64, lease: Duration) {
        let (mut records, now) = (self.lock(), Instant::now());
        let pending = Pending { connection: Arc::downgrade(connection), number, over: now + bounded(lease) };
        let before = records.of.entry(id).or_default().pending.replace(pending);
        if let Some(before) = before {
            records.may_come(id, before.over);
        }
        records.forget(now);
    }

    /// Records that the attempt with this number was answered, or was certainly never sent.
    pub(crate) fn settled(&self, id: HoldId, number: u64) {
        let mut records = self.lock();
        let Some(record) = records.of.get_mut(&id) else { return };
        record.pending.take_if(|p| p.number == number);
        if record.pending.is_none() && record.ghost_until.is_none() {
            records.of.remove(&id);
        }
    }

    /// Records that the connection died before the answer.
    pub(crate) fn lost(&self, id: HoldId, number: u64) {
        let (mut records, now) = (self.lock(), Instant::now());
        let pending = records.of.get_mut(&id).and_then(|r| r.pending.take_if(|p| p.number == number));
        if let Some(pending) = pending {
            records.may_come(id, pending.over);
        }
        records.forget(now);
    }

    pub(crate) fn of(&self, id: HoldId) -> Known {
        let mut records = self.lock();
        let Some(record) = records.of.get(&id) else { return Known::Settled };
        if let Some(connection) = record.pending.as_ref().and_then(|p| p.connection.upgrade()) {
            return Known::Unanswered(connection);
        }
        let over = record.ghost_until.max(record.pending.as_ref().map(|p| p.over));
        if over.is_some_and(|over| over > Instant::now()) {
            return Known::Ghost;
        }
        records.remove(id);
        Known::Settled
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().of.len()
    }

    #[cfg(test)]
    pub(crate) fn looked(&self) -> u64 {
        self.lock().looked
    }
}

impl Records {
    /// Records that an attempt of this hold may arrive until then.
    fn may_come(&mut self, id: HoldId, until: Instant) {
        let Some(record) = self.of.get_mut(&id) else { return };
        let before = record.ghost_until;
        let until = before.map_or(until, |before| before.max(until));
        record.ghost_until = Some(until);
        if let Some(before) = before {
            self.ends.remove(&(before, id));
        }
        self.ends.insert((until, id));
    }

    /// Removes attempts that cannot arrive any more.
    fn forget(&mut self, now: Instant) {
        while let Some((end, id)) = self.ends.first().copied() {
            self.looked += 1;
            if end > now {
                return;
            }
            self.ends.pop_first();
            let Some(record) = self.of.get_mut(&id) else { continue };
            record.ghost_until = None;
            if record.pending.is_none() {
                self.of.remove(&id);
            }
        }
    }

    fn remove(&mut self, id: HoldId) {
        let record = self.of.remove(&id);
        if let Some(end) = record.and_then(|record| record.ghost_until) {
            self.ends.remove(&(end, id));
        }
    }
}
