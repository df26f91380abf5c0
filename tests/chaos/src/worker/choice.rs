//! What a task does next, drawn from its random numbers.

use std::time::Duration;

use checker::{Kind, Wait};

use crate::clock::nanos;
use crate::kinds::{LIMIT, Use};
use crate::worker::Orders;
use crate::worker::api::Turn;

/// How a hold ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Release,
    Drop,
    /// Detached; released by its id or left to its lease.
    Detach {
        release: bool,
    },
}

/// One acquire, and what is done with what it returns.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) wait: Wait,
    pub(crate) lease: Option<Duration>,
    /// Drops the future after this time.
    pub(crate) patience: Option<Duration>,
    pub(crate) hold: Duration,
    /// Enters again while it holds, as this.
    pub(crate) again: Option<Kind>,
    /// Changes the protected resource.
    pub(crate) writes: bool,
    pub(crate) end: End,
}

/// True in so many of a hundred cases.
fn chance(rng: &mut fastrand::Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

fn between(rng: &mut fastrand::Rng, from: u64, to: u64) -> Duration {
    Duration::from_micros(rng.u64(from * 1000..to * 1000))
}

impl Section {
    pub(crate) fn draw(rng: &mut fastrand::Rng, of: Use, orders: &Orders) -> Self {
        let lease = orders.lease;
        let kind = match of {
            Use::Lock => Kind::Lock,
            Use::Fair => Kind::Fair,
            Use::Rwlock if chance(rng, 70) => Kind::Read,
            Use::Rwlock => Kind::Write,
            Use::Permits => Kind::Permits { n: rng.u32(1..=LIMIT), limit: LIMIT },
            Use::Leader => Kind::Leader,
            Use::Latch => unreachable!("a latch is not acquired"),
        };
        let wait = match rng.u32(0..100) {
            0..30 => Wait::Try,
            30..65 => Wait::For(nanos(between(rng, 1, 800))),
            _ => Wait::Forever,
        };
        let again = match kind {
            Kind::Lock | Kind::Fair | Kind::Read => Some(kind),
            Kind::Write if rng.bool() => Some(Kind::Read),
            Kind::Write => Some(Kind::Write),
            Kind::Leader | Kind::Permits { .. } => None,
        };
        // Mostly short, so that much happens; now and then longer than a lease, so that it is renewed.
        let hold = match rng.u32(0..1000) {
            0..600 => between(rng, 0, 5),
            600..900 => between(rng, 5, 60),
            900..990 => between(rng, 60, 400),
            _ => lease.mul_f64(0.5 + rng.f64()),
        };
        let end = match rng.u32(0..100) {
            0..72 => End::Release,
            98.. if kind != Kind::Leader => End::Detach { release: chance(rng, 70) },
            _ => End::Drop,
        };
        let name = of.name(rng);
        // One hold of several entries is not detached: its id would stand for all of them.
        let again = again.filter(|_| chance(rng, 15) && !matches!(end, End::Detach { .. }));
        Self {
            name,
            kind,
            wait,
            lease: chance(rng, 20).then(|| lease.mul_f64(0.5 + rng.f64() / 2.0)),
            patience: chance(rng, 8).then(|| between(rng, 0, 300)),
            hold,
            again,
            writes: matches!(kind, Kind::Lock | Kind::Fair | Kind::Write | Kind::Leader) && chance(rng, 60),
            end,
        }
    }
}

impl Turn {
    pub(crate) fn draw(rng: &mut fastrand::Rng) -> Self {
        match rng.u32(0..100) {
            0..15 => Self::Set(rng.u64(1..5)),
            15..50 => Self::Down,
            50..65 => Self::Count,
            65..70 => Self::Delete,
            _ => Self::Wait(between(rng, 10, 800)),
        }
    }
}

/// The time until the next one.
pub(crate) fn rest(rng: &mut fastrand::Rng) -> Duration {
    if chance(rng, 3) { between(rng, 30, 500) } else { between(rng, 0, 30) }
}
