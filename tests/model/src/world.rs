//! What is explored: how many clients, how often what may happen, how long things last.

use crate::rules::{Rule, Rules};

/// The bounds of a model, and its rules. A fault that may happen 0 times is not part of it.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// What it is called.
    pub name: &'static str,
    /// The rules that are followed.
    pub rules: Rules,
    /// The number of clients, at most 3.
    pub clients: u8,
    /// How many acquires each client begins, at most 3.
    pub acquires: u8,
    /// How many acquires are begun by all clients together.
    pub in_all: u8,
    /// How many requests and answers are under way at most.
    pub in_flight: usize,

    /// How many of the following faults happen, of all kinds together.
    pub faults: u8,
    /// How often a client stops waiting for an answer: it timed out, or the connection broke.
    pub unanswered: u8,
    /// How often a request arrives twice.
    pub repeats: u8,
    /// How often the clock of one client stands still for a tick.
    pub slow: u8,
    /// How often the store restarts with its memory or without.
    pub restarts: u8,
    /// How often the wall clock of the store is set back.
    pub set_back: u8,
    /// How often a client dies.
    pub deaths: u8,
    /// How often an owner enters its hold again.
    pub reentries: u8,
    /// How often the id of a hold is given to somebody outside of its client.
    pub named: u8,

    /// Whether promises hold in full that hold with an exception: see [`World::strict`].
    pub is_strict: bool,

    /// The lease of an acquire, in ticks.
    pub lease: u8,
    /// By how much validity is shorter than the lease.
    pub drift: u8,
    /// The lease of a re-entry.
    pub short: u8,

    /// Whether a client passes its hold on to a waiter of its own.
    pub hand_over: bool,
    /// The lease that such a waiter asks for.
    pub next_lease: u8,
    /// How often a hold may be passed on.
    pub turns: u8,
    /// How many fences an acquire reserves.
    pub range: u8,
}

impl World {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            rules: Rules::ALL,
            clients: 2,
            acquires: 2,
            in_all: 3,
            in_flight: 3,
            faults: 1,
            unanswered: 0,
            repeats: 0,
            slow: 0,
            restarts: 0,
            set_back: 0,
            deaths: 0,
            reentries: 0,
            named: 0,
            is_strict: false,
            lease: 3,
            drift: 1,
            short: 1,
            hand_over: false,
            next_lease: 3,
            turns: 0,
            range: 1,
        }
    }

    /// Requests and answers are late, lost, repeated and reordered, clients pause and die.
    pub const fn network() -> Self {
        Self { faults: 2, unanswered: 2, repeats: 1, slow: 1, deaths: 1, ..Self::new("network") }
    }

    /// The store restarts with its memory or without, and its wall clock is set back.
    pub const fn restart() -> Self {
        Self { restarts: 1, set_back: 1, unanswered: 1, ..Self::new("restart") }
    }

    /// An owner enters its hold again with a shorter lease.
    pub const fn reentry() -> Self {
        Self { reentries: 1, unanswered: 1, slow: 1, ..Self::new("re-entry") }
    }

    /// A client passes its hold on to a waiter of its own.
    pub const fn hand_over() -> Self {
        Self {
            hand_over: true,
            lease: 4,
            next_lease: 3,
            turns: 1,
            range: 2,
            unanswered: 1,
            slow: 1,
            ..Self::new("hand-over")
        }
    }

    /// A client passes its hold on to a waiter of its own, and others have to do with the hold: its owner enters it
    /// again, somebody outside knows its id.
    pub const fn hand_over_shared() -> Self {
        Self { reentries: 1, named: 1, faults: 0, ..Self::hand_over_restart() }.called("hand-over, shared")
    }

    /// A client passes its hold on to a waiter of its own, and the store restarts.
    pub const fn hand_over_restart() -> Self {
        Self {
            hand_over: true,
            next_lease: 2,
            turns: 1,
            range: 2,
            restarts: 1,
            ..Self::new("hand-over, restart")
        }
    }

    const fn called(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The worlds that the tests explore.
    pub const ALL: [Self; 6] = [
        Self::network(),
        Self::restart(),
        Self::reentry(),
        Self::hand_over(),
        Self::hand_over_shared(),
        Self::hand_over_restart(),
    ];

    /// Makes no exception for an attempt on a broken connection that is executed after another attempt with its id was
    /// granted and released, nor for the fence of a forgotten hold that is passed on.
    #[must_use]
    pub const fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Takes a rule out.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self { rules: self.rules.without(rule), ..self }
    }

    /// Whether a rule is followed.
    pub fn has(&self, rule: Rule) -> bool {
        self.rules.has(rule)
    }

    /// How long a guard counts on a hold of this lease, from when it was asked for.
    pub fn validity(&self, lease: u8) -> u8 {
        if self.has(Rule::Drift) { lease - self.drift } else { lease }
    }
}
