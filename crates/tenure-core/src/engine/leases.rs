//! The leases of one hold as its store knows them: what it was asked for, and what it has confirmed. Guards may count on
//! less.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::backend::{Claim, Time};

#[derive(Debug)]
pub(crate) struct Leases {
    /// The latest time until which the store may keep it, by the longest lease of any request sent for it.
    lasts: AtomicU64,
    /// The latest end of any lease that the store was asked for.
    asked: AtomicU64,
    /// The latest end of any lease that the store has confirmed.
    stored: AtomicU64,
    /// When its minimum begins: with the grant, or with the call that asked for it.
    from: AtomicU64,
    /// Until when the store has to keep it, whatever becomes of its guards; 0 if it has no minimum.
    kept: AtomicU64,
}

impl Leases {
    /// Those of what was granted `now` until `end`.
    pub(crate) fn new(now: Time, end: Time) -> Self {
        let [now, lasts, asked, stored] = [now, end, end, end].map(|at| AtomicU64::new(at.as_nanos()));
        Self { lasts, asked, stored, from: now, kept: AtomicU64::new(0) }
    }

    /// The latest time until which the store may keep it if it is not released.
    pub(crate) fn lasts(&self) -> Time {
        Time::from_nanos(self.lasts.load(SeqCst))
    }

    /// Records that a request is sent `now` that may extend it by `lease`, and that is executed within `within`.
    pub(crate) fn ask(&self, now: Time, lease: Duration, within: Duration) {
        self.asked.fetch_max(now.after(lease).as_nanos(), SeqCst);
        self.lasts.fetch_max(now.after(within).after(lease).as_nanos(), SeqCst);
    }

    /// Records that the store has confirmed a request that was sent at `sent` for this lease.
    pub(crate) fn confirm(&self, sent: Time, lease: Duration) {
        self.stored.fetch_max(sent.after(lease).as_nanos(), SeqCst);
    }

    /// The store was not asked for a lease, but has granted one until `end`.
    pub(crate) fn are_stored_only_until(&self, end: Time) {
        self.stored.store(end.as_nanos(), SeqCst);
    }

    /// Whether the store was told to keep it until `end`, and has confirmed that.
    pub(crate) fn are_stored_until(&self, end: Time) -> bool {
        self.stored.load(SeqCst) >= end.as_nanos()
    }

    /// Whether the store may keep it for longer than until `end`, if it is not released. Not by what two looks at the
    /// clock may differ.
    pub(crate) fn are_asked_beyond(&self, end: Time) -> bool {
        self.asked.load(SeqCst) > end.after(Claim::MIN_LEASE).as_nanos()
    }

    /// What is left of the longest lease that the store was asked for.
    pub(crate) fn asked_for(&self, now: Time) -> Duration {
        Time::from_nanos(self.asked.load(SeqCst)).since(now)
    }

    /// Counts the minimum from then on, and not from the grant.
    pub(crate) fn count_from(&self, call: Time) {
        self.from.store(call.as_nanos(), SeqCst);
    }

    /// The store has to keep it for `d` at least.
    pub(crate) fn keep_for(&self, d: Duration) {
        let from = Time::from_nanos(self.from.load(SeqCst));
        self.kept.fetch_max(from.after(d).as_nanos(), SeqCst);
    }

    /// The end of the minimum, if there is one.
    pub(crate) fn kept_until(&self) -> Option<Time> {
        let nanos = self.kept.load(SeqCst);
        (nanos > 0).then(|| Time::from_nanos(nanos))
    }
}
