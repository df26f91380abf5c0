//! The metrics without the `metrics` feature: nothing is counted, at no cost.

use std::time::Duration;

use super::{Call, KindLabel};
use crate::backend::LostReason;

#[derive(Debug)]
pub(crate) struct Meters(Meter);

impl Meters {
    pub(super) fn new(_store: &'static str) -> Self {
        Self(Meter::default())
    }

    pub(super) fn of(&self, _label: KindLabel) -> &Meter {
        &self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(super) listened_to: bool,
    pub(super) acquired: Nothing,
    pub(super) busy: Nothing,
    pub(super) timed_out: Nothing,
    pub(super) cancelled: Nothing,
    pub(super) deadlocks: Nothing,
    pub(super) renewals: Nothing,
    pub(super) acquire_seconds: Nothing,
    pub(super) hold_seconds: Nothing,
    pub(super) held: Nothing,
    pub(super) waiting: Nothing,
}

impl Meter {
    pub(super) fn failed(&self, _call: Call) {}

    pub(super) fn lost(&self, _reason: LostReason) {}
}

#[derive(Debug, Default)]
pub(super) struct Nothing;

impl Nothing {
    pub(super) fn increment(&self, _by: u8) {}

    pub(super) fn decrement(&self, _by: u8) {}

    pub(super) fn record(&self, _value: Duration) {}
}
