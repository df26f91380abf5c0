//! What a history is of: the store, and the times that its promises are counted in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first event of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The store.
    pub store: Store,
    /// The servers of a quorum or an ensemble; 1 for all others.
    #[serde(default = "one")]
    pub nodes: u32,
    /// The seed that the run was made from.
    #[serde(default)]
    pub seed: u64,
    /// The faults that were planned, in words.
    #[serde(default)]
    pub plan: String,
    /// The times of its settings.
    pub timing: Timing,
}

fn one() -> u32 {
    1
}

/// A deployment: one column of the table of promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// Memory.
    Memory,
    /// SQLite.
    Sqlite,
    /// One Redis server, hash layout.
    Redis,
    /// One Redis server, plain layout.
    RedisPlain,
    /// Redis with replicas, behind Sentinel, hash layout.
    RedisSentinel,
    /// Redis Cluster, hash layout.
    RedisCluster,
    /// A quorum of Redis servers.
    Redlock,
    /// ZooKeeper: an ensemble, or a lone server.
    Zookeeper,
}

impl Store {
    /// All stores, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::Sqlite,
        Self::Redis,
        Self::RedisPlain,
        Self::RedisSentinel,
        Self::RedisCluster,
        Self::Redlock,
        Self::Zookeeper,
    ];

    /// What the table calls it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "SQLite",
            Self::Redis => "Redis",
            Self::RedisPlain => "Redis, plain layout",
            Self::RedisSentinel => "Sentinel",
            Self::RedisCluster => "Cluster",
            Self::Redlock => "RedLock",
            Self::Zookeeper => "ZooKeeper",
        }
    }

    /// Whether its grants have fences.
    pub fn has_fences(self) -> bool {
        !matches!(self, Self::RedisPlain | Self::Redlock)
    }

    /// Whether a hold lasts as long as the session of its client, not as long as a lease.
    pub fn has_sessions(self) -> bool {
        self == Self::Zookeeper
    }
}

/// The store as it stands in a log.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(word)) => f.write_str(&word),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

/// The settings that the promises are counted in, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// The lease of holds that name none; on a store with sessions the session timeout.
    pub lease: u64,
    /// The poll cap.
    pub poll: u64,
    /// How long a restarted node of a quorum has no vote.
    pub restart_delay: u64,
    /// What a slow machine may add to any bound: a stall of this length is never a violation by itself. It covers the
    /// timeout of a call, the backoff of a connection, and a processor that has other things to do.
    pub slack: u64,
}

/// The defaults of a server, and ten seconds of slack.
impl Default for Timing {
    fn default() -> Self {
        let seconds = |n: u64| n * 1_000_000_000;
        Self { lease: seconds(30), poll: seconds(5), restart_delay: seconds(61), slack: seconds(10) }
    }
}
