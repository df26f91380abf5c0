//! Defects that Redisson is known to have, in kinds that Tenure has too: each case shows that ours is without it.
//!
//! Not here: what comes of Java's interrupts (a future is dropped, and that is tested as such), and locks that Tenure
//! does not have (many values under one hash).

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

/// About Tenure alone.
fn ours<F: Future<Output = ()> + Send + 'static>(
    kind: &'static str,
    name: &str,
    run: impl Fn(Fixture) -> F + Send + Sync + 'static,
) -> Case {
    Case::new(kind, &format!("defect_{name}"), Direction::Alone, run).one_server()
}
