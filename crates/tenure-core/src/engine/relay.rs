//! Passing a hold on: a release that meets a waiter of the same client gives the hold to it without asking the store. The
//! same id on the wire, a new guard, and the next fence of a range that the acquire has stored. See `docs/adr/0039`.
//!
//! The right to release a hold moves with it: the guard before is over (`LEFT`) before the next one exists, and the keeper
//! knows one of them at any time, so an answer about the hold is for the guard that has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::backend::{Claim, Fence, Kind, Time};
use crate::engine::core::Core;
use crate::engine::entry::Entry;
use crate::engine::gate::Waiter;
use crate::engine::hold::Hold;
use crate::engine::mailbox::{Grant, Letter};
use crate::engine::telemetry::End;

/// The right to pass a hold on, which moves with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Relay {
    /// Until when: it counts from the last time that the store has said who holds.
    until: Time,
    /// The number of suspicions before the attempt was sent.
    suspicions: u64,
    /// How often it may still be passed on: the fences that are left.
    spare: u32,
    /// Whether it has been passed on.
    pub(crate) passed: bool,
}

impl Relay {
    /// Returns the right to pass on what was granted to an attempt sent at `sent`, if the store has reserved anything.
    pub(crate) fn new(sent: Time, bound: Duration, suspicions: u64, spare: u32) -> Option<Self> {
        (spare > 0).then(|| Self { until: sent.after(bound), suspicions, spare, passed: false })
    }

    /// Returns what is left of it once the hold is passed on `now`.
    fn next(self, now: Time, suspicions: u64) -> Option<Self> {
        let spare = self.spare.checked_sub(1)?;
        (now < self.until && suspicions == self.suspicions).then_some(Self { spare, passed: true, ..self })
    }
}

/// What decides whether a hold may be passed on.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// The right to do so, if it was granted with one.
    pub(crate) relay: Option<Relay>,
    /// Whether its id was given out: somebody may release or renew it by that.
    named: AtomicBool,
    /// Whether a request about it is open.
    asked: AtomicBool,
}

impl Passing {
    /// Its id is given out.
    pub(crate) fn name(&self) {
        self.named.store(true, SeqCst);
    }

    /// A request about it is handed out.
    pub(crate) fn asks(&self) {
        self.asked.store(true, SeqCst);
    }

    /// That request was answered, or is given up.
    pub(crate) fn answered(&self) {
        self.asked.store(false, SeqCst);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(SeqCst)
    }
}

impl Core {
    /// How many fences an attempt at a gate reserves: one for each microsecond for which its hold may be passed on, so
    /// that none is given out before the store's clock has come to it. 0 if nobody could be given the hold.
    pub(crate) fn reserves(&self, waiter: &Waiter) -> u32 {
        let bound = self.settings.local_handover.unwrap_or_default();
        match waiter.plain_claim() {
            Some(_) => u32::try_from(bound.as_micros()).unwrap_or(u32::MAX),
            None => 0,
        }
    }

    /// For how long a hold is passed on: its lease has to be renewed in time, whoever has it.
    pub(crate) fn bound_of(&self, claim: &Claim) -> Duration {
        self.settings.local_handover.unwrap_or_default().min(claim.lease / 3)
    }

    /// How long a gate does not try at most, because a hold is passed on or others come first.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.settings.local_handover.unwrap_or_default().min(self.poll())
    }

    /// Passes on a hold whose last guard has left. Returns `false` if it has to be released.
    pub(crate) fn pass_on(self: &Arc<Self>, hold: &Arc<Hold>) -> bool {
        let Some(relay) = hold.passing.relay else { return false };
        let Some(gate) = self.gates.of(&hold.claim.name) else { return false };
        if hold.kept_until().is_some() || self.check_open().is_err() {
            return false;
        }
        let taken = gate.take(|waiter| {
            let now = self.clock.now();
            let next = relay.next(now, self.suspicions())?;
            self.is_served(hold, waiter, now).then(|| self.succeed(hold, waiter, next))?
        });
        let Some((waiter, next)) = taken else { return false };
        // From here on it is released by its entry, whatever happens.
        let entry = Entry::new(waiter.asked.engine.clone(), next.clone(), next.first());
        self.telemetry.ended(hold, End::PassedOn, &self.clock);
        self.telemetry.held(&next);
        // A client closed meanwhile has not seen it, and a suspicion raised meanwhile was noted for the guard before.
        if let Err(closed) = self.check_open() {
            drop(entry);
            waiter.leave_place(self);
            // It was not at the gate when that failed all who wait there.
            let _ = waiter.mailbox.deliver(Letter::Failed(closed));
            return true;
        }
        self.suspect_since(relay.suspicions, &next);
        waiter.leave_place(self);
        // If nobody waits any more, the letter is dropped here, and what it grants is given back.
        drop(waiter.mailbox.deliver(Letter::Grant(Grant::Entry(entry))));
        true
    }

    /// Whether the hold is as good for a waiter as one that the store grants now on its terms: for the same lease, of
    /// which no more has passed than the time for which holds are passed on.
    fn is_served(&self, hold: &Hold, waiter: &Waiter, now: Time) -> bool {
        let Some(claim) = waiter.plain_claim() else { return false };
        let bound = self.bound_of(claim);
        let end = self.backend.info().drift.until(now, claim.lease);
        !hold.passing.named.load(SeqCst)
            && claim.lease == hold.claim.lease
            && claim.durability == hold.durability()
            && hold.until().after(bound) >= end
            && !hold.leases.are_asked_beyond(now.after(claim.lease))
    }

    /// Makes the hold of a waiter out of that of the guard before. `None` if a request about it is open.
    fn succeed(&self, before: &Arc<Hold>, waiter: &Waiter, relay: Relay) -> Option<Arc<Hold>> {
        let now = self.clock.now();
        let fence = before.fence.map(|Fence(last)| Fence(last + 1));
        let mut hold = Hold::new(&waiter.asked, before.claim.clone(), fence, before.until(), now);
        hold.passing.relay = Some(relay);
        if waiter.asked.terms.renewed {
            // As late as it would have been without this.
            let left = before.until().since(now);
            hold.renew_again(now.after(left.saturating_sub(before.claim.lease * 2 / 3)));
        }
        // For a minimum, or when it is detached, the store has to be asked for the rest.
        hold.leases.are_stored_only_until(before.until());
        if let Some(limit) = self.settings.warn_held {
            hold.warn_at(now.after(limit));
        }
        let hold = Arc::new(hold);
        hold.put_into(&waiter.mailbox, self.patience(hold.claim.lease));
        self.keeper.replace(before, &hold).then_some(hold)
    }
}

impl Waiter {
    /// Returns its claim, if its hold can be anybody's: a lock without an owner who might enter again, without a note or
    /// token that the store shows, and without a minimum that the store has to know.
    pub(crate) fn plain_claim(&self) -> Option<&Arc<Claim>> {
        let claim = self.claim()?;
        let is_plain = claim.kind == Kind::Lock
            && self.asked.owner.is_none()
            && claim.note.is_none()
            && claim.token.is_none()
            && self.asked.terms.least.is_zero();
        is_plain.then_some(claim)
    }
}
