//! A simulated lock store, so that the checks can fail: clients, a network that loses, delays and repeats, pauses, deaths
//! and restarts, on virtual time, from a seed.
//!
//! It is a small model of Tenure's protocol: hold ids, attempts that may be repeated, absolute counts, ids that are dead
//! once they were released, validity that is counted from the sending of the attempt that was answered. The second
//! protocol is the lock that is written by hand, with `SET NX PX` and a script that compares and deletes. Both are right
//! as they are, and wrong in one [`Bug`] at a time.

mod client;
mod server;
mod world;

pub use world::{Simulated, simulate};

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A release frees whoever has the name.
    ReleaseWithoutOwner,
    /// An attempt that is repeated because its reply was lost counts as one more entry.
    AcquireCountsTwice,
    /// A renewal that arrives too late makes the hold again, and the client believes it.
    RenewalRevives,
    /// The last fence is forgotten with the hold.
    FenceGoesBack,
    /// Whoever asks first gets a free fair lock.
    QueueSkips,
    /// A release wakes nobody, and nobody asks again by himself.
    WakeUpLost,
    /// The head of a fair queue is waited for although it is dead.
    WakingTheDead,
    /// The lock has no TTL.
    NoTtl,
    /// The lock and its TTL are set by two commands.
    TtlInTwoSteps,
    /// All write the same value, so that a release deletes the lock of anybody.
    OneValueForAll,
    /// The release reads, compares and deletes in three steps.
    CompareThenDelete,
}

impl Bug {
    fn is_written_by_hand(self) -> bool {
        matches!(self, Self::NoTtl | Self::TtlInTwoSteps | Self::OneValueForAll | Self::CompareThenDelete)
    }
}

/// How clients talk to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// As Tenure does.
    Tenure,
    /// As a lock does that is written by hand.
    ByHand,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// How clients talk to the store.
    pub protocol: Protocol,
    /// The mistake, if any.
    pub bug: Option<Bug>,
    /// Whether the server may also come back without its data.
    pub forgets: bool,
}

impl Scenario {
    /// Without a mistake.
    ///
    /// ```
    /// use checker::sim::{Protocol, Scenario, simulate};
    /// use checker::{Expectations, check};
    ///
    /// let simulated = simulate(7, Scenario::right(Protocol::Tenure));
    /// let run = simulated.history.run().unwrap();
    /// assert!(check(&simulated.history, &Expectations::of_run(run)).is_good());
    /// ```
    pub fn right(protocol: Protocol) -> Self {
        Self { protocol, bug: None, forgets: false }
    }

    /// With this mistake, in the protocol in which it is usual.
    pub fn with(bug: Bug) -> Self {
        let protocol = if bug.is_written_by_hand() { Protocol::ByHand } else { Protocol::Tenure };
        Self { bug: Some(bug), ..Self::right(protocol) }
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

const MS: u64 = 1_000_000;
/// The settings of the simulated store.
const LEASE: u64 = 1_000 * MS;
const POLL: u64 = 200 * MS;
const CALL_TIMEOUT: u64 = 100 * MS;
/// The margin for clocks, which are equal here.
const DRIFT: u64 = 12 * MS;
/// How long a history is.
const LENGTH: u64 = 12_000 * MS;
