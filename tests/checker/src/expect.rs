//! What a history is judged by.

use crate::promise::{Cell, Liveness};
use crate::run::{Run, Store, Timing};

/// What a history is judged by: the store, whose promises the table has, and the times that they are counted in.
///
/// ```
/// use checker::{Expectations, Store};
///
/// let expected = Expectations::of(Store::Redlock).with_nodes(5);
/// assert_eq!(expected.majority(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// The store.
    pub store: Store,
    /// The servers of a quorum or an ensemble; 1 for all others.
    pub nodes: u32,
    /// The times of its settings.
    pub timing: Timing,
    /// How many who came later may be served before somebody who waits in a fair queue.
    pub overtakers: u32,
    /// Judges as if every class of faults had this cell.
    pub instead: Option<Cell>,
}

impl Expectations {
    /// What `store` promises, with the default settings.
    pub fn of(store: Store) -> Self {
        Self { store, nodes: 1, timing: Timing::default(), overtakers: 0, instead: None }
    }

    /// With this many servers.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// What the first event of a history says.
    pub fn of_run(run: &Run) -> Self {
        Self { nodes: run.nodes, timing: run.timing, ..Self::of(run.store) }
    }

    /// How many servers decide.
    pub fn majority(&self) -> u32 {
        self.nodes / 2 + 1
    }

    /// What is promised under `class`. A fault that the store cannot have must not matter to it.
    pub(crate) fn cell(&self, class: crate::Class) -> Cell {
        let kept = Cell { liveness: Liveness::CALM, ..Cell::KEPT };
        self.instead.or_else(|| Cell::of(self.store, class)).unwrap_or(kept)
    }
}
