//! Which holds of the plain layout have a record beside their string.
//!
//! A string has no room for who holds it. A hold is described from its first renewal on, since few last that long, and at
//! once if it has more to say than its id.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tenure_core::backend::Time;
use tenure_core::{Claim, HoldId};

/// How long a record lasts beyond two leases without being written again.
const LASTS: Duration = Duration::from_secs(300);

/// The holds of this process that were described, and until when that lasts.
#[derive(Debug, Default)]
pub(crate) struct Described(Mutex<HashMap<HoldId, Time>>);

impl Described {
    /// How long the record of a claim lasts.
    pub(crate) fn lasts(claim: &Claim) -> Duration {
        claim.lease.saturating_mul(2).saturating_add(LASTS)
    }

    /// Says that a record of this claim is written now.
    pub(crate) fn note(&self, claim: &Claim, now: Time) {
        let mut known = self.0.lock().unwrap();
        // Of holds that ended without a release.
        if known.len() == known.capacity() {
            known.retain(|_, until| *until > now);
        }
        known.insert(claim.id, now.after(Self::lasts(claim)));
    }

    /// Whether a renewal of this claim must write its record; it is taken as written then.
    pub(crate) fn is_due(&self, claim: &Claim, now: Time) -> bool {
        // A pure proof writes nothing; of a hold that is known by its token, nobody here knows whose it is.
        if claim.lease.is_zero() || claim.id == HoldId::NONE {
            return false;
        }
        let known = self.0.lock().unwrap().get(&claim.id).copied();
        let due = known.is_none_or(|until| until < now.after(claim.lease));
        if due {
            self.note(claim, now);
        }
        due
    }

    /// Whether a hold has a record.
    pub(crate) fn has(&self, id: HoldId) -> bool {
        self.0.lock().unwrap().contains_key(&id)
    }

    /// It was released, or never came to be.
    pub(crate) fn forget(&self, id: HoldId) {
        self.0.lock().unwrap().remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::{ClientId, Kind, Name};

    fn claim(n: u64) -> Claim {
        let id = HoldId { client: ClientId::new(), n };
        Claim::of(id, Name::new("x").unwrap(), Kind::Lock)
    }

    #[test]
    fn a_record_is_written_again_before_it_ends() {
        let (described, claim, start) = (Described::default(), claim(1), Time::from_nanos(0));
        assert!(described.is_due(&claim, start) && !described.is_due(&claim, start));
        let (mut now, mut written, third) = (start, start, claim.lease / 3);
        let mut times = 0;
        for _ in 0..1000 {
            now = now.after(third);
            if described.is_due(&claim, now) {
                (written, times) = (now, times + 1);
            }
            assert!(now.since(written) + claim.lease <= Described::lasts(&claim), "it lasts until the next");
        }
        assert!((10..50).contains(&times), "{times} of 1000 renewals");
        assert!(described.has(claim.id));
        described.forget(claim.id);
        assert!(!described.has(claim.id));
    }

    #[test]
    fn what_was_not_released_is_forgotten() {
        let described = Described::default();
        let mut now = Time::from_nanos(0);
        for n in 0..10_000 {
            let claim = claim(n);
            described.note(&claim, now);
            now = now.after(claim.lease);
        }
        assert!(described.0.lock().unwrap().capacity() < 100);
    }
}
