//! Leases that end, and leases that are renewed.

use std::time::{Duration, Instant};

use super::fixture::{Fixture, LEASE};
use super::{Case, Direction, KIND};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peers_lease_ends", Direction::FromPeer, the_peers_lease_ends),
        Case::new(KIND, "the_peer_extends", Direction::FromPeer, the_peer_extends),
        Case::new(KIND, "tenure_renews_past_its_lease", Direction::FromTenure, tenure_renews),
    ]
}

async fn the_peers_lease_ends(fixture: Fixture) {
    let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
    let (begin, lease) = (Instant::now(), Duration::from_secs(2));
    peer.acquire(lease).await;
    wait_for_grant(rust.spawn_acquire(LEASE)).await;
    assert!(begin.elapsed() >= lease, "{:?}: two are in", begin.elapsed());
    rust.release().await;
}

async fn the_peer_extends(fixture: Fixture) {
    let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
    let lease = Duration::from_secs(60);
    peer.acquire(lease).await;
    let token = fixture.token();
    let mut attempts = fixture.monitor_attempts();
    let waiting = rust.spawn_acquire(LEASE);
    attempts.wait_for(1).await;
    peer.call(&format!("extend @ {}", LEASE.as_millis())).await;
    assert!(fixture.ttl_ms() > lease.as_millis() as i64);
    assert!(waiting.is_open() && fixture.token() == token, "Tenure is in");
    peer.release().await;
    wait_for_grant(waiting).await;
    rust.release().await;
}

async fn tenure_renews(fixture: Fixture) {
    let (peer, rust) = (fixture.peer(0).await, fixture.own_tenure("lease=9s").await);
    rust.acquire(Duration::ZERO).await;
    let token = fixture.token();
    assert!((1..=9000).contains(&fixture.ttl_ms()));
    let waiting = peer.spawn_acquire(LEASE);
    fixture.wait_for_renewal().await;
    assert!(waiting.is_open() && fixture.token() == token, "the peer is in");
    rust.release().await;
    wait_for_grant(waiting).await;
    peer.release().await;
}
