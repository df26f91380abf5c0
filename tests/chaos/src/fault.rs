//! The faults that a run can cause.

use std::fmt;
use std::time::Duration;

use checker::Class;
use testbed::{Cut, Way};

/// A fault, with what it hits and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// A worker is stopped.
    Pause { slot: usize, time: Duration },
    /// A worker is killed and replaced.
    Kill { slot: usize },
    /// The runtimes of a worker are blocked.
    Block { slot: usize, time: Duration },
    /// All connections of a worker are cut, and refused.
    Cut { slot: usize, time: Duration },
    /// Nothing that a worker sends or is sent arrives.
    Stall { slot: usize, time: Duration },
    /// Some connections of a worker are cut at a request.
    CutOnce { slot: usize, cut: Cut },
    /// What a worker sends and is sent arrives late.
    Delay { slot: usize, time: Duration, by: Duration },
    /// What a worker sends, or is sent, is swallowed.
    OneWay { slot: usize, time: Duration, way: Way },
    /// Both are; the connections stay open and dead.
    HalfOpen { slot: usize, time: Duration },
    /// Servers are stopped.
    Stop { nodes: Vec<usize>, time: Duration },
    /// Servers are killed, and started again.
    Restart { nodes: Vec<usize>, time: Duration, empty: bool },
    /// All servers are killed and started again at once, without their data.
    Blackout,
    /// `SCRIPT FLUSH`.
    Flush,
    /// `CLIENT KILL`.
    Disconnect,
    /// `CLIENT PAUSE`.
    Hush { time: Duration },
    /// Another server takes over.
    FailOver { how: How, time: Duration },
    /// A slot is between two nodes for a while, with some of its keys on either.
    Reshard { time: Duration },
    /// Servers evict keys.
    Evict { nodes: Vec<usize>, time: Duration },
    /// Servers cannot save, and so refuse to write.
    Full { nodes: Vec<usize>, time: Duration },
    /// The password of the workers changes.
    Rotate,
    /// The wall clock of a server is that of the machine plus so many milliseconds.
    Step { node: usize, by: i64 },
    /// The wall clock of a worker is.
    StepWorker { slot: usize, by: i64 },
}

/// Why another server takes over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    Asked,
    Killed,
    /// It goes on answering later.
    Stopped,
}

impl Fault {
    /// The row of the table of promises.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Pause { .. } => Class::ClientPaused,
            Self::Kill { .. } => Class::ClientKilled,
            Self::Block { .. } => Class::RuntimeBlocked,
            Self::Cut { .. } | Self::Stall { .. } | Self::CutOnce { .. } => Class::ConnectionCut,
            Self::Delay { .. } => Class::ConnectionDelayed,
            Self::OneWay { .. } => Class::OneWay,
            Self::HalfOpen { .. } => Class::HalfOpen,
            Self::Stop { .. } => Class::ServerPaused,
            Self::Restart { empty: false, .. } => Class::RestartWithData,
            Self::Restart { empty: true, .. } | Self::Blackout => Class::RestartEmpty,
            Self::Flush => Class::ScriptFlush,
            Self::Disconnect => Class::ClientKill,
            Self::Hush { .. } => Class::ClientPause,
            Self::FailOver { .. } => Class::Failover,
            Self::Reshard { .. } => Class::Resharding,
            Self::Evict { .. } => Class::Eviction,
            Self::Full { .. } => Class::DiskFull,
            Self::Rotate => Class::PasswordRotated,
            Self::Step { .. } => Class::ServerClockStep,
            Self::StepWorker { .. } => Class::ClientClockStep,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| format!("{} ms", time.as_millis());
        match self {
            Self::Pause { slot, time } => write!(f, "worker {slot} paused for {}", ms(time)),
            Self::Kill { slot } => write!(f, "worker {slot} killed"),
            Self::Block { slot, time } => write!(f, "runtimes of worker {slot} blocked for {}", ms(time)),
            Self::Cut { slot, time } => write!(f, "connections of worker {slot} cut for {}", ms(time)),
            Self::Stall { slot, time } => write!(f, "connections of worker {slot} stalled for {}", ms(time)),
            Self::CutOnce { slot, cut } => write!(f, "connections of worker {slot} cut, {cut:?}"),
            Self::Delay { slot, time, by } => {
                write!(f, "connections of worker {slot} slower by {} for {}", ms(by), ms(time))
            }
            Self::OneWay { slot, time, way } => {
                write!(f, "connections of worker {slot} mute {way:?} for {}", ms(time))
            }
            Self::HalfOpen { slot, time } => {
                write!(f, "connections of worker {slot} half open for {}", ms(time))
            }
            Self::Stop { nodes, time } => write!(f, "servers {nodes:?} stopped for {}", ms(time)),
            Self::Restart { nodes, time, empty } => {
                let data = if *empty { "without" } else { "with" };
                write!(f, "servers {nodes:?} killed, and restarted {data} data after {}", ms(time))
            }
            Self::Blackout => f.write_str("all servers killed and restarted without data"),
            Self::Flush => f.write_str("SCRIPT FLUSH"),
            Self::Disconnect => f.write_str("CLIENT KILL"),
            Self::Hush { time } => write!(f, "CLIENT PAUSE for {}", ms(time)),
            Self::FailOver { how, time } => write!(f, "fail-over, {how:?}, {}", ms(time)),
            Self::Reshard { time } => write!(f, "a slot moves, in {}", ms(time)),
            Self::Evict { nodes, time } => write!(f, "servers {nodes:?} evict keys for {}", ms(time)),
            Self::Full { nodes, time } => write!(f, "servers {nodes:?} cannot save for {}", ms(time)),
            Self::Rotate => f.write_str("the password changes"),
            Self::Step { node, by } => write!(f, "clock of server {node} is off by {by} ms"),
            Self::StepWorker { slot, by } => write!(f, "clock of worker {slot} is off by {by} ms"),
        }
    }
}
