//! Mutual exclusion and hand-over.

use std::time::Duration;

use super::fixture::{Fixture, LEASE};
use super::side::Side;
use super::{Case, Direction, KIND};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_with_itself", Direction::Alone, |fixture| async move {
            let (first, second) = (fixture.peer(0).await, fixture.peer(1).await);
            hand_over(&fixture, &first, &second).await;
        }),
        Case::new(KIND, "the_peer_holds_tenure_waits", Direction::FromPeer, |fixture| async move {
            let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
            hand_over(&fixture, &peer, &rust).await;
        }),
        Case::new(KIND, "tenure_holds_the_peer_waits", Direction::FromTenure, |fixture| async move {
            let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
            hand_over(&fixture, &rust, &peer).await;
        }),
        Case::new(KIND, "tenure_sees_the_peer", Direction::FromPeer, tenure_sees_the_peer),
        Case::new(KIND, "a_number_kept_by_both_loses_nothing", Direction::Both, keep_a_number),
    ]
}

pub(crate) async fn hand_over(fixture: &Fixture, holder: &Side, waiter: &Side) {
    holder.acquire(LEASE).await;
    let token = fixture.token();
    assert!(token.is_some());
    assert!(!waiter.try_acquire().await, "two are in");
    let mut attempts = fixture.monitor_attempts();
    let waiting = waiter.spawn_acquire(LEASE);
    attempts.wait_for(2).await;
    assert!(waiting.is_open(), "two are in");
    assert_eq!(fixture.token(), token);
    holder.release().await;
    wait_for_grant(waiting).await;
    assert_ne!(fixture.token(), token);
    assert!(!holder.try_acquire().await, "two are in");
    waiter.release().await;
    assert_eq!(fixture.token(), None);
    holder.acquire(LEASE).await;
    holder.release().await;
}

async fn tenure_sees_the_peer(fixture: Fixture) {
    let (peer, client) = (fixture.peer(0).await, fixture.client().await);
    let lock = client.lock(fixture.name());
    assert!(!lock.is_locked().await.unwrap());
    peer.acquire(LEASE).await;
    let token = peer.call("value @").await;
    assert_eq!(fixture.token(), Some(token.clone()));
    assert!(lock.try_acquire().await.unwrap().is_none(), "two are in");
    assert!(lock.try_acquire_for(Duration::from_secs(3)).await.unwrap().is_none(), "two are in");
    assert!(lock.is_locked().await.unwrap());
    assert_eq!(fixture.token(), Some(token));
    peer.release().await;
    let guard = lock.try_acquire().await.unwrap().expect("free again");
    assert!(!peer.try_acquire().await, "two are in");
    guard.release().await.unwrap();
    assert_eq!(fixture.token(), None);
}

/// By two processes of each side.
async fn keep_a_number(fixture: Fixture) {
    let n = 25;
    let sides =
        [fixture.peer(0).await, fixture.peer(1).await, fixture.tenure(0).await, fixture.tenure(1).await];
    let loops: Vec<_> = sides.iter().map(|side| side.count(n)).collect();
    for one in loops {
        assert_eq!(one.answer_while(|| fixture.progress()).await.expect("all counted"), n.to_string());
    }
    assert_eq!(fixture.number(), 4 * n, "two were in at once");
    assert_eq!(fixture.token(), None);
}
