//! The faults that a run causes, and the times in which they last.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A class of faults: one row of the table of promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A process of clients stands still for longer than its leases.
    ClientPaused,
    /// A process of clients is killed.
    ClientKilled,
    /// The runtime of the callers is blocked; the process goes on.
    RuntimeBlocked,
    /// The server stands still.
    ServerPaused,
    /// The server is killed, and comes back with its data.
    RestartWithData,
    /// The server is killed, and comes back without its data.
    RestartEmpty,
    /// Another server takes over, and the one before may go on answering.
    Failover,
    /// Connections are cut, or nothing arrives in either direction.
    ConnectionCut,
    /// What is sent arrives late.
    ConnectionDelayed,
    /// What is sent in one direction does not arrive.
    OneWay,
    /// One end of a connection is gone, and the other is not told.
    HalfOpen,
    /// The clock of the server steps.
    ServerClockStep,
    /// The wall clock of a client steps.
    ClientClockStep,
    /// `SCRIPT FLUSH`.
    ScriptFlush,
    /// `CLIENT KILL`.
    ClientKill,
    /// `CLIENT PAUSE`.
    ClientPause,
    /// Keys of the store are evicted.
    Eviction,
    /// The disk of the store is full.
    DiskFull,
    /// A slot moves to another node.
    Resharding,
    /// The password of the store changes.
    PasswordRotated,
}

impl Class {
    /// All classes, in the order of the table.
    pub const ALL: [Self; 20] = [
        Self::ClientPaused,
        Self::ClientKilled,
        Self::RuntimeBlocked,
        Self::ClientClockStep,
        Self::ServerPaused,
        Self::RestartWithData,
        Self::RestartEmpty,
        Self::Failover,
        Self::ConnectionCut,
        Self::ConnectionDelayed,
        Self::OneWay,
        Self::HalfOpen,
        Self::ServerClockStep,
        Self::ScriptFlush,
        Self::ClientKill,
        Self::ClientPause,
        Self::Eviction,
        Self::DiskFull,
        Self::Resharding,
        Self::PasswordRotated,
    ];

    /// What the table calls it.
    pub fn words(self) -> &'static str {
        match self {
            Self::ClientPaused => "client paused for longer than its lease",
            Self::ClientKilled => "client killed",
            Self::RuntimeBlocked => "runtime blocked",
            Self::ServerPaused => "server paused",
            Self::RestartWithData => "server killed, restarted with its data",
            Self::RestartEmpty => "server killed, restarted without its data",
            Self::Failover => "fail-over",
            Self::ConnectionCut => "connection cut",
            Self::ConnectionDelayed => "connection slow",
            Self::OneWay => "connection one-way",
            Self::HalfOpen => "connection half-open",
            Self::ServerClockStep => "clock of the server stepped",
            Self::ClientClockStep => "wall clock of a client stepped",
            Self::ScriptFlush => "`SCRIPT FLUSH`",
            Self::ClientKill => "`CLIENT KILL`",
            Self::ClientPause => "`CLIENT PAUSE`",
            Self::Eviction => "key evicted",
            Self::DiskFull => "disk full",
            Self::Resharding => "slot moved",
            Self::PasswordRotated => "password rotated",
        }
    }

    /// Whether nothing that is sent meanwhile can be answered.
    pub(crate) fn is_silence(self) -> bool {
        matches!(self, Self::ServerPaused | Self::ConnectionCut)
    }
}

/// The class as it stands in a log.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(word)) => f.write_str(&word),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

/// What a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The store, all of its nodes.
    Store,
    /// One node of a quorum or an ensemble.
    Node(u32),
    /// One process of clients, or its connections.
    Process(u32),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("store"),
            Self::Node(n) => write!(f, "node {n}"),
            Self::Process(n) => write!(f, "process {n}"),
        }
    }
}

/// The steps of a fault. One without `InEffect` may not have taken effect at all, one without `Healed` lasts until the
/// end of the history. What lasts no time, as `SCRIPT FLUSH`, has `Begin` and `Healed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is about to be caused.
    Begin,
    /// It has been caused.
    InEffect,
    /// It is about to be healed.
    Healing,
    /// It has been healed.
    Healed,
}

/// A fault of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its number.
    pub id: u32,
    /// Its class.
    pub class: Class,
    /// What it hits.
    pub target: Target,
    /// From when to when it may be in effect.
    pub possible: (u64, u64),
    /// From when to when it certainly is.
    pub certain: Option<(u64, u64)>,
}
