//! What only redis-py has: a lock without a lease.

use std::time::Duration;

use interop::Plain;
use interop::trials::{Suite, Way};

use super::side::granted;
use super::stage::{LEASE, Stage};
use super::world::{Library, Start};
use super::{Case, KIND};

pub(crate) fn add(suite: &mut Suite) {
    let start: Start = |servers| Box::pin(async move { Plain::redis_py(&servers[0]).await });
    let more = vec![Case::new(KIND, "the_peer_holds_without_a_lease", Way::FromPeer, without_a_lease)];
    super::add(suite, Library { name: "redis-py", quorum: false, start }, more);
}

/// Its lock has none unless it is given one.
async fn without_a_lease(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    peer.enter(Duration::ZERO).await;
    assert_eq!(stage.life(), -1);
    let token = stage.token();
    assert!(!rust.attempt().await, "two are in");
    let mut askers = stage.watch();
    let waiting = rust.wait(LEASE);
    askers.asked(&stage, 2).await;
    assert!(waiting.is_open(), "two are in");
    assert_eq!(stage.token(), token);
    assert_eq!(stage.life(), -1);
    peer.leave().await;
    granted(waiting).await;
    assert!((1..=LEASE.as_millis() as i64).contains(&stage.life()));
    rust.leave().await;
}
