//! A request to a store: an id that is used for one hold only, a name, a kind, and the options.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::backend::{Chance, Error, Name, Result};

/// Identity of one client: random and unique.
///
/// ```
/// # use tenure_core::ClientId;
/// let id = ClientId::new();
/// assert_eq!(id.to_string().parse::<ClientId>()?, id);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(Uuid);

impl ClientId {
    /// Creates a random UUID, version 4. Other libraries and tools parse it as a UUID.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// Creates a UUID from these random numbers.
    pub(crate) fn drawn(chance: &Chance) -> Self {
        match (chance.next(), chance.next()) {
            (Some(high), Some(low)) => {
                let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }
            _ => Self::new(),
        }
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

/// Identity of one hold on the wire, `<client uuid>:<counter>`. Every new hold gets a fresh one (a re-entry keeps it),
/// so that no late command of an old hold can affect a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId {
    /// The client that created it.
    pub client: ClientId,
    /// Sequence number within the client.
    pub n: u64,
}

impl HoldId {
    /// The null id, for a claim that is identified by its [`Claim::token`] alone.
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

/// Identity of one operation on a count, so that a repeated operation is applied once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpId {
    /// The client that sends it.
    pub client: ClientId,
    /// Sequence number within the client.
    pub n: u64,
    /// Every operation of this client below this number has been answered, so the store may discard its record.
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
#[non_exhaustive]
pub enum Kind {
    /// One holder. Not fair: after a release the first request wins.
    Lock,
    /// One holder, first come, first served.
    FairLock,
    /// One holder that others can observe: an election.
    Leader,
    /// Shared with other readers.
    Read {
        /// The write hold of the same owner under which this read is taken.
        under_write: Option<HoldId>,
    },
    /// One holder, no readers.
    Write,
    /// `n` permits of a semaphore.
    Permit {
        /// Number of permits.
        n: u32,
        /// Size of the semaphore, used if the store has none yet.
        limit: u32,
    },
}

impl Kind {
    /// Returns the family that a store must support to serve this kind.
    pub fn family(&self) -> Family {
        match self {
            Self::Lock => Family::Lock,
            Self::FairLock => Family::Fair,
            Self::Leader => Family::Leader,
            Self::Read { .. } | Self::Write => Family::ReadWrite,
            Self::Permit { .. } => Family::Permit,
        }
    }

    /// Whether each waiter has its own position in the store's queue.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self, Self::FairLock | Self::Read { .. } | Self::Write)
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    /// Whether an owner that holds this re-enters its hold instead of taking another one.
    pub(crate) fn is_reentrant(&self) -> bool {
        !matches!(self, Self::Permit { .. })
    }
}

/// A group of kinds that a store supports as a whole or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
    /// All families.
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

/// How many copies must have stored a grant before it counts. With asynchronous replication, a failover may lose what
/// had not been replicated yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The master only. A failover may lose the grant.
    #[default]
    Master,
    /// The master and this many replicas. A grant that they do not acknowledge in time is taken back.
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

/// A request for one hold. It also identifies the hold while it waits and while it is held.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core as tenure;
/// use tenure::backend::{Backend, Claim, ClientId, Family, HoldId, Kind, Name, Released};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let store = tenure::Memory::new();
/// let id = HoldId { client: ClientId::new(), n: 1 };
/// let claim = Claim { lease: Duration::from_secs(10), ..Claim::of(id, Name::new("orders/42")?, Kind::Lock) };
/// assert_eq!((claim.lasts(), claim.kind.family()), (Duration::from_secs(10), Family::Lock));
/// store.try_acquire(&claim).await?;
/// assert_eq!(store.release(&claim, 0).await?, Released::Freed);
///
/// // The hold of another library, in a store whose lock is a single value.
/// let foreign = Claim::of_token("b5c9…", Name::new("orders/42")?, Kind::Lock);
/// assert_eq!(foreign.id, HoldId::NONE);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Identity of the hold in the store.
    pub id: HoldId,
    /// The name to hold.
    pub name: Name,
    /// How it shares the name.
    pub kind: Kind,
    /// The re-entry count that the hold has after this attempt: 1 for the first, more for a re-entry.
    pub holds: u32,
    /// How long a grant lasts without renewal.
    pub lease: Duration,
    /// How long the caller waits at most. If set, a busy answer also puts the claim into the queue of waiters.
    pub wait: Option<Duration>,
    /// How long the queue position of a waiter lasts without being refreshed.
    pub stamp: Duration,
    /// Whether the wait has just begun. Where waiters are only recorded for people to see, a store may leave it out of
    /// the record, if it asks for another attempt soon ([`Attempt::Busy`](crate::backend::Attempt::Busy)).
    pub brief: bool,
    /// The number of this attempt, if the caller has a watch for the claim: then a store may grant it within the release
    /// of another, and says so by [`Signal::Granted`](crate::backend::Signal::Granted). A later attempt of the claim has
    /// another number, which is the one that counts.
    pub watched: Option<u64>,
    /// How many fences to reserve beyond that of a new grant, by storing a larger *last*: so often the client may pass the
    /// hold on among its own tasks. The grant says how many it got.
    pub reserve: u32,
    /// How many copies must have stored a grant, a re-entry or a renewal before it counts. More than one is only
    /// requested of a store with [`Info::durable`](crate::backend::Info::durable). If a store cannot reach enough of
    /// them in time, it takes a new grant back and returns an error.
    pub durability: Durability,
    /// A note shown to people who inspect the lock.
    pub note: Option<Arc<str>>,
    /// Text that identifies the holder in the store instead of the id, chosen by the caller. Only used with a store
    /// that has [`Info::tokens`](crate::backend::Info::tokens).
    pub token: Option<Arc<str>>,
}

impl Claim {
    /// The shortest lease: a shorter one would end before the grant could be used.
    pub const MIN_LEASE: Duration = Duration::from_millis(10);

    /// Creates a claim that identifies an existing hold, to release or renew it without its guard.
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
            brief: false,
            watched: None,
            reserve: 0,
            durability,
            note: None,
            token: None,
        }
    }

    /// How long the store may keep anything of this claim without a refresh: a hold for its lease, a queue position for
    /// its stamp.
    pub fn lasts(&self) -> Duration {
        if self.wait.is_some() { self.lease.max(self.stamp) } else { self.lease }
    }

    /// Creates a claim that identifies the hold with this token, no matter who acquired it.
    pub fn of_token(token: impl Into<Arc<str>>, name: Name, kind: Kind) -> Self {
        Self { token: Some(token.into()), ..Self::of(HoldId::NONE, name, kind) }
    }
}

/// Identifies a hold for [`Lock::release_by`](crate::Lock::release_by): by its id or by its token.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HeldBy {
    /// The id of a hold.
    Hold(HoldId),
    /// The text in the store: the caller's own token, or the one of another library.
    Token(Arc<str>),
}

impl From<HoldId> for HeldBy {
    fn from(id: HoldId) -> Self {
        Self::Hold(id)
    }
}

impl From<&str> for HeldBy {
    /// Text in the exact form of a hold id becomes [`HeldBy::Hold`], any other text [`HeldBy::Token`].
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

/// The process that a claim comes from, shown to people.
///
/// ```
/// # use tenure_core::backend::Process;
/// assert_eq!(Process::current().pid, std::process::id());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
}

impl Process {
    /// Returns this process.
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
