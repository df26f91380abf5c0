//! The metrics, by kind and store. Names of locks are not labels: there may be millions.
//!
//! The handles of a kind are created when it is first used, which also checks whether a recorder is installed.

use std::cell::Cell;
use std::sync::OnceLock;

use metrics::{
    Counter, Gauge, Histogram, IntoF64, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use super::{Call, KindLabel};
use crate::backend::LostReason;

/// The metrics of one client.
#[derive(Debug)]
pub(crate) struct Meters {
    store: &'static str,
    labels: [OnceLock<Meter>; KindLabel::ALL.len()],
}

impl Meters {
    pub(super) fn new(store: &'static str) -> Self {
        Self { store, labels: Default::default() }
    }

    pub(super) fn of(&self, label: KindLabel) -> &Meter {
        self.labels[label as usize].get_or_init(|| Meter::new(self.store, label.word()))
    }
}

/// The metrics of one kind.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(super) listened_to: bool,
    pub(super) acquired: Counter,
    pub(super) busy: Counter,
    pub(super) timed_out: Counter,
    pub(super) cancelled: Counter,
    pub(super) deadlocks: Counter,
    pub(super) renewals: Counter,
    failures: [Counter; Call::ALL.len()],
    lost: [Counter; REASONS.len()],
    pub(super) acquire_seconds: Histogram,
    pub(super) hold_seconds: Histogram,
    pub(super) held: Gauge,
    pub(super) waiting: Gauge,
}

const REASONS: [LostReason; 4] =
    [LostReason::Expired, LostReason::Gone, LostReason::MaxHold, LostReason::Closed];

impl Meter {
    fn new(store: &'static str, kind: &'static str) -> Self {
        describe();
        let meter = Self {
            listened_to: false,
            acquired: counter!("tenure_acquired_total", "store" => store, "kind" => kind),
            busy: counter!("tenure_busy_total", "store" => store, "kind" => kind),
            timed_out: counter!("tenure_timed_out_total", "store" => store, "kind" => kind),
            cancelled: counter!("tenure_cancelled_total", "store" => store, "kind" => kind),
            deadlocks: counter!("tenure_deadlocks_total", "store" => store, "kind" => kind),
            renewals: counter!("tenure_renewals_total", "store" => store, "kind" => kind),
            failures: Call::ALL.map(|call| {
                counter!("tenure_failures_total", "store" => store, "kind" => kind, "call" => call.word())
            }),
            lost: REASONS.map(|reason| {
                counter!("tenure_lost_total", "store" => store, "kind" => kind, "reason" => reason.word())
            }),
            acquire_seconds: histogram!("tenure_acquire_seconds", "store" => store, "kind" => kind),
            hold_seconds: histogram!("tenure_hold_seconds", "store" => store, "kind" => kind),
            held: gauge!("tenure_held", "store" => store, "kind" => kind),
            waiting: gauge!("tenure_waiting", "store" => store, "kind" => kind),
        };
        Self { listened_to: hears(&meter.held) || hears(&meter.waiting), ..meter }
    }

    pub(super) fn failed(&self, call: Call) {
        self.failures[call as usize].increment(1);
    }

    pub(super) fn lost(&self, reason: LostReason) {
        if let Some(at) = REASONS.iter().position(|r| *r == reason) {
            self.lost[at].increment(1);
        }
    }
}

/// Whether there is a recorder behind a gauge. A gauge without one does not even convert the value.
fn hears(gauge: &Gauge) -> bool {
    struct Nothing<'a>(&'a Cell<bool>);
    impl IntoF64 for Nothing<'_> {
        fn into_f64(self) -> f64 {
            self.0.set(true);
            0.0
        }
    }
    let looked_at = Cell::new(false);
    gauge.increment(Nothing(&looked_at));
    looked_at.get()
}

fn describe() {
    describe_counter!("tenure_acquired_total", Unit::Count, "Acquires that got what they wanted.");
    describe_counter!("tenure_busy_total", Unit::Count, "Acquires that did not wait and found it taken.");
    describe_counter!(
        "tenure_timed_out_total",
        Unit::Count,
        "Acquires that waited for as long as they would."
    );
    describe_counter!("tenure_cancelled_total", Unit::Count, "Acquires that were dropped before they ended.");
    describe_counter!("tenure_deadlocks_total", Unit::Count, "Acquires that would have waited in a circle.");
    describe_counter!("tenure_renewals_total", Unit::Count, "Leases that were renewed.");
    describe_counter!("tenure_failures_total", Unit::Count, "Calls that the store failed.");
    describe_counter!(
        "tenure_lost_total",
        Unit::Count,
        "Holds that ended before their holder released them."
    );
    describe_histogram!("tenure_acquire_seconds", Unit::Seconds, "From asking to holding.");
    describe_histogram!("tenure_hold_seconds", Unit::Seconds, "From holding to the end of the hold.");
    describe_gauge!("tenure_held", Unit::Count, "Holds of this process.");
    describe_gauge!("tenure_waiting", Unit::Count, "Acquires of this process that wait.");
}
