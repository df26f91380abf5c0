//! What the kinds promise, as data that the checks read.
//!
//! | model | as what it is here |
//! | --- | --- |
//! | mutex with owners | [`Sharing::Exclusive`]: entries of different owners never overlap, those of one may |
//! | re-entrant | [`Model::reenters`]: an entry during another one of its owner belongs to that hold; one after a loss is a new hold |
//! | fenced, re-entrant fenced | [`Model::fenced`]: a hold has a larger fence than every earlier one, an entry the fence of its hold |
//! | leased | [`Acquire::lease`](crate::Acquire::lease): the guard says held for no longer than it; a detached hold blocks until its end |
//! | read/write | [`Sharing::ReadWrite`] |
//! | permits | [`Sharing::Permits`]: never more than the size |
//! | fair order | [`Model::ordered`]: nobody who comes later is served first |
//! | latch | calls of their own: [`Call::SetCount`](crate::Call::SetCount) and those after it |
//! | election | exclusive and fenced; the fence is the term, and no observer sees terms go back |
//! | quorum | exclusive, without a fence; nothing is granted while most [nodes](crate::Run::nodes) are down |

use crate::event::Kind;
use crate::run::Store;

/// Who may be inside together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One owner.
    Exclusive,
    /// One writer, or readers; an owner may read under its own write.
    ReadWrite,
    /// As many as the permits last for, each entry for itself.
    Permits,
}

/// The rules of a kind on a store.
///
/// ```
/// use checker::{Kind, Model, Sharing, Store};
///
/// let lock = Model::of(Kind::Lock, Store::Redis);
/// assert_eq!((lock.sharing, lock.reenters, lock.fenced, lock.ordered), (Sharing::Exclusive, true, true, false));
/// assert!(!Model::of(Kind::Lock, Store::Redlock).fenced);
/// assert!(Model::of(Kind::Fair, Store::Sqlite).ordered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Who may be inside together.
    pub sharing: Sharing,
    /// Whether an owner may enter again.
    pub reenters: bool,
    /// Whether each grant has a fence.
    pub fenced: bool,
    /// Whether those who come first are served first.
    pub ordered: bool,
}

impl Model {
    /// The rules of `kind` on `store`.
    pub fn of(kind: Kind, store: Store) -> Self {
        let sharing = match kind {
            Kind::Lock | Kind::Fair | Kind::Leader => Sharing::Exclusive,
            Kind::Read | Kind::Write => Sharing::ReadWrite,
            Kind::Permits { .. } => Sharing::Permits,
        };
        Self {
            sharing,
            reenters: sharing != Sharing::Permits,
            fenced: store.has_fences(),
            ordered: matches!(kind, Kind::Fair | Kind::Read | Kind::Write),
        }
    }
}
