//! Several locks at once.

use crate::curator::fixture::Fixture;
use crate::curator::mutual::KindCommands;
use crate::curator::side::Side;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("multi", "one_part_of_curators_is_enough_to_wait_for", Direction::FromPeer, part_of_theirs),
        Case::new("multi", "one_part_of_ours_is_enough_to_wait_for", Direction::FromTenure, part_of_ours),
        Case::new("multi", "opposite_orders_do_not_deadlock", Direction::Both, opposite_orders),
    ]
}

async fn part_of_theirs(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let [a, b] = [1, 2].map(|n| client.lock(format!("{}{n}", fixture.name())));
    jvm.call("holder", "lock plain @2").await;
    let multi = tenure::multi([a, b]);
    assert!(multi.try_acquire().await.unwrap().is_none());
    // The members that were free are released again.
    fixture.wait_for_children("@1", 0).await;
    let waiting = tokio::spawn(async move { multi.acquire().await });
    fixture.wait_for_children("@2", 2).await;
    // It holds nothing while it waits.
    jvm.expect_answer("other", "try plain @1 120000", "true").await;
    jvm.call("other", "unlock plain @1").await;
    jvm.call("holder", "unlock plain @2").await;
    let guards = waiting.await.unwrap().expect("granted");
    for n in [1, 2] {
        jvm.expect_answer("other", &format!("try plain @{n}"), "false").await;
    }
    guards.release().await.unwrap();
    jvm.expect_answer("other", "try multi @1,@2 120000", "true").await;
    jvm.call("other", "unlock multi @1,@2").await;
}

/// Curator keeps the members that it has while it waits for the others.
async fn part_of_ours(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let guard = client.lock(format!("{}2", fixture.name())).acquire().await.unwrap();
    jvm.expect_answer("other", "try multi @1,@2 100", "false").await;
    fixture.wait_for_children("@1", 0).await;
    let waiting = jvm.spawn("waiter", "lock multi @1,@2");
    fixture.wait_for_children("@2", 2).await;
    assert!(client.lock(format!("{}1", fixture.name())).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    wait_for_grant(waiting).await;
    for n in [1, 2] {
        let lock = client.lock(format!("{}{n}", fixture.name()));
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    jvm.call("waiter", "unlock multi @1,@2").await;
}

/// Curator waits for one while it holds the other; Tenure does not.
async fn opposite_orders(fixture: Fixture) {
    let n = 20;
    let commands = KindCommands::of("multi");
    let jvm = commands.jvm(&fixture, 0).await;
    let rust = Side::new(fixture.worker(0).await, "multi @2,@1", "0");
    for one in [jvm.count("loop", n), rust.count("loop", n)] {
        assert_eq!(one.answer_while(|| fixture.progress()).await.expect("all counted"), n.to_string());
    }
    assert_eq!(fixture.number(), 2 * n, "two were in at once");
    commands.wait_until_empty(&fixture).await;
}
