//! Tracing events and metrics: one function for each event, so that the calling code stays readable. Every name and
//! field here is documented and stable, see `docs/observability.md`.
//!
//! The clock is only read if tracing or metrics are enabled.

mod acquire_trace;
#[cfg_attr(not(feature = "metrics"), path = "no_meters.rs")]
mod meters;
mod quietly;

use std::time::Duration;

use tracing::Level;

pub(crate) use self::acquire_trace::{AcquireStats, AcquireTrace, Outcome};
use self::meters::{Meter, Meters};
pub(crate) use self::quietly::{QuietSpan, quietly};
use crate::backend::{Claim, Clock, Deadlock, Error, Kind, LostReason, Name, Time};
use crate::engine::hold::Hold;

/// The tracing target of all events, whatever module they come from.
const TARGET: &str = "tenure";

/// An event about one hold or claim.
macro_rules! about {
    ($level:ident, $telemetry:expr, $claim:expr, $($more:tt)+) => {
        tracing::$level!(
            target: TARGET,
            name = %$claim.name,
            kind = KindLabel::from($claim.kind).word(),
            store = $telemetry.store,
            hold = %$claim.id,
            $($more)+
        )
    };
}

/// The kind, as used in labels and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindLabel {
    Lock,
    FairLock,
    Leader,
    Read,
    Write,
    Permit,
    /// A counting semaphore, which has no holders.
    Count,
}

impl KindLabel {
    #[cfg(feature = "metrics")]
    const ALL: [Self; 7] =
        [Self::Lock, Self::FairLock, Self::Leader, Self::Read, Self::Write, Self::Permit, Self::Count];

    fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::FairLock => "fair_lock",
            Self::Leader => "leader",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit => "permit",
            Self::Count => "count",
        }
    }
}

impl From<Kind> for KindLabel {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Lock => Self::Lock,
            Kind::FairLock => Self::FairLock,
            Kind::Leader => Self::Leader,
            Kind::Read { .. } => Self::Read,
            Kind::Write => Self::Write,
            Kind::Permit { .. } => Self::Permit,
        }
    }
}

/// The call that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Acquire,
    Renew,
    Release,
}

#[cfg(feature = "metrics")]
impl Call {
    const ALL: [Self; 3] = [Self::Acquire, Self::Renew, Self::Release];

    fn word(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
        }
    }
}

/// How a hold ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Released,
    /// Its name is held on by another task of the client.
    PassedOn,
    Dropped,
    Detached,
    Lost(LostReason),
}

/// The telemetry of one client.
#[derive(Debug)]
pub(crate) struct Telemetry {
    store: &'static str,
    meters: Meters,
}

impl Telemetry {
    pub(crate) fn new(store: &'static str) -> Self {
        Self { store, meters: Meters::new(store) }
    }

    fn meter(&self, label: impl Into<KindLabel>) -> &Meter {
        self.meters.of(label.into())
    }

    /// Counts a new hold.
    pub(crate) fn held(&self, hold: &Hold) {
        quietly(|| self.meter(hold.claim.kind).held.increment(1));
    }

    /// Records the end of a hold.
    pub(crate) fn ended(&self, hold: &Hold, end: End, clock: &Clock) {
        quietly(|| self.tell_end(hold, end, clock));
    }

    fn tell_end(&self, hold: &Hold, end: End, clock: &Clock) {
        let meter = self.meter(hold.claim.kind);
        let told = match end {
            End::Lost(_) => tracing::enabled!(target: TARGET, Level::WARN),
            _ => tracing::enabled!(target: TARGET, Level::DEBUG),
        };
        if !meter.listened_to && !told {
            return;
        }
        let held = clock.now().since(hold.since);
        meter.held.decrement(1);
        meter.hold_seconds.record(held);
        let how = match end {
            End::Released => "released",
            End::PassedOn => "passed on",
            End::Dropped => "dropped",
            End::Detached => "detached",
            End::Lost(reason) => {
                meter.lost(reason);
                self.say_lost(hold, reason, Some(held.as_secs_f64()));
                return;
            }
        };
        about!(debug, self, hold.claim, held_seconds = held.as_secs_f64(), how, "released");
    }

    /// Records that a release found its hold already gone.
    pub(crate) fn was_gone(&self, hold: &Hold) {
        quietly(|| {
            self.meter(hold.claim.kind).lost(LostReason::Gone);
            self.say_lost(hold, LostReason::Gone, None);
        });
    }

    fn say_lost(&self, hold: &Hold, reason: LostReason, held_seconds: Option<f64>) {
        about!(warn, self, hold.claim, held_seconds, reason = reason.word(), "lost");
    }

    /// Warns of a hold that is older than [`Settings::warn_held`](crate::Settings::warn_held).
    pub(crate) fn held_long(&self, hold: &Hold, now: Time) {
        quietly(|| {
            about!(
                warn,
                self,
                hold.claim,
                owner = hold.owner,
                note = hold.claim.note.as_deref(),
                held_seconds = now.since(hold.since).as_secs_f64(),
                "held for long"
            );
        });
    }

    /// The span of the events about one batch of renewals, made when it is over: the thread that renews must not call
    /// a subscriber, which may block or panic.
    pub(crate) fn renew_span(&self, holds: usize, took: Duration) -> QuietSpan {
        QuietSpan::new(
            || tracing::debug_span!(target: TARGET, "renew", store = self.store, holds, seconds = took.as_secs_f64()),
        )
    }

    pub(crate) fn renewed(&self, hold: &Hold) {
        quietly(|| {
            self.meter(hold.claim.kind).renewals.increment(1);
            about!(debug, self, hold.claim, remaining_seconds = hold.remaining().as_secs_f64(), "renewed");
        });
    }

    /// Records the first renewal after one or more that failed.
    pub(crate) fn renewed_again(&self, hold: &Hold) {
        quietly(|| {
            self.meter(hold.claim.kind).renewals.increment(1);
            about!(
                info,
                self,
                hold.claim,
                remaining_seconds = hold.remaining().as_secs_f64(),
                "renewed again"
            );
        });
    }

    /// Records a renewal that failed. Only the `first` of several in a row is a warning.
    pub(crate) fn renewal_failed(&self, claim: &Claim, error: &str, first: bool) {
        quietly(|| {
            self.meter(claim.kind).failed(Call::Renew);
            if first {
                about!(warn, self, claim, error, "renewal failed, trying again");
            } else {
                about!(debug, self, claim, error, "renewal failed again");
            }
        });
    }

    pub(crate) fn release_span(&self, claim: &Claim) -> QuietSpan {
        QuietSpan::new(|| {
            tracing::debug_span!(
                target: TARGET,
                "release",
                name = %claim.name,
                kind = KindLabel::from(claim.kind).word(),
                store = self.store,
                hold = %claim.id
            )
        })
    }

    /// Records a release that was given up.
    pub(crate) fn release_failed(&self, claim: &Claim, error: &Error) {
        quietly(|| {
            self.meter(claim.kind).failed(Call::Release);
            // It was retried until its lease was over, so nothing of it is left in the store.
            if error.is_transient() {
                about!(debug, self, claim, %error, "the release was not confirmed, but its time is over");
            } else {
                about!(warn, self, claim, %error, "not released; it ends with its lease");
            }
        });
    }

    pub(crate) fn suspected(&self, holds: usize) {
        quietly(|| {
            tracing::warn!(
                target: TARGET,
                store = self.store,
                holds,
                "the store may have forgotten what is held: it is asked again"
            );
        });
    }

    fn warn_of(&self, name: &Name, error: &Error, what: &'static str) {
        quietly(|| tracing::warn!(target: TARGET, %name, store = self.store, %error, "{what}"));
    }

    pub(crate) fn not_given_back(&self, name: &Name, error: &Error) {
        self.warn_of(name, error, "permits taken by a cancelled acquire may not have been given back");
    }

    pub(crate) fn not_finished(&self, name: &Name, error: &Error) {
        self.warn_of(name, error, "a change of a count that was begun was not finished");
    }

    pub(crate) fn cannot_watch(&self, name: &Name, error: &Error) {
        self.warn_of(name, error, "cannot watch, polling instead");
    }

    pub(crate) fn not_ready(&self, name: &Name, error: &Error) {
        self.warn_of(name, error, "waiting for the store");
    }

    pub(crate) fn waits_for_itself(&self, name: &Name) {
        quietly(|| {
            tracing::warn!(
                target: TARGET,
                %name,
                store = self.store,
                "this task or thread waits for a name that it holds itself under another owner: name one owner with .owner(&me) \
                 on both, or run both inside me.scope(..), to enter again"
            );
        });
    }

    pub(crate) fn deadlock(&self, kind: Kind, deadlock: &Deadlock) {
        quietly(|| {
            self.meter(kind).deadlocks.increment(1);
            tracing::warn!(
                target: TARGET,
                name = %deadlock.name,
                kind = KindLabel::from(kind).word(),
                store = self.store,
                circle = %deadlock.circle(),
                "deadlock"
            );
        });
    }

    /// Counts a waiter until the returned value is dropped.
    pub(crate) fn waiting(&self, label: KindLabel) -> Waiting<'_> {
        quietly(|| self.meter(label).waiting.increment(1));
        Waiting { telemetry: self, label }
    }
}

/// A waiter, counted until it is dropped.
pub(crate) struct Waiting<'a> {
    telemetry: &'a Telemetry,
    label: KindLabel,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        quietly(|| self.telemetry.meter(self.label).waiting.decrement(1));
    }
}
