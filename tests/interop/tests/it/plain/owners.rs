//! What one side does about a lock that the other one has by now.

use std::time::Duration;

use super::side::granted;
use super::stage::{LEASE, Stage};
use super::{Case, KIND, Way};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_leaves_too_late", Way::FromTenure, the_peer_leaves_too_late),
        Case::new(KIND, "tenure_leaves_too_late", Way::FromPeer, tenure_leaves_too_late),
        Case::new(KIND, "tenure_sleeps_past_its_lease", Way::FromPeer, tenure_sleeps),
    ]
}

async fn the_peer_leaves_too_late(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    peer.enter(Duration::from_secs(1)).await;
    rust.enter(LEASE).await;
    let token = stage.token();
    assert!(token.is_some());
    peer.try_leave().await.expect_err("it was not in any more");
    assert_eq!(stage.token(), token);
    assert_eq!(rust.call("is-held plain @").await, "true");
    rust.leave().await;
    assert_eq!(stage.token(), None);
}

/// It does not know yet, and so asks the servers.
async fn tenure_leaves_too_late(stage: Stage) {
    let (peer, client) = (stage.peer(0).await, stage.client().await);
    let guard = client.lock(stage.name()).lease(LEASE).acquire().await.unwrap();
    stage.expire();
    peer.enter(LEASE).await;
    let token = peer.call("value @").await;
    assert!(matches!(guard.release().await, Err(tenure::Error::Lost(_))), "it was not in any more");
    assert_eq!(stage.token(), Some(token));
    peer.leave().await;
}

async fn tenure_sleeps(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.own_rust("lease=2s").await);
    rust.enter(Duration::ZERO).await;
    let waiting = peer.wait(LEASE);
    rust.signal("STOP");
    granted(waiting).await;
    let token = peer.call("value @").await;
    rust.signal("CONT");
    let late = rust.try_leave().await.expect_err("it was not in any more");
    assert_eq!(late.class(), Some("Lost"), "{late}");
    assert_eq!(stage.token(), Some(token));
    peer.leave().await;
}
