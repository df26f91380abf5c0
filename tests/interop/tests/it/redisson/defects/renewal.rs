//! Holds that are counted, renewed or cut wrongly.

use std::sync::Arc;
use std::time::Duration;

use tenure::Owner;

use super::ours;
use crate::redisson::case::Case;
use crate::redisson::stage::{QUIET, Stage};
use crate::redisson::world::World;

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
async fn sent_again(stage: Stage) {
    let stage = Stage::new(Arc::new(World::alone()), stage.name());
    let server = &stage.world().nodes()[0];
    let client = stage.client("timeout=500ms&call_timeout=60s").await;
    client.lock("warm").acquire().await.unwrap().release().await.unwrap();
    server.stop().unwrap();
    let acquiring = tokio::spawn({
        let lock = client.lock(stage.name());
        async move { lock.acquire().await }
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    server.resume().unwrap();
    if let Ok(guard) = acquiring.await.unwrap() {
        assert_eq!(stage.number(&format!("HGET @ {}", guard.id())), 1);
        guard.release().await.unwrap();
    }
    // Nothing else of the same acquire comes later.
    stage.until("free again", || stage.number("EXISTS @") == 0).await;
    stage.stays("free", Duration::from_secs(2), || stage.number("EXISTS @") == 0).await;
}

/// In Redisson an unlock that no replica confirms throws, although the lock is free.
async fn without_replicas(stage: Stage) {
    let servers = testbed::Replicated::start(1).unwrap();
    let url = format!("{}?durability=replicas:1&lease=60s", servers.master().url());
    let client = tenure::connect(&url).await.unwrap();
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    servers.replicas()[0].stop().unwrap();
    let released = guard.release().await;
    let left = servers.master().cmd(&["EXISTS", stage.name()]).unwrap().int();
    servers.replicas()[0].resume().unwrap();
    assert!(released.is_ok(), "{released:?}");
    assert_eq!(left, Some(0));
}

/// Registered after it was released, a lock of Redisson is renewed as long as the process lives.
async fn renewed_for_ever(stage: Stage) {
    let client = stage.client("lease=9s").await;
    let lock = client.lock(stage.name());
    for n in 0..200 {
        let guard = lock.acquire().await.unwrap();
        if n % 2 == 0 { drop(guard) } else { guard.release().await.unwrap() }
    }
    stage.until("free", || stage.number("EXISTS @") == 0).await;
    let mut monitor = stage.world().nodes()[0].monitor().unwrap();
    // Longer than it takes to the next renewal.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let all = monitor.drain().unwrap();
    let about = all.iter().find(|seen| seen.words.iter().any(|word| word.contains(stage.name())));
    assert!(about.is_none(), "{about:?}");
}

/// A shard that hangs makes Redisson skip the renewal of all that come after it.
async fn one_bad_slot(stage: Stage) {
    let stage = Stage::new(Arc::new(World::alone_cluster()), stage.name());
    let world = stage.world();
    let client = stage.client("lease=9s&timeout=1s").await;
    let mut held = Vec::new();
    for node in &world.nodes()[..3] {
        let mut names = (0..).map(|n| format!("{}-{n}", stage.name()));
        let name = names.find(|name| world.node_of(name).port() == node.port()).expect("one for each node");
        held.push((client.lock(&name).acquire().await.unwrap(), name));
    }
    let bad = world.node_of(&held[0].1);
    bad.stop().unwrap();
    // Twice: one renewal may have been on its way.
    for _ in 0..2 {
        tokio::join!(stage.renewed(&held[1].1), stage.renewed(&held[2].1));
    }
    bad.resume().unwrap();
    for (guard, _) in held.drain(1..) {
        guard.release().await.unwrap();
    }
}

async fn shorter_inside(stage: Stage) {
    let client = stage.client(QUIET).await;
    let lock = client.lock(stage.name()).owner(&Owner::new());
    let outer = lock.acquire().await.unwrap();
    let inner = lock.clone().lease(Duration::from_secs(2)).acquire().await.unwrap();
    assert!(stage.number("PTTL @") > 15_000);
    inner.release().await.unwrap();
    assert!(stage.number("PTTL @") > 15_000);
    assert!(outer.is_held());
    outer.release().await.unwrap();
}

/// In Redisson a lease of one thread goes out with the lock of the next, if both use one object.
async fn left_over(stage: Stage) {
    let client = stage.client("poll=30m&lease=30s").await;
    let lock = client.lock(stage.name());
    let long = lock.clone().lease(Duration::from_secs(600)).acquire().await.unwrap();
    assert!(stage.number("PTTL @") > 500_000);
    let next = tokio::spawn(async move { lock.acquire().await });
    stage.listening("redisson_lock__channel:{@}", 1).await;
    long.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(stage.number("PTTL @") <= 30_000);
    next.release().await.unwrap();
}
