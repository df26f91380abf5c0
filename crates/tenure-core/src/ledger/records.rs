//! Holders and waiters as entries of the index.

use std::time::Duration;

use crate::backend::{HoldId, Kind};
use crate::ledger::entries::Entry;
use crate::ledger::{Expiry, Holder, Now, Waiter};

impl Holder {
    /// Extends it to a lease from now, if that is later.
    pub(super) fn extend(&mut self, lease: Duration, now: Now) {
        self.lease = self.lease.max(lease);
        self.expiry.extend(now, lease);
    }
}

impl Entry for Holder {
    fn id(&self) -> HoldId {
        self.id
    }

    fn permits(&self) -> u64 {
        match self.kind {
            Kind::Permit { n, .. } => n.into(),
            _ => 0,
        }
    }

    /// Exclusive holders block all others.
    fn is_barring(&self) -> bool {
        !matches!(self.kind, Kind::Read { .. } | Kind::Permit { .. })
    }

    fn expiry(&self) -> &Expiry {
        &self.expiry
    }

    fn adopt(&mut self, now: Now) -> bool {
        self.expiry.adopt(now, self.lease)
    }
}

impl Entry for Waiter {
    fn id(&self) -> HoldId {
        self.id
    }

    fn permits(&self) -> u64 {
        0
    }

    /// Waiting fair locks and writers block those behind them.
    fn is_barring(&self) -> bool {
        matches!(self.kind, Kind::FairLock | Kind::Write)
    }

    fn expiry(&self) -> &Expiry {
        &self.expiry
    }

    fn adopt(&mut self, now: Now) -> bool {
        self.expiry.adopt(now, self.stamp)
    }
}
