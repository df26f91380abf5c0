//! The library's own metrics: how many acquires wait, and how many holds were lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

static WAITING: AtomicI64 = AtomicI64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);

/// How many acquires wait.
pub(crate) fn waiting() -> u64 {
    WAITING.load(SeqCst).max(0).cast_unsigned()
}

/// How many holds were lost.
pub(crate) fn lost() -> u64 {
    LOST.load(SeqCst)
}

/// Installs the recorder of this process.
pub(crate) fn install() {
    metrics::set_global_recorder(Gauges).expect("the only recorder");
}

struct Gauges;

struct Waiting;

impl GaugeFn for Waiting {
    fn increment(&self, by: f64) {
        WAITING.fetch_add(by as i64, SeqCst);
    }

    fn decrement(&self, by: f64) {
        WAITING.fetch_sub(by as i64, SeqCst);
    }

    fn set(&self, value: f64) {
        WAITING.store(value as i64, SeqCst);
    }
}

struct Losses;

impl CounterFn for Losses {
    fn increment(&self, by: u64) {
        LOST.fetch_add(by, SeqCst);
    }

    fn absolute(&self, value: u64) {
        LOST.store(value, SeqCst);
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            "tenure_lost_total" => Counter::from_arc(Arc::new(Losses)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match key.name() {
            "tenure_waiting" => Gauge::from_arc(Arc::new(Waiting)),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
