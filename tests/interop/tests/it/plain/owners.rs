//! Releases by a former holder, when the other side has the lock.

use std::time::Duration;

use super::fixture::{Fixture, LEASE};
use super::{Case, Direction, KIND};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_leaves_too_late", Direction::FromTenure, the_peer_leaves_too_late),
        Case::new(KIND, "tenure_leaves_too_late", Direction::FromPeer, tenure_leaves_too_late),
        Case::new(KIND, "tenure_sleeps_past_its_lease", Direction::FromPeer, tenure_sleeps),
    ]
}

async fn the_peer_leaves_too_late(fixture: Fixture) {
    let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
    peer.acquire(Duration::from_secs(1)).await;
    rust.acquire(LEASE).await;
    let token = fixture.token();
    assert!(token.is_some());
    peer.try_release().await.expect_err("it was not in any more");
    assert_eq!(fixture.token(), token);
    assert_eq!(rust.call("is-held plain @").await, "true");
    rust.release().await;
    assert_eq!(fixture.token(), None);
}

/// Its guard is still valid by its own clock, so that the servers decide.
async fn tenure_leaves_too_late(fixture: Fixture) {
    let (peer, client) = (fixture.peer(0).await, fixture.client().await);
    let guard = client.lock(fixture.name()).lease(LEASE).acquire().await.unwrap();
    fixture.expire();
    peer.acquire(LEASE).await;
    let token = peer.call("value @").await;
    assert!(matches!(guard.release().await, Err(tenure::Error::Lost(_))), "it was not in any more");
    assert_eq!(fixture.token(), Some(token));
    peer.release().await;
}

async fn tenure_sleeps(fixture: Fixture) {
    let (peer, rust) = (fixture.peer(0).await, fixture.own_tenure("lease=2s").await);
    rust.acquire(Duration::ZERO).await;
    let waiting = peer.spawn_acquire(LEASE);
    rust.signal("STOP");
    wait_for_grant(waiting).await;
    let token = peer.call("value @").await;
    rust.signal("CONT");
    let late = rust.try_release().await.expect_err("it was not in any more");
    assert_eq!(late.class(), Some("Lost"), "{late}");
    assert_eq!(fixture.token(), Some(token));
    peer.release().await;
}
