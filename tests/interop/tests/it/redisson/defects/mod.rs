//! Known defects of Redisson, in kinds that Tenure has, too: each case shows that Tenure does not have the defect.
//!
//! Left out are defects of Java's interrupts (in Rust a future is dropped, which has its own tests), and locks that
//! Tenure does not have (many values under one hash).

mod fences;
mod numbers;
mod queues;
mod renewal;

use std::future::Future;

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::Fixture;

pub(crate) fn cases() -> Vec<Case> {
    [renewal::cases(), queues::cases(), fences::cases(), numbers::cases()].into_iter().flatten().collect()
}

/// A case without a peer.
fn ours<F: Future<Output = ()> + Send + 'static>(
    kind: &'static str,
    name: &str,
    run: impl Fn(Fixture) -> F + Send + Sync + 'static,
) -> Case {
    Case::new(kind, &format!("defect_{name}"), Direction::Alone, run).one_server()
}
