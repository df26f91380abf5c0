//! A lock without a lease, which only redis-py has.

use std::time::Duration;

use interop::Plain;
use interop::trials::{Direction, Suite};

use super::environment::{Library, Start};
use super::fixture::{Fixture, LEASE};
use super::{Case, KIND};
use crate::fixture::wait_for_grant;

pub(crate) fn add(suite: &mut Suite) {
    let start: Start = |servers| Box::pin(async move { Plain::redis_py(&servers[0]).await });
    let more = vec![Case::new(KIND, "the_peer_holds_without_a_lease", Direction::FromPeer, without_a_lease)];
    super::add(suite, Library { name: "redis-py", quorum: false, start }, more);
}

/// A lock of redis-py has no lease unless one is given.
async fn without_a_lease(fixture: Fixture) {
    let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
    peer.acquire(Duration::ZERO).await;
    assert_eq!(fixture.ttl_ms(), -1);
    let token = fixture.token();
    assert!(!rust.try_acquire().await, "two are in");
    let mut attempts = fixture.monitor_attempts();
    let waiting = rust.spawn_acquire(LEASE);
    attempts.wait_for(2).await;
    assert!(waiting.is_open(), "two are in");
    assert_eq!(fixture.token(), token);
    assert_eq!(fixture.ttl_ms(), -1);
    peer.release().await;
    wait_for_grant(waiting).await;
    assert!((1..=LEASE.as_millis() as i64).contains(&fixture.ttl_ms()));
    rust.release().await;
}
