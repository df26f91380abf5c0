//! The telemetry of one acquire, from the call to its outcome.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tracing::Level;
use tracing::field::{Empty, display};

use super::{Call, KindLabel, QuietSpan, TARGET, quietly};
use crate::backend::{Error, HoldId, Name, Result, Time};
use crate::engine::core::Core;
use crate::engine::entry::Entry;
use crate::engine::hold::Hold;
use crate::engine::limit::Wait;

/// The number of attempts, and who blocked it last.
#[derive(Debug, Default)]
pub(crate) struct AcquireStats {
    attempts: AtomicU32,
    behind: Mutex<Option<HoldId>>,
}

impl AcquireStats {
    /// Counts an attempt. The attempts of one acquire are sequential, so there are no concurrent writes.
    pub(crate) fn attempt(&self) {
        self.attempts.store(self.attempts.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn busy(&self, behind: Option<HoldId>) {
        if behind.is_some() {
            *self.behind.lock().unwrap() = behind;
        }
    }

    /// Adds the counts of another one.
    pub(crate) fn add(&self, other: &Self) {
        self.attempts.store(self.attempts.load(Relaxed) + other.attempts.load(Relaxed), Relaxed);
        self.busy(other.behind());
    }

    fn behind(&self) -> Option<HoldId> {
        *self.behind.lock().unwrap()
    }
}

/// How an acquire ended.
pub(crate) enum Outcome<'a> {
    Acquired(Option<&'a Hold>),
    Busy,
    TimedOut,
    Failed(&'a Error),
}

/// An acquire in progress. Dropping it before its end counts as cancelled.
pub(crate) struct AcquireTrace<'a> {
    core: &'a Core,
    label: KindLabel,
    pub(crate) name: &'a Name,
    pub(crate) owner: Option<u64>,
    /// `None` if neither tracing nor metrics are enabled.
    began: Option<Time>,
    span: QuietSpan,
    pub(crate) stats: AcquireStats,
}

impl<'a> AcquireTrace<'a> {
    pub(crate) fn begin(core: &'a Core, label: KindLabel, name: &'a Name, owner: Option<u64>) -> Self {
        let listened_to = quietly(|| {
            tracing::enabled!(target: TARGET, Level::DEBUG) || core.telemetry.meter(label).listened_to
        });
        let span = QuietSpan::new(|| {
            tracing::debug_span!(
                target: TARGET,
                "acquire",
                %name,
                kind = label.word(),
                store = core.telemetry.store,
                owner,
                outcome = Empty,
                attempts = Empty,
                wait_seconds = Empty,
                behind = Empty,
                hold = Empty,
                fence = Empty,
                error = Empty
            )
        });
        let began = listened_to.then(|| core.clock.now());
        Self { core, label, name, owner, began, span, stats: AcquireStats::default() }
    }

    pub(crate) fn span(&self) -> &QuietSpan {
        &self.span
    }

    /// Logs that it is blocked by others and waits.
    pub(crate) fn waits(&self) {
        quietly(|| {
            tracing::debug!(
                target: TARGET,
                name = %self.name,
                kind = self.label.word(),
                store = self.core.telemetry.store,
                behind = self.stats.behind().map(display),
                "waiting"
            );
        });
    }

    /// Records the outcome of an acquire, and passes it on.
    pub(crate) fn entry(&mut self, wait: Wait, got: Result<Option<Entry>>) -> Result<Option<Entry>> {
        self.end(match &got {
            Ok(Some(entry)) => Outcome::Acquired(Some(entry.hold())),
            Ok(None) if wait.is_try() => Outcome::Busy,
            Ok(None) => Outcome::TimedOut,
            Err(error) => Outcome::Failed(error),
        });
        got
    }

    pub(crate) fn end(&mut self, outcome: Outcome<'_>) {
        if let Some(began) = self.began.take() {
            quietly(|| self.tell(began, &outcome));
        }
    }

    #[cold]
    fn tell(&self, began: Time, outcome: &Outcome<'_>) {
        let meter = self.core.telemetry.meter(self.label);
        let waited = self.core.clock.now().since(began);
        match outcome {
            Outcome::Acquired(hold) => {
                meter.acquired.increment(1);
                meter.acquire_seconds.record(waited);
                self.say("acquired", waited, *hold, None);
            }
            Outcome::Busy => {
                meter.busy.increment(1);
                self.say("busy", waited, None, None);
            }
            Outcome::TimedOut => {
                meter.timed_out.increment(1);
                self.say("timed out", waited, None, None);
            }
            Outcome::Failed(error) => {
                if error.is_transient() || matches!(error, Error::GaveUp { .. }) {
                    meter.failed(Call::Acquire);
                }
                self.say("failed", waited, None, Some(error));
            }
        }
    }

    /// Records the outcome in the span and as an event. Fields without a value are left out of both.
    fn say(&self, outcome: &'static str, waited: Duration, hold: Option<&Hold>, error: Option<&Error>) {
        if !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return;
        }
        let (attempts, wait_seconds) = (self.stats.attempts.load(Relaxed), waited.as_secs_f64());
        let (behind, id) = (self.stats.behind().map(display), hold.map(|hold| display(hold.claim.id)));
        let fence = hold.and_then(|hold| hold.fence).map(|fence| fence.0);
        let error = error.map(display);
        let span = self.span.get();
        span.record("outcome", outcome);
        span.record("attempts", attempts);
        span.record("wait_seconds", wait_seconds);
        span.record("behind", &behind);
        span.record("hold", &id);
        span.record("fence", fence);
        span.record("error", &error);
        tracing::debug!(
            target: TARGET,
            parent: span,
            name = %self.name,
            kind = self.label.word(),
            store = self.core.telemetry.store,
            attempts,
            wait_seconds,
            behind,
            hold = id,
            holds = hold.map(Hold::guards),
            fence,
            error,
            "{outcome}"
        );
    }
}

impl Drop for AcquireTrace<'_> {
    fn drop(&mut self) {
        if let Some(began) = self.began.take() {
            quietly(|| {
                self.core.telemetry.meter(self.label).cancelled.increment(1);
                self.say("cancelled", self.core.clock.now().since(began), None, None);
            });
        }
    }
}
