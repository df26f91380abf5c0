//! Which attempts are unanswered, and on which link: so that what undoes one goes behind it.
//!
//! An attempt whose link died may still be executed, for the server may read what it was sent before later calls on
//! other links. Until its lease is over, an undo that finds nothing proves nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tenure_core::HoldId;

use super::link::Link;
use super::pause::bounded;

#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<HoldId, Record>>);

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
    fn lock(&self) -> MutexGuard<'_, HashMap<HoldId, Record>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn sent(&self, id: HoldId, link: &Arc<Link>, number: u64, lease: Duration) {
        let (mut records, now) = (self.lock(), Instant::now());
        let record = records.entry(id).or_default();
        let before = record.pending.take();
        if let Some(before) = &before {
            record.ghost_until = record.ghost_until.max(Some(before.over));
        }
        record.pending = Some(Pending { link: Arc::downgrade(link), number, over: now + bounded(lease) });
        if before.is_some() {
            sweep(&mut records, now);
        }
    }

    /// The attempt with this number on its link was answered, or was certainly never sent.
    pub(crate) fn settled(&self, id: HoldId, number: u64) {
        let mut records = self.lock();
        let Some(record) = records.get_mut(&id) else { return };
        record.pending.take_if(|p| p.number == number);
        if record.pending.is_none() && record.ghost_until.is_none() {
            records.remove(&id);
        }
    }

    /// Its link died before the answer.
    pub(crate) fn lost(&self, id: HoldId, number: u64) {
        let (mut records, now) = (self.lock(), Instant::now());
        if let Some(record) = records.get_mut(&id)
            && let Some(pending) = record.pending.take_if(|p| p.number == number)
        {
            record.ghost_until = record.ghost_until.max(Some(pending.over));
        }
        sweep(&mut records, now);
    }

    pub(crate) fn of(&self, id: HoldId) -> Known {
        let mut records = self.lock();
        let Some(record) = records.get(&id) else { return Known::Settled };
        if let Some(link) = record.pending.as_ref().and_then(|p| p.link.upgrade()) {
            return Known::Unanswered(link);
        }
        let over = record.ghost_until.max(record.pending.as_ref().map(|p| p.over));
        if over.is_some_and(|over| over > Instant::now()) {
            return Known::Ghost;
        }
        records.remove(&id);
        Known::Settled
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

fn sweep(records: &mut HashMap<HoldId, Record>, now: Instant) {
    records.retain(|_, r| r.pending.is_some() || r.ghost_until.is_some_and(|g| g > now));
}
