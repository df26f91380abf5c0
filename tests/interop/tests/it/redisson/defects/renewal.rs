//! Holds that are counted, renewed or shortened wrongly.

use std::sync::Arc;
use std::time::Duration;

use tenure::Owner;
use testbed::until_true;

use super::ours;
use crate::redisson::case::Case;
use crate::redisson::environment::Environment;
use crate::redisson::fixture::{Fixture, QUIET};

pub(super) fn cases() -> Vec<Case> {
    vec![
        ours("lock", "an_acquire_sent_again_counts_twice", sent_again),
        ours("lock", "a_release_without_replicas_is_an_error", without_replicas),
        ours("lock", "a_released_lock_is_renewed_for_ever", renewed_for_ever),
        ours("lock", "one_bad_slot_stops_all_renewals", one_bad_slot),
        ours("lock", "a_shorter_lease_inside_cuts_the_outer_one", shorter_inside),
        ours("lock", "a_lease_is_left_over_for_others", left_over),
    ]
}

/// A server that does not answer in time makes Redisson send the acquire again: held twice, and unlocked once.
async fn sent_again(fixture: Fixture) {
    let fixture = Fixture::new(Arc::new(Environment::start_single()), fixture.name());
    let server = &fixture.environment().nodes()[0];
    let client = fixture.client("timeout=500ms&call_timeout=60s").await;
    client.lock("warm").acquire().await.unwrap().release().await.unwrap();
    server.stop().unwrap();
    let acquiring = tokio::spawn({
        let lock = client.lock(fixture.name());
        async move { lock.acquire().await }
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    server.resume().unwrap();
    if let Ok(guard) = acquiring.await.unwrap() {
        assert_eq!(fixture.number(&format!("HGET @ {}", guard.id())), 1);
        guard.release().await.unwrap();
    }
    // No repeat of this acquire is executed later.
    until_true("free again", || fixture.number("EXISTS @") == 0).await;
    fixture.assert_stays("free", Duration::from_secs(2), || fixture.number("EXISTS @") == 0).await;
}

/// In Redisson an unlock that no replica confirms throws, although the lock is free.
async fn without_replicas(fixture: Fixture) {
    let servers = testbed::Replicated::start(1).unwrap();
    let url = format!("{}?durability=replicas:1&lease=60s", servers.master().url());
    let client = tenure::connect(&url).await.unwrap();
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    servers.replicas()[0].stop().unwrap();
    let released = guard.release().await;
    let left = servers.master().cmd(&["EXISTS", fixture.name()]).unwrap().int();
    servers.replicas()[0].resume().unwrap();
    assert!(released.is_ok(), "{released:?}");
    assert_eq!(left, Some(0));
}

/// A lock of Redisson that is registered for renewal after its release is renewed as long as the process lives.
async fn renewed_for_ever(fixture: Fixture) {
    let client = fixture.client("lease=9s").await;
    let lock = client.lock(fixture.name());
    for n in 0..200 {
        let guard = lock.acquire().await.unwrap();
        if n % 2 == 0 { drop(guard) } else { guard.release().await.unwrap() }
    }
    until_true("free", || fixture.number("EXISTS @") == 0).await;
    let mut monitor = fixture.environment().nodes()[0].monitor().unwrap();
    // Longer than the interval of renewals.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let all = monitor.drain().unwrap();
    let about = all.iter().find(|seen| seen.words.iter().any(|word| word.contains(fixture.name())));
    assert!(about.is_none(), "{about:?}");
}

/// A shard that hangs makes Redisson skip the renewal of all locks after it.
async fn one_bad_slot(fixture: Fixture) {
    let fixture = Fixture::new(Arc::new(Environment::start_cluster()), fixture.name());
    let environment = fixture.environment();
    let client = fixture.client("lease=9s&timeout=1s").await;
    let mut held = Vec::new();
    for node in &environment.nodes()[..3] {
        let mut names = (0..).map(|n| format!("{}-{n}", fixture.name()));
        let name =
            names.find(|name| environment.node_of(name).port() == node.port()).expect("one for each node");
        held.push((client.lock(&name).acquire().await.unwrap(), name));
    }
    let bad = environment.node_of(&held[0].1);
    bad.stop().unwrap();
    // Twice: one renewal may have been in flight.
    for _ in 0..2 {
        tokio::join!(fixture.wait_for_renewal(&held[1].1), fixture.wait_for_renewal(&held[2].1));
    }
    bad.resume().unwrap();
    for (guard, _) in held.drain(1..) {
        guard.release().await.unwrap();
    }
}

async fn shorter_inside(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    let lock = client.lock(fixture.name()).owner(&Owner::new());
    let outer = lock.acquire().await.unwrap();
    let inner = lock.clone().lease(Duration::from_secs(2)).acquire().await.unwrap();
    assert!(fixture.number("PTTL @") > 15_000);
    inner.release().await.unwrap();
    assert!(fixture.number("PTTL @") > 15_000);
    assert!(outer.is_held());
    outer.release().await.unwrap();
}

/// In Redisson, the lease of one thread applies to the lock of the next thread if both use one object.
async fn left_over(fixture: Fixture) {
    let client = fixture.client("poll=30m&lease=30s").await;
    let lock = client.lock(fixture.name());
    let long = lock.clone().lease(Duration::from_secs(600)).acquire().await.unwrap();
    assert!(fixture.number("PTTL @") > 500_000);
    let next = tokio::spawn(async move { lock.acquire().await });
    fixture.wait_for_subscribers("redisson_lock__channel:{@}", 1).await;
    long.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(fixture.number("PTTL @") <= 30_000);
    next.release().await.unwrap();
}
