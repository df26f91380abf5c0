//! What is asked of a store: an id that is used for one hold only, a name, a kind, and the terms.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::backend::{Error, Name, Result};

/// Identity of one client: random, fresh for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(Uuid);

impl ClientId {
    /// A fresh one: a random UUID, version 4. Other libraries and tools read it as one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClientId {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Uuid::parse_str(s).map(Self).map_err(|e| Error::Config(format!("{s:?} is not a client id: {e}")))
    }
}

/// Identity of one hold on the wire, `<client uuid>:<counter>`: fresh each time a count goes from 0 to 1, so that
/// no late command of an old hold can touch a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId {
    /// The client that made it.
    pub client: ClientId,
    /// Counts up within the client.
    pub n: u64,
}

impl HoldId {
    /// Of nobody: in a claim that goes by its [`Claim::token`] alone.
    pub const NONE: Self = Self { client: ClientId(Uuid::nil()), n: 0 };
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.n)
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for HoldId {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        let wrong = || Error::Config(format!("{s:?} is not a hold id: expected <uuid>:<number>"));
        let (client, n) = s.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Self { client: client.parse().map_err(|_| wrong())?, n: n.parse().map_err(|_| wrong())? })
    }
}

impl Serialize for HoldId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HoldId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Identity of one change of a count, so that a repeat changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpId {
    /// The client that asks.
    pub client: ClientId,
    /// Counts up within the client.
    pub n: u64,
    /// Every operation of this client below this number has been answered: its record may be forgotten.
    pub settled: u64,
}

/// The fencing token of a grant: larger than that of every earlier grant of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a claim shares its name with others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One holder; whoever asks first after a release gets it.
    Lock,
    /// One holder; served in the order of asking.
    FairLock,
    /// One holder, watched by observers: an election.
    Leader,
    /// Shared with other readers.
    Read {
        /// The write hold of the same owner under which this read is taken.
        under_write: Option<HoldId>,
    },
    /// One holder, no readers.
    Write,
    /// `n` of the permits of a semaphore.
    Permit {
        /// How many.
        n: u32,
        /// Size of the semaphore if none is stored yet.
        limit: u32,
    },
}

impl Kind {
    /// What a store must serve for this kind.
    pub fn family(&self) -> Family {
        match self {
            Self::Lock => Family::Lock,
            Self::FairLock => Family::Fair,
            Self::Leader => Family::Leader,
            Self::Read { .. } | Self::Write => Family::ReadWrite,
            Self::Permit { .. } => Family::Permit,
        }
    }

    /// Whether each waiter has a place of its own in the store's queue.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self, Self::FairLock | Self::Read { .. } | Self::Write)
    }

    /// Whether one owner holding this enters again without asking for more.
    pub(crate) fn is_reentrant(&self) -> bool {
        !matches!(self, Self::Permit { .. })
    }
}

/// A group of kinds that a store serves or does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Plain locks.
    Lock,
    /// Fair locks.
    Fair,
    /// Elections.
    Leader,
    /// Read/write locks.
    ReadWrite,
    /// Semaphores with recorded permits.
    Permit,
    /// Count-down latches.
    Latch,
    /// Counting semaphores.
    Count,
}

impl Family {
    /// Every family there is.
    pub const ALL: &'static [Self] =
        &[Self::Lock, Self::Fair, Self::Leader, Self::ReadWrite, Self::Permit, Self::Latch, Self::Count];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Fair => "fair lock",
            Self::Leader => "election",
            Self::ReadWrite => "read/write lock",
            Self::Permit => "semaphore",
            Self::Latch => "latch",
            Self::Count => "counting semaphore",
        })
    }
}

/// How many copies must have a grant before it counts. Of what a store keeps in several places, one may be lost with
/// what the others have not heard of yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// The one that decides. A fail-over may forget the grant.
    #[default]
    Master,
    /// That one and so many others. A grant that they do not have in time is taken back.
    Replicas(u32),
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master => f.write_str("master"),
            Self::Replicas(n) => write!(f, "replicas:{n}"),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    /// `master`, or `replicas:2`.
    fn from_str(s: &str) -> Result<Self> {
        let replicas = || s.strip_prefix("replicas:")?.parse().ok().filter(|n| *n > 0);
        match s {
            "master" => Ok(Self::Master),
            _ => replicas().map(Self::Replicas).ok_or_else(|| {
                Error::Config(format!(
                    "{s:?} is not a durability: expected master, or replicas:N with N from 1 on"
                ))
            }),
        }
    }
}

/// One hold, asked for, waited for or held.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its identity in the store.
    pub id: HoldId,
    /// What it is about.
    pub name: Name,
    /// How it shares.
    pub kind: Kind,
    /// How many times the owner is inside, as it shall be after an attempt: 1 in the first, more in a re-entry.
    pub holds: u32,
    /// How long a grant lasts without renewal.
    pub lease: Duration,
    /// Whether a busy answer gives it a place among the waiters, and how long the caller means to wait at most.
    pub wait: Option<Duration>,
    /// How long a waiter's place lasts without a sign of life.
    pub stamp: Duration,
    /// How many copies must have a grant, a re-entry or a renewal before it counts. Only a store with
    /// [`Info::durable`](crate::backend::Info::durable) is asked for more than one. One that cannot reach enough of
    /// them in time takes a new grant back, and answers with an error.
    pub durability: Durability,
    /// A word for people.
    pub note: Option<Arc<str>>,
    /// What stands in the store for the holder, where that is the caller's own word instead of the id. Only a store
    /// with [`Info::tokens`](crate::backend::Info::tokens) is asked for it.
    pub token: Option<Arc<str>>,
}

impl Claim {
    /// The shortest lease: below it a grant would be over before it could be used.
    pub const MIN_LEASE: Duration = Duration::from_millis(10);

    /// A claim that only names an existing hold, to release or renew it without its guard.
    pub fn of(id: HoldId, name: Name, kind: Kind) -> Self {
        let lease = Duration::from_secs(30);
        let durability = Durability::Master;
        Self {
            id,
            name,
            kind,
            holds: 1,
            lease,
            wait: None,
            stamp: lease,
            durability,
            note: None,
            token: None,
        }
    }

    /// How long anything of it can stand in the store without a sign of life: a hold for its lease, a place among the
    /// waiters for its stamp.
    pub fn lasts(&self) -> Duration {
        if self.wait.is_some() { self.lease.max(self.stamp) } else { self.lease }
    }

    /// The same of whatever is held by this token, whoever took it.
    pub fn of_token(token: impl Into<Arc<str>>, name: Name, kind: Kind) -> Self {
        Self { token: Some(token.into()), ..Self::of(HoldId::NONE, name, kind) }
    }
}

/// Who holds something, as [`Lock::release_by`](crate::Lock::release_by) is told: the id of a hold, or a token.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HeldBy {
    /// The id of a hold.
    Hold(HoldId),
    /// What stands in the store: the caller's own word, or that of another library.
    Token(Arc<str>),
}

impl From<HoldId> for HeldBy {
    fn from(id: HoldId) -> Self {
        Self::Hold(id)
    }
}

impl From<&str> for HeldBy {
    /// What is written as the id of a hold is one.
    fn from(text: &str) -> Self {
        let id = text.parse::<HoldId>().ok().filter(|id| id.to_string() == text);
        id.map_or_else(|| Self::Token(text.into()), Self::Hold)
    }
}

impl From<String> for HeldBy {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(id) => id.fmt(f),
            Self::Token(token) => token.fmt(f),
        }
    }
}

/// Where a claim comes from, for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
}

impl Process {
    /// This process.
    pub fn current() -> &'static Arc<Self> {
        static CURRENT: OnceLock<Arc<Process>> = OnceLock::new();
        CURRENT.get_or_init(|| {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            Arc::new(Self { host, pid: std::process::id() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_is_a_random_uuid() {
        for _ in 0..100 {
            let id = Uuid::parse_str(&ClientId::new().to_string()).unwrap();
            assert_eq!((id.get_version_num(), id.get_variant()), (4, uuid::Variant::RFC4122), "{id}");
        }
    }

    #[test]
    fn a_hold_id_is_written_as_redisson_does() {
        let id: HoldId = "4f3c2b1a-0000-4000-8000-000000000001:42".parse().unwrap();
        assert_eq!(id.n, 42);
        assert_eq!(id.to_string(), "4f3c2b1a-0000-4000-8000-000000000001:42");
        assert!("4f3c2b1a:42".parse::<HoldId>().is_err());
        assert!("".parse::<HoldId>().is_err());
    }

    #[test]
    fn a_durability_is_read_as_it_is_written() {
        for (text, durability) in [
            ("master", Durability::Master),
            ("replicas:1", Durability::Replicas(1)),
            ("replicas:12", Durability::Replicas(12)),
        ] {
            assert_eq!(text.parse::<Durability>().unwrap(), durability);
            assert_eq!(durability.to_string(), text);
        }
        for bad in ["", "replicas", "replicas:", "replicas:0", "replicas:-1", "replicas:x", "Master", "2"] {
            let error = bad.parse::<Durability>().unwrap_err().to_string();
            assert!(error.contains("expected master, or replicas:N"), "{bad}: {error}");
        }
        assert!(
            Durability::Replicas(2) > Durability::Replicas(1) && Durability::Replicas(1) > Durability::Master
        );
    }
}
