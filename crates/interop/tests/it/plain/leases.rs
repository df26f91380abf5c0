//! Leases that end, and leases that are renewed.

use std::time::{Duration, Instant};

use super::side::granted;
use super::stage::{LEASE, Stage, assert_soon};
use super::{Case, KIND, Way};

/// Long enough for a request on a busy machine.
const SHORT: Duration = Duration::from_secs(4);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peers_lease_ends", Way::FromPeer, the_peers_lease_ends),
        Case::new(KIND, "the_peer_extends", Way::FromPeer, the_peer_extends),
        Case::new(KIND, "tenure_renews_past_its_lease", Way::FromTenure, tenure_renews),
    ]
}

async fn the_peers_lease_ends(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    let begin = Instant::now();
    peer.enter(SHORT).await;
    let entered = Instant::now();
    granted(rust.wait(LEASE)).await;
    assert!(begin.elapsed() >= SHORT, "{:?}: two are in", begin.elapsed());
    assert_soon(entered + SHORT, "the hand-over after the lease");
    rust.leave().await;
}

async fn the_peer_extends(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    peer.enter(SHORT).await;
    let token = stage.token();
    let waiting = rust.wait(LEASE);
    peer.call(&format!("extend @ {}", LEASE.as_millis())).await;
    assert!(stage.life() > SHORT.as_millis() as i64);
    let out = || waiting.is_open() && stage.token() == token;
    stage.stays("Tenure is out", SHORT + Duration::from_secs(1), out).await;
    let begin = Instant::now();
    peer.leave().await;
    granted(waiting).await;
    assert_soon(begin, "the hand-over");
    rust.leave().await;
}

async fn tenure_renews(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.own_rust("lease=3s").await);
    rust.enter(Duration::ZERO).await;
    let token = stage.token();
    assert!((1..=3000).contains(&stage.life()));
    let waiting = peer.wait(LEASE);
    let out = || waiting.is_open() && stage.token() == token;
    stage.stays("the peer is out", Duration::from_secs(7), out).await;
    let begin = Instant::now();
    rust.leave().await;
    granted(waiting).await;
    assert_soon(begin, "the hand-over");
    peer.leave().await;
}
