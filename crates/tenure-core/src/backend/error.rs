//! Errors, named by what a caller can do about them. Busy and timed out are not errors but `None`, wherever the return
//! type allows it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::backend::{Deadlock, HoldId, Name};

/// The result of every fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of every fallible call.
///
/// ```
/// # use tenure_core as tenure;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// match client.lock("orders/42").acquire().await {
///     Ok(guard) => match guard.release().await {
///         Err(error) if error.is_lost() => println!("others may have been here meanwhile: {error}"),
///         released => released?,
///     },
///     Err(error) if error.is_unknown() => println!("it may have been acquired, and ends with its lease: {error}"),
///     Err(error) if error.is_transient() => println!("try again in {:?}: {error}", error.retry_after()),
///     Err(error) => return Err(error), // a bad name, something that the store does not support, …
/// }
/// # Ok(()) }
/// ```
///
/// A store makes errors like this:
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::Error;
/// let refused = Error::unavailable("redis", "acquire orders/42", "loading its data")
///     .ready_after(Some(Duration::from_secs(1)));
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
/// let cut = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
/// let lost = Error::unknown("redis", "release orders/42", cut);
/// assert!(lost.is_unknown() && !lost.is_busy() && std::error::Error::source(&lost).is_some());
/// ```
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
    /// Creates the error of a call that was certainly not executed.
    pub fn unavailable(backend: &'static str, what: impl ToString, reason: impl Into<Reason>) -> Self {
        let (what, Reason { text: reason, cause: source }) = (what.to_string(), reason.into());
        Self::Unavailable { backend, what, reason, retry_after: None, source }
    }

    /// Creates the error of a call that was sent but not answered.
    pub fn unknown(backend: &'static str, what: impl ToString, reason: impl Into<Reason>) -> Self {
        let (what, Reason { text: reason, cause: source }) = (what.to_string(), reason.into());
        Self::Unknown { backend, what, reason, source }
    }

    /// Adds when a retry can succeed. Only `Unavailable` has that.
    #[must_use]
    pub fn ready_after(mut self, left: Option<Duration>) -> Self {
        if let Self::Unavailable { retry_after, .. } = &mut self {
            *retry_after = left;
        }
        self
    }

    /// Whether the same call may succeed later. Only `Unavailable` and `Unknown` are transient, and several of them.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Unknown { .. } => true,
            Self::Several(each) => each.iter().all(Self::is_transient),
            _ => false,
        }
    }

    /// Whether the call may have been executed although it failed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether nobody listens at the address of the store.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Unavailable { source: Some(cause), .. } if cause.is_refused())
    }

    /// Returns when a retry of the same call can succeed, if known.
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

/// Why a call failed: in words, and the error of the connection or the driver behind it, if there was one.
///
/// ```
/// # use tenure_core::{Error, backend::Reason};
/// # use std::{error::Error as _, io};
/// let late = Reason::timed_out("no answer within 1s").at("etcd-1:2379");
/// let refused = Reason::from(io::Error::from(io::ErrorKind::ConnectionRefused)).at("etcd-2:2379");
/// assert!(refused.cause.as_ref().is_some_and(|cause| cause.is_refused()));
/// let error = Error::unavailable("etcd", "acquire orders/42", Reason::all([late, refused]));
/// assert!(error.to_string().contains("etcd-1:2379: no answer within 1s; etcd-2:2379: connection refused"));
/// assert!(error.source().is_some_and(|cause| cause.is::<io::Error>()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The whole reason: it contains the text of its cause.
    pub text: String,
    /// What [`source`](std::error::Error::source) of the [`Error`] returns.
    pub cause: Option<Cause>,
}

impl Reason {
    /// Something that took too long, with an [`io::Error`] of the kind `TimedOut` as its cause.
    pub fn timed_out(text: impl Into<String>) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, text.into()).into()
    }

    /// Puts the place where it happened in front.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self { text: format!("{place}: {}", self.text), ..self }
    }

    /// Several reasons as one, with the first cause among them.
    pub fn all(reasons: impl IntoIterator<Item = Self>) -> Self {
        let (mut texts, mut cause) = (Vec::new(), None);
        for reason in reasons {
            texts.push(reason.text);
            cause = cause.or(reason.cause);
        }
        Self { text: texts.join("; "), cause }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, cause: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self { text: error.to_string(), cause: Some(error.into()) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The error of a connection or a driver behind an [`Error`], for programs that look at its type: the message of that
/// `Error` already contains its text. Two of them are equal if they say the same.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// Whether a connection was refused: nobody listens at the address. A caller that does not wait is told that at
    /// once.
    pub fn is_refused(&self) -> bool {
        self.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Cause {
    fn from(error: E) -> Self {
        Self(Arc::new(error))
    }
}

// It is no error itself, so that `source` returns the one inside, which can be downcast.
impl Deref for Cause {
    type Target = dyn std::error::Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Cause {}

/// A hold that ended without being released by its holder.
///
/// ```
/// # use tenure_core::Error;
/// fn report(error: &Error) {
///     if let Error::Lost(lost) = error {
///         eprintln!("{}: {}", lost.name, lost.why()); // orders/43: its lease ended 120 ms ago
///     }
/// }
/// ```
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

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_cause_can_be_downcast_and_the_message_says_it_once() {
        let refused = || Reason::from(io::Error::from(io::ErrorKind::ConnectionRefused)).at("h:1");
        for error in
            [Error::unavailable("redis", "acquire x", refused()), Error::unknown("redis", "x", refused())]
        {
            let cause = error.source().and_then(|e| e.downcast_ref::<io::Error>()).expect("an I/O error");
            assert_eq!(cause.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(error.to_string().matches("connection refused").count(), 1, "{error}");
            assert_eq!(error, error.clone());
        }
        assert!(Error::unavailable("redis", "acquire x", "no quorum").source().is_none());
    }

    #[test]
    fn several_reasons_have_the_first_cause() {
        let all = Reason::all(["none".into(), Reason::timed_out("late").at("a"), "last".into()]);
        assert_eq!((&*all.text, all.cause.unwrap().to_string()), ("none; a: late; last", "late".to_owned()));
    }
}
