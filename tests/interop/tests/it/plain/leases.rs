//! Leases that end, and leases that are renewed.

use std::time::{Duration, Instant};

use super::side::granted;
use super::stage::{LEASE, Stage};
use super::{Case, KIND, Way};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peers_lease_ends", Way::FromPeer, the_peers_lease_ends),
        Case::new(KIND, "the_peer_extends", Way::FromPeer, the_peer_extends),
        Case::new(KIND, "tenure_renews_past_its_lease", Way::FromTenure, tenure_renews),
    ]
}

async fn the_peers_lease_ends(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    let (begin, lease) = (Instant::now(), Duration::from_secs(2));
    peer.enter(lease).await;
    granted(rust.wait(LEASE)).await;
    assert!(begin.elapsed() >= lease, "{:?}: two are in", begin.elapsed());
    rust.leave().await;
}

async fn the_peer_extends(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    let lease = Duration::from_secs(60);
    peer.enter(lease).await;
    let token = stage.token();
    let mut askers = stage.watch();
    let waiting = rust.wait(LEASE);
    askers.asked(&stage, 1).await;
    peer.call(&format!("extend @ {}", LEASE.as_millis())).await;
    assert!(stage.life() > lease.as_millis() as i64);
    assert!(waiting.is_open() && stage.token() == token, "Tenure is in");
    peer.leave().await;
    granted(waiting).await;
    rust.leave().await;
}

async fn tenure_renews(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.own_rust("lease=9s").await);
    rust.enter(Duration::ZERO).await;
    let token = stage.token();
    assert!((1..=9000).contains(&stage.life()));
    let waiting = peer.wait(LEASE);
    stage.renewed().await;
    assert!(waiting.is_open() && stage.token() == token, "the peer is in");
    rust.leave().await;
    granted(waiting).await;
    peer.leave().await;
}
