//! Who is admitted: one rule, over a summary of the holders and of the waiters ahead.

use crate::backend::{HoldId, Kind};

/// Summary of what blocks the next claim: the holders, and the waiters ahead of it. With a summary a long queue is
/// scanned once, and not once for each waiter in it.
///
/// Plain locks, elections and permits are blocked by holders only; fair locks also by fair waiters, reads and writes
/// also by each other's waiters, so that a stream of readers does not starve a writer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InTheWay {
    pub(super) holder: Option<HoldId>,
    /// A holder that does not share.
    pub(super) exclusive: Option<HoldId>,
    pub(super) used: u64,
    pub(super) waiter: Option<HoldId>,
    pub(super) fair: Option<HoldId>,
    pub(super) writer: Option<HoldId>,
}

impl InTheWay {
    pub(super) fn inside(&mut self, id: HoldId, kind: &Kind) {
        self.holder.get_or_insert(id);
        match kind {
            Kind::Read { .. } => {}
            Kind::Permit { n, .. } => self.used += u64::from(*n),
            Kind::Lock | Kind::FairLock | Kind::Leader | Kind::Write => {
                self.exclusive.get_or_insert(id);
            }
        }
    }

    pub(super) fn ahead(&mut self, id: HoldId, kind: &Kind) {
        self.waiter.get_or_insert(id);
        match kind {
            Kind::FairLock => drop(self.fair.get_or_insert(id)),
            Kind::Write => drop(self.writer.get_or_insert(id)),
            _ => {}
        }
    }

    /// Checks whether `kind` is granted. The error is the first one that blocks it; `None` if only the size does.
    pub(super) fn admits(&self, kind: &Kind, size: u32) -> std::result::Result<(), Option<HoldId>> {
        let in_the_way = match kind {
            Kind::Lock | Kind::Leader => self.holder,
            Kind::FairLock => self.holder.or(self.fair),
            Kind::Read { .. } => self.exclusive.or(self.writer),
            Kind::Write => self.holder.or(self.waiter),
            Kind::Permit { n, .. } if self.used + u64::from(*n) <= u64::from(size) => None,
            Kind::Permit { .. } => return Err(self.holder),
        };
        in_the_way.map_or(Ok(()), |id| Err(Some(id)))
    }

    /// Returns the waiter that blocks `kind`.
    pub(super) fn waiter_ahead_of(&self, kind: &Kind) -> Option<HoldId> {
        match kind {
            Kind::FairLock => self.fair,
            Kind::Read { .. } => self.writer,
            Kind::Write => self.waiter,
            Kind::Lock | Kind::Leader | Kind::Permit { .. } => None,
        }
    }

    /// Whether every later waiter is blocked, whatever its kind. Does not apply to permits.
    pub(super) fn blocks_all(&self) -> bool {
        self.exclusive.is_some() || self.writer.is_some()
    }
}

/// Checks whether `kind` is granted next to `holders`, in a store with its own queue.
///
/// ```
/// # use tenure_core::backend::{ClientId, HoldId, Kind};
/// # use tenure_core::ledger::admits;
/// let reader = (HoldId { client: ClientId::new(), n: 1 }, Kind::Read { under_write: None });
/// let holders = || [(&reader.0, &reader.1)].into_iter();
/// assert_eq!(admits(&Kind::Read { under_write: None }, 0, holders()), Ok(()));
/// assert_eq!(admits(&Kind::Write, 0, holders()), Err(Some(reader.0)));
/// ```
///
/// # Errors
/// The first holder that blocks it; `None` if it is only the size of the semaphore.
pub fn admits<'a>(
    kind: &Kind,
    size: u32,
    holders: impl Iterator<Item = (&'a HoldId, &'a Kind)>,
) -> std::result::Result<(), Option<HoldId>> {
    let mut inside = InTheWay::default();
    holders.for_each(|(id, kind)| inside.inside(*id, kind));
    inside.admits(kind, size)
}
