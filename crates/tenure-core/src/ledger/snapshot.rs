//! The state of a name for display.

use super::{Ledger, Now};
use crate::backend::{Fence, Holder, Kind, Mode, Name, Snapshot, Waiter};

impl Ledger {
    /// Returns the state for display; `None` if the name is not in use.
    pub fn snapshot(&mut self, name: &Name, now: Now) -> Option<Snapshot> {
        self.prune(now);
        let family = self.family()?;
        let mode = |kind: &Kind| match kind {
            Kind::Read { .. } => Mode::Shared,
            Kind::Permit { .. } => Mode::Permits,
            _ => Mode::Exclusive,
        };
        Some(Snapshot {
            name: name.clone(),
            family,
            unread: None,
            holders: self
                .holders
                .iter()
                .map(|h| Holder {
                    id: h.id.to_string(),
                    mode: mode(&h.kind),
                    holds: if let Kind::Permit { n, .. } = h.kind { n } else { h.holds },
                    fence: Some(Fence(h.fence)),
                    left: Some(h.expiry.left(now)),
                    since: Some(h.since),
                    note: h.note.as_deref().map(str::to_owned),
                    host: Some(h.process.host.clone()),
                    pid: Some(h.process.pid),
                    foreign: false,
                })
                .collect(),
            waiters: self
                .waiters
                .iter()
                .map(|w| Waiter {
                    id: w.id.to_string(),
                    mode: mode(&w.kind),
                    since: Some(w.since),
                    note: w.note.as_deref().map(str::to_owned),
                    host: Some(w.process.host.clone()),
                    pid: Some(w.process.pid),
                    foreign: false,
                })
                .collect(),
            fence: (self.fence > 0).then_some(Fence(self.fence)),
            size: self.size,
            count: self.count.as_ref().map(|c| c.value),
        })
    }
}
