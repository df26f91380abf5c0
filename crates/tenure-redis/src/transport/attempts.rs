//! Which attempts are unanswered, and on which link: so that what undoes one goes behind it.
//!
//! An attempt whose link died may still be executed, for the server may read what it was sent before later calls on
//! other links. Until its lease is over, an undo that finds nothing proves nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tenure_core::HoldId;

use super::link::Link;
use super::pause::bounded;

#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    of: HashMap<HoldId, Record>,
    /// When those end that may still come, the next one first: so that each is looked at once, however many a cut
    /// connection leaves.
    ends: BTreeSet<(Instant, HoldId)>,
    /// How many were looked at.
    looked: u64,
}

#[derive(Debug, Default)]
struct Record {
    /// The unanswered one: its link, and its number there.
    pending: Option<Pending>,
    /// Until when one that was lost with its link may still come.
    ghost_until: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    link: Weak<Link>,
    number: u64,
    over: Instant,
}

/// What is known of the attempts of a hold.
#[derive(Debug)]
pub(crate) enum Known {
    /// All were answered.
    Settled,
    Unanswered(Arc<Link>),
    /// One may still come.
    Ghost,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn sent(&self, id: HoldId, link: &Arc<Link>, number: u64, lease: Duration) {
        let (mut records, now) = (self.lock(), Instant::now());
        let pending = Pending { link: Arc::downgrade(link), number, over: now + bounded(lease) };
        let before = records.of.entry(id).or_default().pending.replace(pending);
        if let Some(before) = before {
            records.may_come(id, before.over);
        }
        records.forget(now);
    }

    /// The attempt with this number on its link was answered, or was certainly never sent.
    pub(crate) fn settled(&self, id: HoldId, number: u64) {
        let mut records = self.lock();
        let Some(record) = records.of.get_mut(&id) else { return };
        record.pending.take_if(|p| p.number == number);
        if record.pending.is_none() && record.ghost_until.is_none() {
            records.of.remove(&id);
        }
    }

    /// Its link died before the answer.
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
        if let Some(link) = record.pending.as_ref().and_then(|p| p.link.upgrade()) {
            return Known::Unanswered(link);
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
    /// An attempt of this hold may come until then.
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

    /// Forgets what cannot come any more.
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
