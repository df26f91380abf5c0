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

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::{
    Claim, Clock, Doubt, Drift, Durability, Error, Family, Fence, Finding, HoldId, Kind, Name, OpId, Result,
    Time,
};

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

/// What a store is and can do.
#[derive(Clone, Debug)]
pub struct Info {
    /// The scheme of its address, and its name in errors.
    pub scheme: &'static str,
    /// What it serves; all else is [`Error::Unsupported`].
    pub families: &'static [Family],
    /// Why it does not serve the others, where there is more to say than that.
    pub refusals: &'static [(Family, &'static str)],
    /// Whether grants carry a fence.
    pub fenced: bool,
    /// Whether a holder may stand there by a word of its own: [`Claim::token`].
    pub tokens: bool,
    /// Whether it has copies, and can say how many of them have a grant: [`Claim::durability`].
    pub durable: bool,
    /// What keeps a holder alive.
    pub liveness: Liveness,
    /// The longest sleep of a waiter that hears nothing.
    pub poll: Duration,
    /// The clock on which this store says how long a grant is valid.
    pub clock: Clock,
    /// What it takes off each lease.
    pub drift: Drift,
    /// Raised by the backend when it finds that its server may have forgotten what it granted. Clients then prove all
    /// that they hold, and those who wait look again. A store that cannot forget never raises it.
    pub doubt: Doubt,
    /// How often a shared hold must be proved at least, where other libraries may cut short what carries it.
    pub shared_proof: Option<Duration>,
}

impl Info {
    /// `Unsupported` unless this store serves `family`.
    pub fn require(&self, family: Family) -> Result<()> {
        if self.families.contains(&family) {
            return Ok(());
        }
        let why = self.refusals.iter().find(|(refused, _)| *refused == family);
        let why = why.map_or_else(String::new, |(_, why)| format!("{why}; "));
        let article = if family == Family::Leader { "an" } else { "a" };
        Err(Error::Unsupported {
            backend: self.scheme,
            what: format!("{article} {family}"),
            reason: format!("{why}this store serves {}", list(self.families)),
        })
    }

    /// `Unsupported` unless a holder can stand there by this word; `Config` if it is none.
    pub fn require_token(&self, token: &str) -> Result<()> {
        const LONGEST: usize = 1024;
        if token.is_empty() || token.len() > LONGEST {
            return Err(Error::Config(format!(
                "a token of {} bytes: expected 1 to {LONGEST} bytes of text",
                token.len()
            )));
        }
        if self.tokens {
            return Ok(());
        }
        Err(Error::Unsupported {
            backend: self.scheme,
            what: "a token of the caller's own".to_owned(),
            reason: "holders stand there by the ids of their holds; on Redis, layout=plain has tokens"
                .to_owned(),
        })
    }

    /// `Unsupported` unless this store can wait for as many copies; `Config` for none at all.
    pub fn require_durability(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Master => Ok(()),
            Durability::Replicas(0) => {
                Err(Error::Config("durability replicas:0: at least one must be asked for, or master".into()))
            }
            Durability::Replicas(_) if self.durable => Ok(()),
            Durability::Replicas(_) => Err(Error::Unsupported {
                backend: self.scheme,
                what: format!("durability {durability}"),
                reason: "this store has no replicas that it could wait for".into(),
            }),
        }
    }

    fn no_revocation(&self, name: &Name) -> Error {
        Error::Unsupported {
            backend: self.scheme,
            what: format!("asking the holder of {name} to give way"),
            reason: "this store has no place for such a request; on ZooKeeper there is one".to_owned(),
        }
    }

    /// `Unsupported` where a hold cannot be extended without its guard.
    pub(crate) fn require_lease(&self, name: &Name) -> Result<()> {
        match self.liveness {
            Liveness::Lease => Ok(()),
            Liveness::Session => Err(Error::Unsupported {
                backend: self.scheme,
                what: format!("extending a hold of {name} by its id"),
                reason: "a hold lives there as long as the session that took it, and needs no renewal"
                    .to_owned(),
            }),
        }
    }

    pub(crate) fn unavailable(&self, what: impl fmt::Display, reason: impl fmt::Display) -> Error {
        Error::Unavailable {
            backend: self.scheme,
            what: what.to_string(),
            reason: reason.to_string(),
            retry_after: None,
        }
    }
}

fn list(families: &[Family]) -> String {
    families.iter().map(|f| format!("{f}s")).collect::<Vec<_>>().join(", ")
}

/// What keeps a holder alive in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// Each hold has a lease of its own.
    Lease,
    /// All holds of a client live and die with its session. A lease that was asked for is kept by the core: it
    /// releases the hold when that is over.
    Session,
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
    Count(crate::ClientId, Counter),
    /// Who holds it.
    Holder(crate::ClientId),
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

/// Which number of a name is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// A count-down latch: gone at zero.
    Latch,
    /// A counting semaphore.
    Semaphore,
    /// The size of a semaphore with recorded permits.
    Size,
}

/// What to do with a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountOp {
    /// Only read it.
    Get,
    /// Set it if there is none.
    Init(u64),
    /// Set it, whatever it is.
    Set(u64),
    /// Add to it; a latch stops at zero, and one that is absent stays so.
    Add(i64),
    /// Subtract if at least that much is there.
    TakeIfAtLeast(u64),
    /// Undo a `TakeIfAtLeast` of this client; if it has not come yet it never will have an effect.
    Undo(u64),
    /// Take all there is.
    Drain,
    /// Remove it.
    Delete,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, serde::Deserialize)]
pub struct CountReply {
    /// Whether the operation had its effect.
    pub applied: bool,
    /// The number before.
    pub before: Option<i64>,
    /// The number after.
    pub after: Option<i64>,
    /// Identity of a latch: another one means that the first has opened. Zero where the store cannot tell.
    pub born: u64,
}

/// What to look at.
#[derive(Clone, Debug)]
pub enum Query {
    /// One name.
    Name(Name),
    /// Names in use that begin so, in order, at most `limit`.
    Prefix {
        /// The beginning; empty for all.
        prefix: String,
        /// How many at most.
        limit: usize,
    },
}

/// A name as it stood when asked.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// The name.
    pub name: Name,
    /// What it is used as.
    pub family: Family,
    /// Who holds it.
    pub holders: Vec<Holder>,
    /// Who waits for it, as far as the store records it.
    pub waiters: Vec<Waiter>,
    /// The last fence given.
    pub fence: Option<Fence>,
    /// The size of a semaphore.
    pub size: Option<u32>,
    /// The number of a latch or counting semaphore.
    pub count: Option<i64>,
    /// Why it could not be read, in a list: then nothing else is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// Someone who holds a name.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// The hold: for a holder of another library its own words.
    pub id: String,
    /// How it shares.
    pub mode: Mode,
    /// How many times it is inside; for permits, how many.
    pub holds: u32,
    /// Its fence.
    pub fence: Option<Fence>,
    /// Time left unless renewed; `None` when it never ends by itself.
    #[serde(serialize_with = "seconds", rename = "left_seconds")]
    pub left: Option<Duration>,
    /// When it was granted, in microseconds since 1970.
    #[serde(rename = "since_micros")]
    pub since: Option<u64>,
    /// Its word for people.
    pub note: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Whether it belongs to another library, which says no more about itself.
    pub foreign: bool,
}

impl Holder {
    /// Its id, unless it belongs to another library that writes ids in its own way.
    pub fn hold_id(&self) -> Option<HoldId> {
        self.id.parse::<HoldId>().ok().filter(|id| id.to_string() == self.id)
    }
}

/// Someone who waits for a name.
#[derive(Clone, Debug, Serialize)]
pub struct Waiter {
    /// The claim that waits.
    pub id: String,
    /// How it would share.
    pub mode: Mode,
    /// When it began to wait, in microseconds since 1970.
    #[serde(rename = "since_micros")]
    pub since: Option<u64>,
    /// Its word for people.
    pub note: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Whether it belongs to another library, which says no more about itself.
    pub foreign: bool,
}

/// How a holder or waiter shares a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// With other readers.
    Shared,
    /// With other holders of permits.
    Permits,
}

fn seconds<S: serde::Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
    d.map(|d| d.as_secs_f64()).serialize(s)
}
