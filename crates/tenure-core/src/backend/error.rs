//! Errors, named by what a caller can do about them. Busy and timed out are not errors but `None`, wherever the return
//! type allows it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Deadlock, HoldId, Name};

/// The result of every fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of every fallible call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Definitely not executed: the store is unreachable, read-only or full, or has no quorum.
    #[error("{backend}: cannot {what}: {reason}")]
    Unavailable {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// The reason that the store or the connection gave.
        reason: String,
        /// When a retry can succeed, if known.
        retry_after: Option<Duration>,
        /// The error of the connection or the driver, if there was one.
        source: Option<Cause>,
    },
    /// Sent but not answered: it may or may not have been executed.
    #[error("{backend}: {what}: no answer, so it may or may not have taken effect: {reason}")]
    Unknown {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// What ended the wait for the answer.
        reason: String,
        /// The error of the connection or the driver, if there was one.
        source: Option<Cause>,
    },
    /// It was held, and no longer is.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// This store does not support it.
    #[error("{backend}: {what} is not supported: {reason}")]
    Unsupported {
        /// Scheme of the store.
        backend: &'static str,
        /// What was requested.
        what: String,
        /// Why it is not supported.
        reason: String,
    },
    /// The request is invalid: a bad name, address, option, file or mix of kinds.
    #[error("{0}")]
    Config(String),
    /// Every allowed attempt found it held by others. Only returned where `QuorumOptions::tries` limits the number of
    /// attempts, and only to callers that wait without a deadline.
    #[error("{backend}: {what}: gave up: {reason}")]
    GaveUp {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// How often it was tried, and the result of the last attempt.
        reason: String,
    },
    /// Waiting would never end: owners of this client wait for each other. Only returned where
    /// [`Settings::deadlocks`](crate::Settings::deadlocks) enables it, and only to one of them.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// Others held it for the whole wait. Calls that can return `None` do that instead.
    #[error("{backend}: {what}: busy: {}", match *waited { Duration::ZERO => "held by others".into(), d => format!("still held by others after {d:?}") })]
    Busy {
        /// Scheme of the store.
        backend: &'static str,
        /// The call and the name it was for.
        what: String,
        /// How long the call waited.
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
    /// A call that was certainly not executed.
    pub fn unavailable(backend: &'static str, what: impl ToString, reason: impl ToString) -> Self {
        let (what, reason) = (what.to_string(), reason.to_string());
        Self::Unavailable { backend, what, reason, retry_after: None, source: None }
    }

    /// A call that was sent but not answered.
    pub fn unknown(backend: &'static str, what: impl ToString, reason: impl ToString) -> Self {
        Self::Unknown { backend, what: what.to_string(), reason: reason.to_string(), source: None }
    }

    /// Adds the error that caused it, for [`source`](std::error::Error::source), where it is transient.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        if let Self::Unavailable { source, .. } | Self::Unknown { source, .. } = &mut self {
            *source = Some(Cause(Arc::new(cause)));
        }
        self
    }

    /// Says when a retry can succeed, if it was not executed.
    #[must_use]
    pub fn ready_after(mut self, left: Option<Duration>) -> Self {
        if let Self::Unavailable { retry_after, .. } = &mut self {
            *retry_after = left;
        }
        self
    }

    /// Whether the same call may succeed later. Only `Unavailable` and `Unknown` are transient.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. })
    }

    /// Whether the call may have been executed although it failed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// When a retry of the same call can succeed, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a hold was lost.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    /// Whether others held it for the whole wait.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// The error of a connection or a driver behind an [`Error`]. Two of them are equal if they say the same.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Cause {}

/// A hold that ended without being released by its holder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{backend}: {name} is no longer held: {}", self.why())]
#[non_exhaustive]
pub struct Lost {
    /// Scheme of the store.
    pub backend: &'static str,
    /// The name that was held.
    pub name: Name,
    /// The hold that ended.
    pub hold: HoldId,
    /// Why it ended.
    pub reason: LostReason,
    /// How long ago its lease ended, if that is why.
    pub ago: Option<Duration>,
}

impl Lost {
    /// Why it ended, and when if that is known.
    pub fn why(&self) -> String {
        match self.ago.filter(|ago| !ago.is_zero()) {
            Some(ago) if ago < Duration::from_secs(10) => {
                format!("{} {} ms ago", self.reason, ago.as_millis().max(1))
            }
            Some(ago) => format!("{} {} s ago", self.reason, ago.as_secs()),
            None => self.reason.to_string(),
        }
    }
}

/// Why a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// Its lease ended by the holder's own clock before it was renewed or released.
    #[error("its lease ended")]
    Expired,
    /// The store no longer has it: it expired there, was released by force, or the store lost its data.
    #[error("the store no longer has it: it expired, was released by force, or the store lost its data")]
    Gone,
    /// It was held for longer than `max_hold`.
    #[error("it was held longer than max_hold")]
    MaxHold,
    /// The client was closed while it was held.
    #[error("the client was closed")]
    Closed,
}

impl LostReason {
    /// The reason as one word, for metric labels.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::MaxHold => "max_hold",
            Self::Closed => "closed",
        }
    }
}
