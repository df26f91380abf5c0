//! Errors, named by what a caller can do about them. Busy and timed out are not errors but `None`,
//! wherever a call can say that.

use std::time::Duration;

use crate::backend::{Deadlock, HoldId, Name};

/// The result of every fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Definitely not executed: the store is not reachable, is read-only, is full, has no quorum.
    #[error("{backend}: {what}: not executed: {reason}")]
    Unavailable {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// What the store or the connection said.
        reason: String,
        /// When it will be possible, where that is known.
        retry_after: Option<Duration>,
    },
    /// Sent, but no answer came: it may or may not have been executed.
    #[error("{backend}: {what}: sent but not answered: {reason}")]
    Unknown {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// What ended the wait for the answer.
        reason: String,
    },
    /// It was held, and is not any more.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// This store cannot do that.
    #[error("{backend}: {what} is not supported: {reason}")]
    Unsupported {
        /// Scheme of the store.
        backend: &'static str,
        /// What was asked for.
        what: String,
        /// Why not.
        reason: String,
    },
    /// Something was asked for that cannot be right: a bad name, address, option, file or mix of kinds.
    #[error("{0}")]
    Config(String),
    /// Others held it each time, as often as was to be tried. Only told where
    /// `QuorumOptions::tries` says how often that is, and to those who wait without a limit.
    #[error("{backend}: {what}: gave up: {reason}")]
    GaveUp {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// How often it was tried, and what was said the last time.
        reason: String,
    },
    /// Waiting would never end: the owners of this client wait for each other. Only told where
    /// [`Settings::deadlocks`](crate::Settings::deadlocks) says so, and to one of them.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// Others held it for as long as was to be waited. Calls that can say `None` say that instead.
    #[error("{backend}: {what}: busy: {}", match *waited { Duration::ZERO => "held by others".into(), d => format!("still held by others after {d:?}") })]
    Busy {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
    /// Several things went wrong, each with its own error.
    #[error("{} failures: {}", .0.len(), .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl Error {
    /// Whether the same call may succeed later. Only `Unavailable` and `Unknown` pass by themselves.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. })
    }

    /// Whether the call may have been executed although it failed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// When the same call will be possible, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether this says that something held was lost.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    /// Whether this says that others held it all the time.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// The end of a hold that its holder did not ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{backend}: {name} is lost to {hold}: {reason}")]
pub struct Lost {
    /// Scheme of the store.
    pub backend: &'static str,
    /// The name that was held.
    pub name: Name,
    /// The hold that ended.
    pub hold: HoldId,
    /// Why it ended.
    pub reason: LostReason,
}

/// Why a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// Its validity ended by the holder's own clock, before it was renewed or released.
    #[error("its lease ended")]
    Expired,
    /// The store does not know it any more: expired there, released by force, or the store lost its data.
    #[error("the store does not hold it any more")]
    Gone,
    /// It was held for longer than `max_hold`.
    #[error("it was held longer than max_hold")]
    MaxHold,
    /// The client was closed while it was held.
    #[error("the client was closed")]
    Closed,
}

impl LostReason {
    /// One word, for those who count.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::MaxHold => "max_hold",
            Self::Closed => "closed",
        }
    }
}
