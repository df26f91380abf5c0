//! The semaphore with several permits.

use crate::curator::fixture::Fixture;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

const KIND: &str = "semaphore";
const LEASES: &str = "@/leases";
const LOCKS: &str = "@/locks";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "both_count_the_permits_of_the_other", Direction::Both, permits_of_both_count),
        Case::new(KIND, "curator_takes_two_one_by_one", Direction::FromPeer, curator_takes_two),
        Case::new(KIND, "tenure_takes_two_at_once", Direction::FromTenure, tenure_takes_two),
        Case::new(KIND, "three_permits_under_one_guard", Direction::FromTenure, three_under_one_guard),
        Case::new(KIND, "curator_reads_the_size_from_a_shared_count", Direction::Both, shared_count),
    ]
}

async fn permits_of_both_count(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let semaphore = client.semaphore(fixture.name(), 2);
    jvm.call("first", "lock permit:2 @").await;
    assert_eq!(semaphore.available().await.unwrap(), 1);
    let guard = semaphore.acquire().await.unwrap();
    fixture.wait_for_children(LEASES, 2).await;
    assert_eq!(semaphore.available().await.unwrap(), 0);
    jvm.expect_answer("second", "try permit:2 @", "false").await;
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    fixture.wait_for_children(LEASES, 2).await;
    fixture.wait_for_children(LOCKS, 0).await;
    let theirs = jvm.spawn("second", "lock permit:2 @");
    fixture.wait_for_queue(LOCKS, 1).await;
    let ours = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    fixture.wait_for_queue(LOCKS, 2).await;
    guard.release().await.unwrap();
    wait_for_grant(theirs).await;
    assert!(!ours.is_finished(), "three are in");
    jvm.call("first", "unlock permit:2 @").await;
    let second = ours.await.unwrap().expect("granted");
    jvm.call("second", "unlock permit:2 @").await;
    second.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 2);
    fixture.wait_for_children(LEASES, 0).await;
    fixture.wait_for_children(LOCKS, 0).await;
}

/// Curator queues again for each permit, and keeps those that it has.
async fn curator_takes_two(fixture: Fixture) {
    let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
    jvm.call("holder", "lock permit:2 @").await;
    rust.call("holder", "lock permit:2 @").await;
    fixture.wait_for_children(LOCKS, 0).await;
    let two = jvm.spawn("two", "lock permit:2:2 @");
    fixture.wait_for_queue(LOCKS, 1).await;
    let one = rust.spawn("one", "lock permit:2 @");
    fixture.wait_for_queue(LOCKS, 2).await;
    jvm.call("holder", "unlock permit:2 @").await;
    rust.call("holder", "unlock permit:2 @").await;
    wait_for_grant(one).await;
    assert!(two.is_open(), "three are in");
    rust.call("one", "unlock permit:2 @").await;
    wait_for_grant(two).await;
    jvm.call("two", "unlock permit:2:2 @").await;
    fixture.wait_for_children(LEASES, 0).await;
    fixture.wait_for_children(LOCKS, 0).await;
}

/// A free permit is not granted to a later waiter for one permit while an earlier one waits for two.
async fn tenure_takes_two(fixture: Fixture) {
    let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
    jvm.call("holder", "lock permit:2 @").await;
    rust.call("holder", "lock permit:2 @").await;
    fixture.wait_for_children(LOCKS, 0).await;
    let first = jvm.spawn("first", "lock permit:2 @");
    fixture.wait_for_queue(LOCKS, 1).await;
    let two = rust.spawn("two", "lock permit:2:2 @");
    fixture.wait_for_queue(LOCKS, 2).await;
    let one = jvm.spawn("one", "lock permit:2 @");
    fixture.wait_for_queue(LOCKS, 3).await;
    jvm.call("holder", "unlock permit:2 @").await;
    wait_for_grant(first).await;
    rust.call("holder", "unlock permit:2 @").await;
    jvm.expect_answer("other", "try permit:2 @ 300", "false").await;
    assert!(two.is_open() && one.is_open());
    jvm.call("first", "unlock permit:2 @").await;
    wait_for_grant(two).await;
    assert!(one.is_open(), "three are in");
    rust.call("two", "unlock permit:2:2 @").await;
    wait_for_grant(one).await;
    jvm.call("one", "unlock permit:2 @").await;
    fixture.wait_for_children(LEASES, 0).await;
    fixture.wait_for_children(LOCKS, 0).await;
}

async fn three_under_one_guard(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let semaphore = client.semaphore(fixture.name(), 4);
    let three = semaphore.acquire_many(3).await.unwrap();
    fixture.wait_for_children(LEASES, 3).await;
    fixture.wait_for_children(LOCKS, 0).await;
    jvm.expect_answer("two", "try permit:4:2 @", "false").await;
    jvm.expect_answer("one", "try permit:4 @ 120000", "true").await;
    let waiting = jvm.spawn("two", "lock permit:4:2 @");
    fixture.wait_for_children(LOCKS, 1).await;
    three.release().await.unwrap();
    wait_for_grant(waiting).await;
    assert_eq!(semaphore.available().await.unwrap(), 1);
    jvm.call("one", "unlock permit:4 @").await;
    jvm.call("two", "unlock permit:4:2 @").await;
    assert_eq!(semaphore.available().await.unwrap(), 4);
}

/// Tenure stores the size on first use, and both sides are notified when it changes.
async fn shared_count(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    jvm.call("setter", "shared.set @.size 2").await;
    let semaphore = client.semaphore(fixture.name(), 2);
    let guard = semaphore.acquire().await.unwrap();
    jvm.call("first", "lock permit:=@.size @").await;
    let waiting = jvm.spawn("second", "lock permit:=@.size @");
    fixture.wait_for_children(LEASES, 3).await;
    assert!(waiting.is_open(), "three are in");
    semaphore.resize(3).await.unwrap();
    jvm.call("setter", "shared.set @.size 3").await;
    wait_for_grant(waiting).await;
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "four are in");
    guard.release().await.unwrap();
    semaphore.try_acquire().await.unwrap().expect("free again").release().await.unwrap();
    for thread in ["first", "second"] {
        jvm.call(thread, "unlock permit:=@.size @").await;
    }
}
