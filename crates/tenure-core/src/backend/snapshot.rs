//! Holders and waiters of a name, for display.

use std::time::Duration;

use serde::Serialize;

use crate::backend::{Family, Fence, HoldId, Name, Result};

/// Selects the names to inspect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// One name.
    Name(Name),
    /// Names in use that start with `prefix`, sorted, at most `limit`.
    Prefix {
        /// The prefix; empty for all names.
        prefix: String,
        /// The maximum number of names.
        limit: usize,
        /// Whether idle names are included, see [`Snapshot::is_idle`].
        idle: bool,
    },
}

/// The state of a name at the time of the query.
///
/// ```
/// # use tenure_core as tenure;
/// use tenure::backend::{Family, Fence, Holder, Mode, Name, Snapshot, Waiter};
///
/// // What a store answers: here a lock that a thread of a JVM holds, and a waiter.
/// let mut seen = Snapshot::new(Name::new("orders/42")?, Family::Lock);
/// assert!(seen.is_idle());
/// let mut holder = Holder::new("4f3c2b1a:17", Mode::Exclusive);
/// holder.foreign = true;
/// assert_eq!(holder.hold_id(), None); // not an id of ours
/// seen.holders.push(holder);
/// assert!(!seen.is_passed_on()); // nor has it reserved fences to pass the lock on
/// seen.waiters.push(Waiter::new("8d…:3", Mode::Exclusive));
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name.
    pub name: Name,
    /// The kind of primitive that it is used as.
    pub family: Family,
    /// The current holders.
    pub holders: Vec<Holder>,
    /// The waiters, as far as the store records them.
    pub waiters: Vec<Waiter>,
    /// The last fence that was issued.
    pub fence: Option<Fence>,
    /// The size of a semaphore.
    pub size: Option<u32>,
    /// The number of a latch or counting semaphore.
    pub count: Option<i64>,
    /// Why it could not be read, as part of a list; nothing else is known about it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl Snapshot {
    /// Creates the state of a name of this family that nobody holds or waits for.
    pub fn new(name: Name, family: Family) -> Self {
        Self {
            name,
            family,
            holders: Vec::new(),
            waiters: Vec::new(),
            fence: None,
            size: None,
            count: None,
            unread: None,
        }
    }

    /// Whether its holder has reserved the fences up to the last one: then its client may have passed it on among its
    /// tasks, which the store is not told
    /// ([`Settings::local_handover`](crate::Settings::local_handover)). Whose fence it is now is between the two.
    pub fn is_passed_on(&self) -> bool {
        match self.holders.as_slice() {
            [holder] => self.family == Family::Lock && holder.fence.is_some() && holder.fence < self.fence,
            _ => false,
        }
    }

    /// Whether it is not in use, although the store knows it: a semaphore of which only the size is stored, without
    /// holders and waiters. The number of a latch or of a counting semaphore is in use until it is deleted.
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty() && self.count.is_none() && self.unread.is_none()
    }
}

/// A holder of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The hold id, or the text that another library uses for its holder.
    pub id: String,
    /// How it shares the name.
    pub mode: Mode,
    /// The re-entry count, or the number of permits.
    pub holds: u32,
    /// Its fence.
    pub fence: Option<Fence>,
    /// Remaining time unless renewed; `None` if it never expires.
    #[serde(serialize_with = "seconds", rename = "left_seconds")]
    pub left: Option<Duration>,
    /// When it was granted, in microseconds since 1970.
    #[serde(rename = "since_micros")]
    pub since: Option<u64>,
    /// Its note.
    pub note: Option<String>,
    /// Its host name.
    pub host: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Whether it belongs to another library, which stores no further details.
    pub foreign: bool,
}

impl Holder {
    /// Creates a holder of which nothing else is known.
    pub fn new(id: impl Into<String>, mode: Mode) -> Self {
        Self {
            id: id.into(),
            mode,
            holds: 1,
            fence: None,
            left: None,
            since: None,
            note: None,
            host: None,
            pid: None,
            foreign: false,
        }
    }

    /// Returns its hold id, or `None` if it belongs to another library with its own form of ids.
    pub fn hold_id(&self) -> Option<HoldId> {
        self.id.parse::<HoldId>().ok().filter(|id| id.to_string() == self.id)
    }
}

/// A waiter for a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Waiter {
    /// The claim that waits.
    pub id: String,
    /// How it will share the name.
    pub mode: Mode,
    /// When it began to wait, in microseconds since 1970.
    #[serde(rename = "since_micros")]
    pub since: Option<u64>,
    /// Its note.
    pub note: Option<String>,
    /// Its host name.
    pub host: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Whether it belongs to another library, which stores no further details.
    pub foreign: bool,
}

impl Waiter {
    /// Creates a waiter of which nothing else is known.
    pub fn new(id: impl Into<String>, mode: Mode) -> Self {
        Self { id: id.into(), mode, since: None, note: None, host: None, pid: None, foreign: false }
    }
}

/// How a holder or waiter shares a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
