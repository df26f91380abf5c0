//! The border between the core and a store: seven verbs, and what is asked for is data.
//!
//! Three rules hold for every backend and for the core above it:
//!
//! 1. **Dead id.** An id whose release has been sent is never tried again. So no late, repeated or reordered command
//!    of an old hold can touch a new one.
//! 2. **Same lane.** An *unanswered* attempt is undone on the same connection behind it; if that connection died, on
//!    the new one, repeated until confirmed or until one lease has passed. An *answered* claim may be released from
//!    anywhere. It is the backend that knows its connections: a `release` of an id whose attempt it has not answered
//!    yet goes behind that attempt.
//! 3. **Never shorten.** No command shortens the time that a hold has left.

mod background;
mod claim;
mod clock;
mod counter;
mod deadlock;
mod doubt;
mod error;
mod finding;
mod info;
mod name;
mod owner;
mod snapshot;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::background::Background;
pub(crate) use self::background::run_on;
pub use self::claim::{Claim, ClientId, Durability, Family, Fence, HeldBy, HoldId, Kind, OpId, Process};
pub use self::clock::{Clock, Drift, Time, wall_micros};
pub use self::counter::{CountOp, CountReply, Counter};
pub use self::deadlock::{Deadlock, Link};
pub use self::doubt::Doubt;
pub use self::error::{Error, Lost, LostReason, Result};
pub use self::finding::{Finding, Level};
pub use self::info::{Info, Liveness};
pub use self::name::Name;
pub use self::owner::Owner;
pub use self::snapshot::{Holder, Mode, Query, Snapshot, Waiter};

/// A store, as the core sees it. It knows nothing of guards, owners, deadlines or metrics.
///
/// Each call ends within a time limit of the backend's own. An error says whether the call was certainly not executed
/// (`Unavailable`) or may have been (`Unknown`).
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What this store is and can do.
    fn info(&self) -> &Info;

    /// One attempt, no waiting.
    ///
    /// - `claim.holds == 1`: may create the hold. Repeating it with the same id finds the first grant, with its fence,
    ///   never a second one.
    /// - `claim.holds > 1`: a re-entry. Writes the count and extends where the id is held, else answers `Gone`.
    /// - A busy answer to a claim with `wait` gives it a place among the waiters, or stamps the place that it has.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;

    /// Signals for `interest` in `name`, none missed from the moment this returns.
    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>>;

    /// Proves and extends many holds, and stamps many waiters, at once. Answers in the order of the claims. Writes no
    /// counts, creates nothing.
    ///
    /// A hold whose claim has a lease of zero is only proved: its time neither grows nor shrinks, and the `until` of
    /// the answer means nothing.
    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>>;

    /// Leaves, whether holding or waiting; or, where the owner stays inside `left` times, only writes that count.
    /// Either only for the claim's own id. Repeating it is harmless and answers `Gone`.
    async fn release(&self, claim: &Claim, left: u32) -> Result<Released>;

    /// Reads or changes a plain number, once per `id`.
    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply>;

    /// Which part of the store keeps `name`, where it has parts that fail one by one. Each is renewed by itself.
    fn shard(&self, _name: &Name) -> usize {
        0
    }

    /// Holders and waiters, for people.
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>>;

    /// Takes `name` from a holder of another library, which goes by words of its own, and tells all who wait.
    async fn expel(&self, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        let _ = kind;
        Err(Error::Unsupported {
            backend: self.info().scheme,
            what: format!("taking {name} from {holder}"),
            reason: "this store is not shared with other libraries".to_owned(),
        })
    }

    /// Asks those who hold `name`, and so keep out a claim of this kind, to give way. Whether anybody was asked.
    /// Nobody is made to.
    async fn revoke(&self, name: &Name, kind: Kind) -> Result<bool> {
        let _ = kind;
        Err(self.info().no_revocation(name))
    }

    /// Signals when somebody asks the holder of `claim` to give way; also what was asked before this returns.
    async fn revoked(&self, claim: &Claim) -> Result<Box<dyn Watch>> {
        Err(self.info().no_revocation(&claim.name))
    }

    /// Looks whether the store is set up such that promises can be kept, for people. An error when it cannot be
    /// reached at all.
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// The last call of a client that closes, after which the process may end: waits for at most `within` until the store
    /// has confirmed what this backend still does in the background, and ends what servers would keep for a while after
    /// the process has gone, such as a session, unless something is still held or waited for by way of it. Whoever comes
    /// later begins anew.
    ///
    /// # Errors
    /// `Unknown` when something was still to be confirmed by then.
    async fn close(&self, within: Duration) -> Result<()> {
        let _ = within;
        Ok(())
    }
}

/// The answer to an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// It is held.
    Granted {
        /// Its fence, where the store has one.
        fence: Option<Fence>,
        /// Until when it is valid, drift taken off.
        until: Time,
    },
    /// Others are in the way.
    Busy {
        /// When the first of them goes by itself, if that is known.
        retry_after: Option<Duration>,
        /// One of them that goes first, where the store says so: a holder, or a waiter ahead.
        behind: Option<HoldId>,
        /// Its position in the store's queue, for a claim of a queued kind that waits there. Lower is earlier. It never
        /// changes while the claim stays in the queue, so positions of one name can be compared at any time.
        position: Option<u64>,
    },
    /// A re-entry found its hold gone.
    Gone,
}

/// The answer to a renewal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewal {
    /// Still held.
    Held {
        /// Until when, drift taken off.
        until: Time,
    },
    /// Still waiting, its place stamped.
    Queued,
    /// Neither held nor waiting.
    Gone,
    /// Nobody knows: to be asked again. Others that were asked with it have their answers.
    Unanswered,
}

/// The answer to a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Released {
    /// It was there, and is not any more (or its count was written).
    Freed,
    /// There was nothing of this id.
    Gone,
}

/// What a watch is about.
#[derive(Clone, Copy, Debug)]
pub enum Interest<'a> {
    /// A waiting claim: signals when it might be granted.
    Claim(&'a Claim),
    /// The number of a latch or counting semaphore.
    Count(ClientId, Counter),
    /// Who holds it.
    Holder(ClientId),
}

/// A stream of signals.
#[async_trait]
pub trait Watch: Send + Sync {
    /// The next signal. Safe to drop and call again: no signal is lost. A watch that broke signals `Changed`, so that
    /// everyone looks again.
    async fn signal(&mut self) -> Signal;
}

/// What a watch tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Something changed: look again. A hint, which may be lost or come for nothing.
    Changed,
    /// The latch opened, whatever its count says now.
    Open,
}
