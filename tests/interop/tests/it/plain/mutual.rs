//! One is in at a time, and the next one soon after.

use std::time::Duration;

use super::side::{Side, granted};
use super::stage::{LEASE, Stage};
use super::{Case, KIND, Way};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_with_itself", Way::Alone, |stage| async move {
            let (first, second) = (stage.peer(0).await, stage.peer(1).await);
            hand_over(&stage, &first, &second).await;
        }),
        Case::new(KIND, "the_peer_holds_tenure_waits", Way::FromPeer, |stage| async move {
            let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
            hand_over(&stage, &peer, &rust).await;
        }),
        Case::new(KIND, "tenure_holds_the_peer_waits", Way::FromTenure, |stage| async move {
            let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
            hand_over(&stage, &rust, &peer).await;
        }),
        Case::new(KIND, "tenure_sees_the_peer", Way::FromPeer, tenure_sees_the_peer),
        Case::new(KIND, "a_number_kept_by_both_loses_nothing", Way::Both, keep_a_number),
    ]
}

pub(crate) async fn hand_over(stage: &Stage, holder: &Side, waiter: &Side) {
    holder.enter(LEASE).await;
    let token = stage.token();
    assert!(token.is_some());
    assert!(!waiter.attempt().await, "two are in");
    let mut askers = stage.watch();
    let waiting = waiter.wait(LEASE);
    askers.asked(stage, 2).await;
    assert!(waiting.is_open(), "two are in");
    assert_eq!(stage.token(), token);
    holder.leave().await;
    granted(waiting).await;
    assert_ne!(stage.token(), token);
    assert!(!holder.attempt().await, "two are in");
    waiter.leave().await;
    assert_eq!(stage.token(), None);
    holder.enter(LEASE).await;
    holder.leave().await;
}

async fn tenure_sees_the_peer(stage: Stage) {
    let (peer, client) = (stage.peer(0).await, stage.client().await);
    let lock = client.lock(stage.name());
    assert!(!lock.is_locked().await.unwrap());
    peer.enter(LEASE).await;
    let token = peer.call("value @").await;
    assert_eq!(stage.token(), Some(token.clone()));
    assert!(lock.try_acquire().await.unwrap().is_none(), "two are in");
    assert!(lock.try_acquire_for(Duration::from_secs(3)).await.unwrap().is_none(), "two are in");
    assert!(lock.is_locked().await.unwrap());
    assert_eq!(stage.token(), Some(token));
    peer.leave().await;
    let guard = lock.try_acquire().await.unwrap().expect("free again");
    assert!(!peer.attempt().await, "two are in");
    guard.release().await.unwrap();
    assert_eq!(stage.token(), None);
}

/// By two processes of each side.
async fn keep_a_number(stage: Stage) {
    let n = 25;
    let sides = [stage.peer(0).await, stage.peer(1).await, stage.rust(0).await, stage.rust(1).await];
    let loops: Vec<_> = sides.iter().map(|side| side.count(n)).collect();
    for one in loops {
        assert_eq!(one.answer_while(|| stage.progress()).await.expect("all counted"), n.to_string());
    }
    assert_eq!(stage.number(), 4 * n, "two were in at once");
    assert_eq!(stage.token(), None);
}
