//! Waiters that spin, stay in the queue, are removed or are not notified.

use std::time::Duration;

use tenure::{Error, Owner};
use testbed::{done, within};

use super::ours;
use crate::redisson::case::Case;
use crate::redisson::fixture::{Fixture, LEASE, QUIET};

pub(super) fn cases() -> Vec<Case> {
    vec![
        ours("fair", "waiters_behind_a_dead_head_spin", dead_head),
        ours("fair", "waiters_for_a_key_without_a_ttl_spin", no_ttl),
        ours("fair", "giving_up_throws_others_out", giving_up),
        ours("fair", "a_waiter_that_was_stopped_stays_in_the_queue", ghost),
        ours("read/write", "the_last_writer_tells_no_reader", untold_readers),
        ours("multi", "unlocking_stops_at_the_first_error", stops_at_the_first),
    ]
}

/// The lock is free, but the first in the queue never takes it: the waiters behind it repeat attempts without a pause.
async fn dead_head(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    let dead = "8a5b0d0e-26c3-4d5f-9d4b-000000000000:1";
    fixture.command(&format!("RPUSH redisson_lock_queue:{{@}} {dead}"));
    fixture.command(&format!("ZADD redisson_lock_timeout:{{@}} {} {dead}", fixture.now() + 5000));
    let mut monitor = fixture.environment().nodes()[0].monitor().unwrap();
    let guard = client.lock(fixture.name()).fair().acquire().await.unwrap();
    let all = monitor.drain().unwrap();
    let asked =
        all.iter().filter(|seen| !seen.is_in_script() && seen.words.iter().any(|w| w == fixture.name()));
    let asked = asked.count();
    assert!(asked < 30, "asked {asked} times");
    guard.release().await.unwrap();
}

/// A key without a TTL would be waited for forever, so the acquire fails at once.
async fn no_ttl(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    fixture.command("HSET @ somebody 1");
    for lock in [client.lock(fixture.name()).fair(), client.lock(fixture.name())] {
        let error = within("the error", lock.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)) && error.to_string().contains("TTL"), "{error}");
    }
}

/// A waiter that gives up subtracts its own timeout from the scores behind it, not five minutes.
async fn giving_up(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let lock = client.lock(fixture.name()).fair();
    let holder = lock.clone().lease(LEASE).acquire().await.unwrap();
    let waits = |wait: u64| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.try_acquire_for(Duration::from_secs(wait)).await })
    };
    let short = waits(30);
    fixture.wait_for_queue(1).await;
    let next = jvm.spawn("next", "lock fair @ 1800000");
    let behind = fixture.wait_for_queue(2).await.remove(1);
    // Redisson's scores do not change by themselves.
    let score = || {
        let text = fixture.command(&format!("ZSCORE redisson_lock_timeout:{{@}} {behind}")).text();
        text.parse::<f64>().expect("it is in the queue")
    };
    let before = score();
    assert!(short.await.unwrap().unwrap().is_none());
    assert_eq!(fixture.wait_for_queue(1).await, std::slice::from_ref(&behind));
    // Its timeout: the rest of the thirty seconds when it was queued.
    let off = before - score();
    assert!((1.0..=30_000.0).contains(&off), "{off} ms were taken off");
    // A new attempt removes expired waiters, and does not overtake the others.
    let last = waits(LEASE.as_secs());
    assert_eq!(fixture.wait_for_queue(2).await[0], behind);
    holder.release().await.unwrap();
    next.answer().await.expect("granted");
    jvm.call("next", "unlock fair @").await;
    last.await.unwrap().unwrap().expect("granted").release().await.unwrap();
}

async fn ghost(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    let lock = client.lock(fixture.name()).fair();
    let holder = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    fixture.wait_for_queue(1).await;
    waiting.abort();
    fixture.wait_for_queue(0).await;
    assert_eq!(fixture.number("ZCARD redisson_lock_timeout:{@}"), 0);
    holder.release().await.unwrap();
}

async fn untold_readers(fixture: Fixture) {
    let [client, other] = [fixture.client(QUIET).await, fixture.client(QUIET).await];
    let (me, both) = (Owner::new(), client.rwlock(fixture.name()));
    let write = both.write().owner(&me).acquire().await.unwrap();
    let read = both.read().owner(&me).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = other.rwlock(fixture.name()).read();
        async move { lock.acquire().await }
    });
    fixture.wait_for_subscribers("redisson_rwlock:{@}", 1).await;
    write.release().await.unwrap();
    let second = done("told", waiting).await.unwrap();
    second.release().await.unwrap();
    read.release().await.unwrap();
}

async fn stops_at_the_first(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    let parts = [1, 2, 3].map(|n| client.lock(format!("{}{n}", fixture.name())));
    let guards = tenure::multi(parts).acquire().await.unwrap();
    fixture.command("DEL @1");
    assert!(guards.release().await.is_err());
    for n in [2, 3] {
        assert_eq!(fixture.number(&format!("EXISTS @{n}")), 0, "part {n} is still held");
    }
}
