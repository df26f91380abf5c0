//! Holders and waiters of a name, for people.

use std::time::Duration;

use serde::Serialize;

use crate::backend::{Family, Fence, HoldId, Name, Result};

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
