//! The interface between the core and a store: six operations that a store must have, and three methods that it may
//! override; what is requested is data. What is for people is a second, optional trait, [`Admin`].
//!
//! Three rules apply to every backend and to the core above it:
//!
//! 1. **Dead id.** An id whose release has been sent is never tried again, so no late, repeated or reordered command
//!    of an old hold can affect a new one.
//! 2. **Same lane.** An *unanswered* attempt is undone on the same connection, after it. If that connection died, the
//!    undo is sent on a new one and repeated until it is confirmed or one lease has passed. An *answered* claim may be
//!    released from any connection. The backend enforces this, because only it knows its connections: it sends a
//!    `release` of an id whose attempt it has not answered yet after that attempt.
//! 3. **Never shorten.** No command shortens the remaining time of a hold.

mod admin;
mod background;
mod backoff;
mod claim;
mod clock;
mod counter;
mod credentials;
mod deadlock;
mod environment;
mod error;
mod finding;
mod info;
mod name;
mod owner;
mod sizes;
mod snapshot;
mod suspicion;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::admin::Admin;
pub use self::background::Background;
pub use self::backoff::{Backoff, jittered, random};
pub use self::claim::{Claim, ClientId, Durability, Family, Fence, HeldBy, HoldId, Kind, OpId, Process};
pub use self::clock::{Clock, Drift, Time, wall_micros};
pub use self::counter::{CountOp, CountReply, Counter};
pub use self::credentials::{LoginCallback, Secret};
pub use self::deadlock::{Deadlock, Link};
pub use self::environment::{Chance, Environment};
pub use self::error::{Cause, Error, Lost, LostReason, Reason, Result};
pub use self::finding::{Finding, Level};
pub use self::info::{Info, Liveness};
pub use self::name::Name;
pub use self::owner::Owner;
pub use self::sizes::SizeWarnings;
pub use self::snapshot::{Holder, Mode, Query, Snapshot, Waiter};
pub use self::suspicion::Suspicion;

/// A store as the core sees it, without any concept of guards, owners, deadlines or metrics.
///
/// Each call ends within a timeout of the backend's own. An error tells whether the call was certainly not executed
/// (`Unavailable`) or may have been (`Unknown`).
///
/// A store that passes every call on to another one, and prints the attempts:
///
/// ```
/// # use tenure_core as tenure;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use async_trait::async_trait;
/// use tenure::backend::*;
///
/// #[derive(Debug)]
/// struct Printed(Arc<dyn Backend>);
///
/// #[async_trait]
/// impl Backend for Printed {
///     fn info(&self) -> &Info {
///         self.0.info()
///     }
///
///     async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
///         let answer = self.0.try_acquire(claim).await;
///         println!("{} for {}: {answer:?}", claim.name, claim.id);
///         answer
///     }
///
///     async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
///         self.0.watch(name, interest).await
///     }
///
///     async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
///         self.0.renew(claims).await
///     }
///
///     async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
///         self.0.release(claim, left).await
///     }
///
///     async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
///         self.0.count(name, counter, op, id).await
///     }
///
///     // A store may leave out the following.
///     fn shard(&self, name: &Name) -> usize {
///         self.0.shard(name)
///     }
///
///     fn admin(&self) -> Option<&dyn Admin> {
///         self.0.admin()
///     }
///
///     async fn close(&self, within: Duration) -> Result<()> {
///         self.0.close(within).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let client = tenure::Client::new(Printed(Arc::new(tenure::Memory::new())));
/// client.lock("orders/42").acquire().await?.release().await
/// # }
/// ```
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Returns the properties and capabilities of the store.
    fn info(&self) -> &Info;

    /// Makes one attempt, without waiting.
    ///
    /// - `claim.holds == 1`: may create the hold. Idempotent: a repeat with the same id returns the first grant and its
    ///   fence, and never creates a second one.
    /// - `claim.holds > 1`: a re-entry. Writes the count and extends the hold if the id is held, otherwise answers
    ///   `Gone`.
    /// - A busy answer to a claim with `wait` adds it to the queue of waiters, or refreshes its queue position.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;

    /// Subscribes to signals about `interest` in `name`. No signal is missed once this has returned.
    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>>;

    /// Verifies and extends many holds, and refreshes the queue positions of many waiters, in one call. Answers in the
    /// order of the claims. Writes no counts, creates nothing.
    ///
    /// A hold whose claim has a lease of zero is only verified: its remaining time does not change, and the `until` of
    /// the answer is meaningless.
    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>>;

    /// Removes the claim, whether it holds or waits; if `left` is not zero, the owner still has that many entries and
    /// only the count is written. Affects only the claim's own id. Idempotent: a repeat answers `Gone`.
    async fn release(&self, claim: &Claim, left: u32) -> Result<Released>;

    /// Reads or changes a number, once per `id`.
    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply>;

    /// Returns the shard that stores `name`, where shards can fail independently. Each shard is renewed separately.
    fn shard(&self, _name: &Name) -> usize {
        0
    }

    /// Returns the administration of the store, where it has one.
    fn admin(&self) -> Option<&dyn Admin> {
        None
    }

    /// The last call of a client that closes, after which the process may end. Waits at most `within` until the store
    /// has confirmed the backend's background work, and closes what servers would keep after the process has ended,
    /// such as a session, unless it still carries a hold or a waiter. A later call starts from scratch.
    ///
    /// # Errors
    /// `Unknown` when something was still unconfirmed by then.
    async fn close(&self, within: Duration) -> Result<()> {
        let _ = within;
        Ok(())
    }
}

/// The answer to an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Attempt {
    /// It is held.
    Granted {
        /// Its fence, where the store has one.
        fence: Option<Fence>,
        /// The end of its validity, with drift subtracted.
        until: Time,
        /// How often the client may pass it on without asking: for each time the store has reserved the next fence, at
        /// most as many as the claim wants ([`Claim::reserve`]), or has no fences. 0 where it reserves none.
        spare: u32,
    },
    /// Others hold it or are ahead in the queue.
    Busy {
        /// When the first of them expires by itself, if known.
        retry_after: Option<Duration>,
        /// A holder or waiter that comes first, where the store reports one.
        behind: Option<HoldId>,
        /// The position in the store's queue, for a claim of a queued kind that waits there. Lower is earlier. It does
        /// not change while the claim is in the queue, so positions of one name can be compared at any time.
        position: Option<u64>,
    },
    /// The hold to re-enter no longer exists.
    Gone,
}

/// The answer to a renewal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Renewal {
    /// Still held.
    Held {
        /// The new end of its validity, with drift subtracted.
        until: Time,
    },
    /// Still waiting; its queue position has been refreshed.
    Queued,
    /// Neither held nor waiting.
    Gone,
    /// Not known, ask again. Other claims of the same call have their answers.
    Unanswered,
}

/// The answer to a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Released {
    /// It existed and was removed, or its count was written.
    Freed,
    /// Nothing with this id existed.
    Gone,
}

/// The subject of a watch.
#[derive(Clone, Copy, Debug)]
pub enum Interest<'a> {
    /// A waiting claim: signals when it might be granted.
    Claim(&'a Claim),
    /// The number of a latch or counting semaphore.
    Count(ClientId, Counter),
    /// The current holder.
    Holder(ClientId),
}

/// A stream of signals about a name.
///
/// ```
/// # use tenure_core as tenure;
/// use tenure::backend::{Interest, Name, Signal};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let name = Name::new("cron")?;
/// let mut watch = client.backend().watch(&name, Interest::Holder(client.id())).await?;
/// let leadership = client.election("cron").campaign().await?;
/// assert_eq!(watch.signal().await, Signal::Changed);
/// # leadership.release().await }
/// ```
#[async_trait]
pub trait Watch: Send + Sync {
    /// Returns the next signal. Cancel safe: no signal is lost. A broken watch signals `Changed`, so that its users
    /// check the state again.
    async fn signal(&mut self) -> Signal;
}

/// A signal of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Something changed: check again. A hint that may be lost or spurious.
    Changed,
    /// The latch has opened, whatever its count is now.
    Open,
    /// The watched claim was granted within the release of another.
    Granted {
        /// [`Claim::watched`] of the last attempt before that: it was granted after that attempt.
        attempt: u64,
        /// The fence of the grant, if the store has one.
        fence: Option<Fence>,
        /// How long it lasts without renewal, from then on.
        lease: Duration,
    },
}
