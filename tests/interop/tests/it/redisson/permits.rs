//! The semaphore with recorded permits, each with a lease (Redisson's `PermitExpirableSemaphore`).

use std::time::{Duration, Instant};

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE, QUIET};

const KIND: &str = "permits";
const CHANNEL: &str = "redisson_sc:{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "both_count_the_permits_of_the_other", Direction::Both, permits_of_both_count),
        Case::new(KIND, "a_permit_of_redisson_ends", Direction::FromPeer, ends_in_redisson),
        Case::new(KIND, "a_permit_of_tenure_ends", Direction::FromTenure, ends_in_tenure),
        Case::new(KIND, "three_permits_under_one_guard", Direction::FromTenure, three_at_once),
        Case::new(KIND, "either_side_changes_the_size", Direction::Both, resize),
    ]
}

async fn permits_of_both_count(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let semaphore = client.semaphore(fixture.name(), 2);
    jvm.expect_answer("a", "permit.set @ 2", "true").await;
    let id = jvm.call("a", "permit.try @ 0 1800000").await;
    assert_eq!(semaphore.available().await.unwrap(), 1);
    let guard = semaphore.permits(1).lease(LEASE).acquire().await.unwrap();
    jvm.expect_answer("a", "permit.available @", "0").await;
    jvm.expect_answer("a", "permit.acquired @", "2").await;
    jvm.expect_answer("a", "permit.try @ 0 1800000", "none").await;
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let ours = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    jvm.call("a", &format!("permit.release @ {id}")).await;
    let second = ours.await.unwrap().expect("granted");
    let theirs = jvm.spawn("b", "permit.acquire @ 1800000");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    guard.release().await.unwrap();
    let id = theirs.answer().await.expect("granted");
    jvm.call("b", &format!("permit.release @ {id}")).await;
    second.release().await.unwrap();
    jvm.expect_answer("a", "permit.available @", "2").await;
    jvm.expect_answer("a", "permit.acquired @", "0").await;
}

/// Tenure waits for the permit's lease plus the slack: a JVM whose clock is behind holds it for longer.
async fn ends_in_redisson(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client("poll=30m&lease=30m&permit_slack=1s").await);
    jvm.expect_answer("a", "permit.set @ 1", "true").await;
    let begin = Instant::now();
    let id = jvm.call("a", "permit.try @ 0 3000").await;
    let guard = client.semaphore(fixture.name(), 1).acquire().await.unwrap();
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(3), "after {took:?} of 3 s");
    jvm.expect_answer("a", &format!("permit.try-release @ {id}"), "false").await;
    assert!(guard.is_held());
    jvm.expect_answer("a", "permit.available @", "0").await;
    guard.release().await.unwrap();
    jvm.expect_answer("a", "permit.available @", "1").await;
}

/// For Redisson, a permit of Tenure ends after its lease plus the slack.
async fn ends_in_tenure(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client("poll=30m&lease=30m&permit_slack=1s").await);
    let lease = Duration::from_secs(3);
    let begin = Instant::now();
    let guard = client.semaphore(fixture.name(), 1).permits(1).lease(lease).acquire().await.unwrap();
    let id = jvm.call("a", "permit.acquire @ 1800000").await;
    let took = begin.elapsed();
    // Tenure returns it when it has ended by its own clock, which allows for drift.
    assert!(took > lease * 9 / 10, "after {took:?} of 3 s");
    assert!(!guard.is_held());
    assert!(guard.release().await.is_err());
    jvm.expect_answer("a", "permit.available @", "0").await;
    jvm.call("a", &format!("permit.release @ {id}")).await;
}

async fn three_at_once(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    jvm.expect_answer("a", "permit.set @ 4", "true").await;
    let semaphore = client.semaphore(fixture.name(), 4);
    let three = semaphore.acquire_many(3).await.unwrap();
    jvm.expect_answer("a", "permit.acquired @", "3").await;
    jvm.expect_answer("a", "permit.try-many @ 2 0 1800000", "none").await;
    let one = jvm.call("a", "permit.try @ 0 1800000").await;
    let waiting = jvm.spawn("b", "permit.try-many @ 2 1800000 1800000");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    three.release().await.unwrap();
    let two = waiting.answer().await.expect("granted");
    jvm.call("a", &format!("permit.release @ {one},{two}")).await;
    assert_eq!(semaphore.available().await.unwrap(), 4);
}

async fn resize(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let semaphore = client.semaphore(fixture.name(), 2);
    let guard = semaphore.acquire().await.unwrap();
    jvm.expect_answer("a", "permit.size @", "2").await;
    semaphore.resize(3).await.unwrap();
    jvm.expect_answer("a", "permit.size @", "3").await;
    jvm.expect_answer("a", "permit.available @", "2").await;
    jvm.call("a", "permit.resize @ 1").await;
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
}
