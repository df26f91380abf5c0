//! What is promised on which store under which fault: the table in `docs/guarantees.md`, as data.

mod render;
mod table;

use std::fmt;

pub use render::{BEGIN, END, insert, table};

use crate::fault::Class;
use crate::run::{Store, Timing};

/// What keeps two holders apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Safety {
    /// At most one guard reports held at any time; fences grow where the store has them.
    Exclusion,
    /// Two guards may both report held for a while; fences grow, so that a resource can tell. Overlaps are counted and
    /// shown.
    Fences,
    /// Two guards may both report held for a while, and no fence helps. Overlaps are counted and shown.
    Nothing,
}

impl Safety {
    fn letter(self) -> &'static str {
        match self {
            Self::Exclusion => "E",
            Self::Fences => "F",
            Self::Nothing => "O",
        }
    }
}

/// How long a waiter that runs may wait for a name that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// The name is free only once the lease of a holder that is gone has ended; its session, where there are sessions.
    pub after_lease: bool,
    /// Poll caps from then on: one for a lost wake-up, three more for the queue positions of waiters that are gone.
    pub polls: u32,
    /// A quorum lets its restarted nodes wait first.
    pub restart_delay: bool,
}

impl Liveness {
    /// Without any fault.
    pub const CALM: Self = Self { after_lease: false, polls: 1, restart_delay: false };

    /// The longest time for which a free name may stand while somebody waits, without [`Timing::slack`]. The time until
    /// it is free is not part of it.
    ///
    /// ```
    /// use checker::{Liveness, Timing};
    ///
    /// let timing = Timing { poll: 2_000, ..Timing::default() };
    /// assert_eq!(Liveness::CALM.bound(&timing), 2_000);
    /// ```
    pub fn bound(self, timing: &Timing) -> u64 {
        let delay = if self.restart_delay { timing.restart_delay } else { 0 };
        timing.poll * u64::from(self.polls) + delay
    }
}

/// What is promised on one store under one class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What keeps two holders apart.
    pub safety: Safety,
    /// The same where the fault hits most nodes of a quorum or an ensemble, or the only one.
    pub safety_of_most: Safety,
    /// Whether nothing is granted while the fault lasts.
    pub unavailable: bool,
    /// The same where it hits most nodes, or the only one.
    pub unavailable_of_most: bool,
    /// How long a waiter may wait for a free name, once the fault is healed.
    pub liveness: Liveness,
}

impl Cell {
    /// Exclusion is kept, and holds are granted all the time.
    pub(crate) const KEPT: Self = Self {
        safety: Safety::Exclusion,
        safety_of_most: Safety::Exclusion,
        unavailable: false,
        unavailable_of_most: false,
        liveness: Liveness::CALM,
    };

    /// What is promised on `store` under `class`; none if the class does not exist there.
    ///
    /// ```
    /// use checker::{Cell, Class, Safety, Store};
    ///
    /// let kept = Cell::of(Store::Redis, Class::RestartWithData).unwrap();
    /// assert_eq!((kept.safety, kept.unavailable), (Safety::Exclusion, true));
    /// assert_eq!(Cell::of(Store::Redis, Class::RestartEmpty).unwrap().safety, Safety::Fences);
    /// assert_eq!(Cell::of(Store::Memory, Class::Failover), None);
    /// ```
    pub fn of(store: Store, class: Class) -> Option<Self> {
        table::cell(store, class)
    }
}

/// As in the table, without the bound.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |safety: Safety, unavailable: bool| match unavailable {
            true => format!("{} U", safety.letter()),
            false => safety.letter().to_owned(),
        };
        let few = one(self.safety, self.unavailable);
        let most = one(self.safety_of_most, self.unavailable_of_most);
        if few == most { f.write_str(&few) } else { write!(f, "{few}; most nodes {most}") }
    }
}
