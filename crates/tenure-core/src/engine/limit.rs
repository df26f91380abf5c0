//! How long a call waits: for the lock, and for the answer of the store. One rule decides whether a call that failed is
//! sent again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backoff, Error, Result};
use crate::engine::Settings;
use crate::engine::core::Core;

/// The backoff for retries against a failing store.
pub(crate) const RETRIES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));

/// How long to wait for the lock.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wait {
    No,
    /// Not for this lock, but the caller waits for others together with it.
    ForOthers,
    Forever,
    For(Duration),
}

impl Wait {
    /// Whether a busy lock is an answer.
    pub(crate) fn is_try(self) -> bool {
        matches!(self, Self::No | Self::ForOthers)
    }

    pub(crate) fn as_duration(self) -> Option<Duration> {
        match self {
            Self::No | Self::ForOthers => None,
            Self::Forever => Some(Duration::MAX),
            Self::For(d) => Some(d),
        }
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::For(d) => Instant::now().checked_add(d),
            _ => None,
        }
    }

    /// Returns the limit by which the store must answer: the call timeout for a call that does not wait, the outage
    /// setting for one that waits, and in both cases not later than the deadline (but never less than
    /// [`Settings::answer`]).
    pub(crate) fn limit(self, deadline: Option<Instant>, settings: &Settings) -> Limit {
        let now = Instant::now();
        let patience = if self.is_try() { settings.call_timeout } else { settings.outage };
        let end = deadline.map_or(now + patience, |at| at.min(now + patience).max(now + settings.answer()));
        Limit { end, cut: deadline.map(|_| end), waits: self != Self::No }
    }
}

/// The time limit by which the store must have answered.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// No new request is sent after it.
    pub(crate) end: Instant,
    /// When to stop waiting for a request in flight, if the caller set a deadline. Otherwise the backend's own timeout
    /// applies.
    pub(crate) cut: Option<Instant>,
    /// Whether the caller waits.
    waits: bool,
}

impl Limit {
    /// The limit for a caller that must not block others.
    pub(crate) fn within(time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { end, cut: Some(end), waits: true }
    }

    /// Whether a call that failed like this is over. Otherwise it is sent again: the store may answer before the end.
    /// If nobody listens at its address, that is told at once to a caller that did not ask to wait.
    pub(crate) fn ends_with(&self, error: &Error) -> bool {
        !error.is_transient() || Instant::now() >= self.end || (!self.waits && error.is_refused())
    }
}

impl Core {
    /// Runs a call that only reads, for a caller that does not wait.
    pub(crate) async fn read<T, F: Future<Output = Result<T>>>(
        self: &Arc<Self>,
        call: impl FnMut() -> F,
    ) -> Result<T> {
        self.ask_until(Wait::No.limit(None, &self.settings), call).await
    }

    /// Runs an idempotent call that shall take effect, or whose caller waits: retried for the call timeout, also if
    /// connections are refused.
    pub(crate) async fn ask<T, F: Future<Output = Result<T>>>(
        self: &Arc<Self>,
        call: impl FnMut() -> F,
    ) -> Result<T> {
        self.retry(self.settings.call_timeout, call).await
    }

    /// Runs an idempotent call, retried for `patience` while the store fails.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(
        self: &Arc<Self>,
        patience: Duration,
        call: impl FnMut() -> F,
    ) -> Result<T> {
        self.ask_until(Limit::within(patience), call).await
    }

    /// Runs an idempotent call, retried until `limit` while the store fails. A request in flight is not cut off.
    pub(crate) async fn ask_until<T, F: Future<Output = Result<T>>>(
        self: &Arc<Self>,
        limit: Limit,
        mut call: impl FnMut() -> F,
    ) -> Result<T> {
        let mut backoff = RETRIES;
        loop {
            let error = match call().await {
                Err(error) if !limit.ends_with(&error) => error,
                answer => return answer,
            };
            if self.by(Some(limit.end), self.sleep(backoff.failed_by(self.chance()))).await?.is_none() {
                return Err(error);
            }
        }
    }

    pub(crate) fn out_of_time(&self, what: impl ToString) -> Error {
        let info = self.backend.info();
        info.locate(Error::unknown(info.scheme, what, "no answer within the time that the caller gave it"))
    }
}
