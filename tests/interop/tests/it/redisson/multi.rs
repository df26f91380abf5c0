//! Several locks at once.

use std::time::Duration;

use testbed::done;

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE, QUIET};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "multi",
            "one_part_of_redissons_is_enough_to_wait_for",
            Direction::FromPeer,
            part_of_theirs,
        ),
        Case::new("multi", "one_part_of_ours_is_enough_to_wait_for", Direction::FromTenure, part_of_ours),
        Case::new("multi", "opposite_orders_do_not_deadlock", Direction::Both, opposite_orders),
    ]
}

/// Redisson acquires in one order and Tenure in the other: both make progress.
async fn opposite_orders(fixture: Fixture) {
    const TIMES: usize = 15;
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let [a, b] = [1, 2].map(|n| client.lock(format!("{}{n}", fixture.name())).lease(LEASE));
    let ours = tokio::spawn(async move {
        let multi = tenure::multi([b, a]);
        for _ in 0..TIMES {
            let guards = multi.acquire().await.expect("granted");
            tokio::time::sleep(Duration::from_millis(2)).await;
            guards.release().await.expect("released");
        }
    });
    for _ in 0..TIMES {
        jvm.call("a", "multi.lock @1,@2 1800000").await;
        jvm.call("a", "multi.unlock @1,@2").await;
    }
    done("all of ours", ours).await;
}

async fn part_of_theirs(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let [a, b] = [1, 2].map(|n| client.lock(format!("{}{n}", fixture.name())).lease(LEASE));
    jvm.call("a", "lock plain @2 1800000").await;
    let multi = tenure::multi([a.clone(), b]);
    assert!(multi.try_acquire().await.unwrap().is_none());
    assert!(!a.is_locked().await.unwrap(), "what it got of them was given back");
    let waiting = tokio::spawn(async move { multi.acquire().await });
    fixture.wait_for_subscribers("redisson_lock__channel:{@2}", 1).await;
    // It holds nothing while it waits.
    jvm.expect_answer("a", "try plain @1", "true").await;
    jvm.call("a", "unlock plain @1").await;
    jvm.call("a", "unlock plain @2").await;
    let guards = waiting.await.unwrap().expect("granted");
    for n in [1, 2] {
        jvm.expect_answer("a", &format!("try plain @{n}"), "false").await;
    }
    guards.release().await.unwrap();
    jvm.expect_answer("a", "multi.try @1,@2", "true").await;
    jvm.call("a", "multi.unlock @1,@2").await;
}

async fn part_of_ours(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let guard = client.lock(format!("{}2", fixture.name())).lease(LEASE).acquire().await.unwrap();
    jvm.expect_answer("a", "multi.try @1,@2", "false").await;
    let waiting = jvm.spawn("a", "multi.lock @1,@2 1800000");
    fixture.wait_for_subscribers("redisson_lock__channel:{@2}", 1).await;
    guard.release().await.unwrap();
    waiting.answer().await.expect("granted");
    for n in [1, 2] {
        let lock = client.lock(format!("{}{n}", fixture.name()));
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    jvm.call("a", "multi.unlock @1,@2").await;
}
