//! A grant within the release of another holder, brought by the signal of the watch: the waiter need not try again.
//!
//! The signal names the attempt of the waiter after which it was granted, so the grant is valid at least from the sending
//! of that attempt on, for as long as the signal says. If little of that is left, or if anything is in doubt, the waiter
//! tries as usual: an attempt of an id that is held answers with the grant.

use std::time::Duration;

use super::run::Run;
use super::{Waiter, Want};
use crate::backend::{Claim, Fence, Signal, Time};
use crate::engine::acquire::admit;
use crate::engine::core::Core;
use crate::engine::mailbox::{Grant, Letter};
use crate::engine::terms::Terms;

/// How soon a hold is renewed whose lease is not the one that it asked for. Short work is done before.
const SOON: Duration = Duration::from_millis(200);

/// An attempt of a waiter that has a watch.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// Its number. Random, so that nobody who may only publish can make a grant up.
    pub(super) attempt: u64,
    /// Before it was sent.
    at: Time,
    /// The number of suspicions at that time.
    suspicions: u64,
}

impl Look {
    pub(super) fn begin(core: &Core) -> Self {
        let attempt = (core.chance().fraction() * (1_u64 << 53) as f64) as u64;
        Self { attempt, at: core.clock.now(), suspicions: core.suspicions() }
    }
}

/// What a signal says was granted.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    attempt: u64,
    fence: Option<Fence>,
    lease: Duration,
}

impl Granted {
    pub(super) fn from(signal: Signal) -> Option<Self> {
        match signal {
            Signal::Granted { attempt, fence, lease } => Some(Self { attempt, fence, lease }),
            _ => None,
        }
    }
}

impl Run {
    /// Hands a signalled grant over to the waiter in front. Returns `false` if it has to try.
    pub(super) fn take_granted(&mut self, first: &Waiter) -> bool {
        let (Some(granted), Some((id, look))) = (self.granted.take(), self.looked.take()) else {
            return false;
        };
        let Want::Claim(claim) = &first.want else { return false };
        let core = &self.core;
        if claim.id != id || granted.attempt != look.attempt || core.suspicions() != look.suspicions {
            return false;
        }
        let (until, now) = (core.backend.info().drift.until(look.at, granted.lease), core.clock.now());
        if !is_enough(until, now, claim, &first.asked.terms) {
            return false;
        }
        let entry = match admit(&first.asked, claim, granted.fence, until, None) {
            Ok(entry) => entry,
            // Its id is dead: it must not try again.
            Err(error) => {
                let letter = if error.is_transient() { Letter::Expired } else { Letter::Failed(error) };
                self.hand_over(first, letter);
                return true;
            }
        };
        let hold = entry.hold();
        hold.leases.are_stored_only_until(until);
        hold.renew_again(now.after(SOON.min(until.since(now) / 3)));
        core.suspect_since(look.suspicions, hold);
        self.settle_owner(first, &entry);
        self.hand_over(first, Letter::Grant(Grant::Entry(entry)));
        true
    }
}

/// Whether a hold until then is as good as one that was granted now: the keeper has time to renew it, and its terms ask
/// for nothing that the store was not asked for.
fn is_enough(until: Time, now: Time, claim: &Claim, terms: &Terms) -> bool {
    terms.renewed && terms.least.is_zero() && until.since(now) >= claim.lease / 3
}
