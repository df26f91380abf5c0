//! The queue of a recipe: its children in order, and which of them block a claim.
//!
//! The order is that of the sequence numbers. Nodes that no recipe creates are ignored; Curator would wait for some of
//! them, but ignoring them admits nobody wrongly.

use std::cmp::Ordering;
use std::sync::OnceLock;

use tenure_core::ledger::{admits, in_use};
use tenure_core::{ClientId, Family, HoldId, Kind, Name, Result};

use crate::recipe::node::{Child, Marker};
use crate::recipe::path::COUNTERS;

/// The children of a recipe, in order.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) children: Vec<Child>,
    /// Whether there is a ledger beside them: the name may be a semaphore, a latch or a count.
    pub(crate) has_ledger: bool,
    /// The families of the children.
    families: Vec<Family>,
    /// The children that this library made and no claim of this process has, when that was first asked.
    strangers: OnceLock<Vec<(usize, HoldId)>>,
}

impl Queue {
    pub(crate) fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut has_ledger = false;
        let parse = |name: S| {
            let name = name.into();
            has_ledger |= name == COUNTERS;
            Child::parse(name)
        };
        let mut children: Vec<Child> = names.into_iter().filter_map(parse).collect();
        children.sort_by(order);
        let mut families = Vec::new();
        for family in children.iter().map(Child::family) {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        Self { children, has_ledger, families, strangers: OnceLock::new() }
    }

    /// The position of the child with this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let sought = Child::parse(name)?;
        // Around an overflow of the counter the order has no beginning.
        let found = self.children.binary_search_by(|child| order(child, &sought)).ok();
        found.or_else(|| self.children.iter().position(|c| c.name == name))
    }

    /// The node that blocks the one at `at`: the nearest of those that do, which is to be watched. It is the last of
    /// them to go unless it gives up, so one release wakes one waiter.
    pub(crate) fn blocker(&self, at: usize, kind: &Kind) -> Option<&Child> {
        let ahead = self.children.get(..at)?;
        let nearest = match kind {
            Kind::Read { .. } => ahead.iter().rev().find(|c| c.marker == Marker::Write),
            _ => ahead.last(),
        }?;
        let holder = (HoldId::NONE, nearest.kind());
        admits(kind, 0, [(&holder.0, &holder.1)].into_iter()).err().map(|_| nearest)
    }

    /// Whether the node at `at`, which one blocks, is first once that one is deleted: none is ahead of it then, and none
    /// comes ahead of it. A writer may have reads of its owner beside it, which come while it holds.
    pub(crate) fn has_one_blocker(&self, at: usize, kind: &Kind) -> bool {
        match kind {
            Kind::Write => false,
            Kind::Read { .. } => {
                self.children.iter().take(at).filter(|child| child.marker == Marker::Write).count() == 1
            }
            _ => at == 1,
        }
    }

    /// Whether there is one node, and nothing else of a recipe.
    pub(crate) fn is_alone(&self) -> bool {
        self.children.len() == 1 && !self.has_ledger
    }

    /// Nodes of the same client ahead of the one at `at`, in order.
    pub(crate) fn holds_ahead(&self, at: usize, client: ClientId) -> impl Iterator<Item = HoldId> {
        self.children.iter().take(at).filter_map(Child::id).filter(move |id| id.client == client)
    }

    /// Nodes of this client ahead of the one at `at` that no claim has.
    pub(crate) fn strangers_ahead(
        &self,
        at: usize,
        client: ClientId,
        is_known: impl Fn(HoldId) -> bool,
    ) -> impl Iterator<Item = &Child> {
        let strangers = self.strangers.get_or_init(|| {
            let made_here = |(at, child): (usize, &Child)| Some((at, child.id()?));
            let ids = self.children.iter().enumerate().filter_map(made_here);
            ids.filter(|(_, id)| !is_known(*id)).collect()
        });
        let ahead = strangers.iter().take_while(move |(i, _)| *i < at);
        ahead
            .filter(move |(_, id)| id.client == client && !is_known(*id))
            .filter_map(|(i, _)| self.children.get(*i))
    }

    /// How many nodes at the front hold the lock.
    pub(crate) fn holder_count(&self) -> usize {
        let (mut inside, mut writer) = (0, None);
        for child in &self.children {
            match child.marker {
                // A writer's own reads have its sequence number.
                Marker::Read if writer.is_none_or(|w| w == child.sequence) => {}
                _ if inside == 0 => writer = (child.marker != Marker::Read).then_some(child.sequence),
                _ => break,
            }
            inside += 1;
        }
        inside
    }

    /// Refuses a name that is in use as another kind.
    pub(crate) fn check_family(&self, name: &Name, family: Family) -> Result<()> {
        let wanted = merge_fair(family);
        match self.families.iter().find(|used| merge_fair(**used) != wanted) {
            None => Ok(()),
            Some(used) => Err(in_use(name, *used, family)),
        }
    }
}

/// Locks and fair locks are the same here.
fn merge_fair(family: Family) -> Family {
    if family == Family::Fair { Family::Lock } else { family }
}

impl Child {
    pub(crate) fn family(&self) -> Family {
        match self.marker {
            Marker::Lock => Family::Lock,
            Marker::Latch => Family::Leader,
            Marker::Read | Marker::Write => Family::ReadWrite,
            Marker::Lease => Family::Permit,
        }
    }

    /// Whether it does not block a claim of this kind.
    pub(crate) fn shares_with(&self, kind: &Kind) -> bool {
        self.marker == Marker::Read && matches!(kind, Kind::Read { .. })
    }

    fn kind(&self) -> Kind {
        match self.marker {
            Marker::Read => Kind::Read { under_write: None },
            Marker::Write => Kind::Write,
            Marker::Latch => Kind::Leader,
            Marker::Lock | Marker::Lease => Kind::Lock,
        }
    }
}

/// By sequence number, also after the counter has overflowed. A writer sorts before its own reads, which have its
/// number.
fn order(a: &Child, b: &Child) -> Ordering {
    let reads = |c: &Child| c.marker == Marker::Read;
    let by_number = a.sequence.wrapping_sub(b.sequence).cmp(&0);
    by_number.then_with(|| reads(a).cmp(&reads(b))).then_with(|| a.name.cmp(&b.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(names: &[&str]) -> Queue {
        Queue::new(names.iter().copied())
    }

    fn behind(queue: &Queue, name: &str, kind: Kind) -> Option<String> {
        let at = queue.position(name).unwrap();
        queue.blocker(at, &kind).map(|c| c.name.clone())
    }

    const READ: Kind = Kind::Read { under_write: None };

    #[test]
    fn each_node_waits_for_its_predecessor() {
        let q = queue(&["b-lock-0000000002", "foo", "-x", "c-lock-0000000010", "a-lock-0000000001"]);
        assert_eq!(behind(&q, "a-lock-0000000001", Kind::Lock), None);
        assert_eq!(behind(&q, "b-lock-0000000002", Kind::Lock).unwrap(), "a-lock-0000000001");
        assert_eq!(behind(&q, "c-lock-0000000010", Kind::FairLock).unwrap(), "b-lock-0000000002");
        assert_eq!(q.holder_count(), 1);
    }

    #[test]
    fn readers_wait_for_writers_only() {
        let q = queue(&[
            "a-__READ__0000000001",
            "b-__READ__0000000002",
            "c-__WRIT__0000000003",
            "d-__READ__0000000004",
            "e-__WRIT__0000000005",
            "f-__READ__0000000006",
        ]);
        assert_eq!(behind(&q, "b-__READ__0000000002", READ), None);
        assert_eq!(behind(&q, "c-__WRIT__0000000003", Kind::Write).unwrap(), "b-__READ__0000000002");
        assert_eq!(behind(&q, "d-__READ__0000000004", READ).unwrap(), "c-__WRIT__0000000003");
        assert_eq!(behind(&q, "f-__READ__0000000006", READ).unwrap(), "e-__WRIT__0000000005");
        assert_eq!(q.holder_count(), 2);
    }

    #[test]
    fn a_read_under_write_shares_the_position_of_the_writer() {
        let q = queue(&["r-__READ__0000000001", "w-__WRIT__0000000001", "x-__READ__0000000002"]);
        assert_eq!(q.holder_count(), 2);
        assert_eq!(behind(&q, "x-__READ__0000000002", READ).unwrap(), "w-__WRIT__0000000001");
        let left = queue(&["r-__READ__0000000001", "x-__READ__0000000002", "y-__WRIT__0000000003"]);
        assert_eq!(left.holder_count(), 2);
        assert_eq!(behind(&left, "x-__READ__0000000002", READ), None);
    }

    #[test]
    fn only_the_last_blocker_clears_the_way() {
        let q = queue(&["a-lock-0000000001", "b-lock-0000000002", "c-lock-0000000003"]);
        assert!(q.has_one_blocker(1, &Kind::Lock) && !q.has_one_blocker(2, &Kind::Lock));
        let q = queue(&["w-__WRIT__0000000001", "x-__READ__0000000002", "y-__READ__0000000003"]);
        assert!(q.has_one_blocker(1, &READ) && q.has_one_blocker(2, &READ));
        let q = queue(&["v-__WRIT__0000000001", "w-__WRIT__0000000002", "x-__READ__0000000003"]);
        assert!(!q.has_one_blocker(2, &READ), "the first one is still there");
        assert!(!q.has_one_blocker(1, &Kind::Write), "the first one may read until after its release");
    }

    #[test]
    fn the_order_survives_a_counter_overflow() {
        let q = queue(&["b-lock--2147483648", "a-lock-2147483647", "c-lock--2147483647"]);
        assert_eq!(q.children.iter().map(|c| &c.name[..1]).collect::<String>(), "abc");
        assert_eq!(behind(&q, "b-lock--2147483648", Kind::Lock).unwrap(), "a-lock-2147483647");
    }

    #[test]
    fn a_name_in_use_as_another_family_is_refused() {
        let name = Name::new("x").unwrap();
        let q = queue(&["a-lock-0000000001"]);
        q.check_family(&name, Family::Fair).unwrap();
        let error = q.check_family(&name, Family::ReadWrite).unwrap_err().to_string();
        assert!(error.contains("x is in use as a lock") && error.contains("read/write lock"), "{error}");
    }
}
