//! Processes of either side killed while they hold.

use std::time::{Duration, Instant};

use super::fixture::{Fixture, LEASE};
use super::side::Side;
use super::{Case, Direction, KIND};
use crate::fixture::wait_for_grant;

/// The lease of processes that are killed.
const SHORT: Duration = Duration::from_secs(3);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_dies_holding", Direction::FromPeer, |fixture| async move {
            let (victim, next) = (fixture.own_peer().await, fixture.tenure(0).await);
            dies_holding(&fixture, &victim, &next).await;
        }),
        Case::new(KIND, "tenure_dies_holding", Direction::FromTenure, |fixture| async move {
            let (victim, next) = (fixture.own_tenure("").await, fixture.peer(0).await);
            dies_holding(&fixture, &victim, &next).await;
        }),
    ]
}

/// The next one is granted the lock once the lease of the dead holder has ended, and not before.
async fn dies_holding(fixture: &Fixture, victim: &Side, next: &Side) {
    let begin = Instant::now();
    victim.acquire(SHORT).await;
    let mut attempts = fixture.monitor_attempts();
    let waiting = next.spawn_acquire(LEASE);
    attempts.wait_for(1).await;
    victim.kill().await;
    wait_for_grant(waiting).await;
    assert!(begin.elapsed() >= SHORT, "{:?}: two are in", begin.elapsed());
    next.release().await;
}
