//! Several locks at once.

use crate::curator::mutual::Words;
use crate::curator::side::{Side, granted};
use crate::curator::stage::Stage;
use crate::curator::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("multi", "one_part_of_curators_is_enough_to_wait_for", Way::FromPeer, part_of_theirs),
        Case::new("multi", "one_part_of_ours_is_enough_to_wait_for", Way::FromTenure, part_of_ours),
        Case::new("multi", "opposite_orders_do_not_deadlock", Way::Both, opposite_orders),
    ]
}

async fn part_of_theirs(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let [a, b] = [1, 2].map(|n| client.lock(format!("{}{n}", stage.name())));
    jvm.call("holder", "lock plain @2").await;
    let multi = tenure::multi([a, b]);
    assert!(multi.try_acquire().await.unwrap().is_none());
    // What it got of them was given back.
    stage.queued("@1", 0).await;
    let waiting = tokio::spawn(async move { multi.acquire().await });
    stage.queued("@2", 2).await;
    // While it waits it holds nothing.
    jvm.says("other", "try plain @1 120000", "true").await;
    jvm.call("other", "unlock plain @1").await;
    jvm.call("holder", "unlock plain @2").await;
    let guards = waiting.await.unwrap().expect("granted");
    for n in [1, 2] {
        jvm.says("other", &format!("try plain @{n}"), "false").await;
    }
    guards.release().await.unwrap();
    jvm.says("other", "try multi @1,@2 120000", "true").await;
    jvm.call("other", "unlock multi @1,@2").await;
}

/// Curator keeps what it has while it waits for the rest.
async fn part_of_ours(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let guard = client.lock(format!("{}2", stage.name())).acquire().await.unwrap();
    jvm.says("other", "try multi @1,@2 100", "false").await;
    stage.queued("@1", 0).await;
    let waiting = jvm.spawn("waiter", "lock multi @1,@2");
    stage.queued("@2", 2).await;
    assert!(client.lock(format!("{}1", stage.name())).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    granted(waiting).await;
    for n in [1, 2] {
        let lock = client.lock(format!("{}{n}", stage.name()));
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    jvm.call("waiter", "unlock multi @1,@2").await;
}

/// Curator waits for one while it holds the other; Tenure does not.
async fn opposite_orders(stage: Stage) {
    let n = 20;
    let words = Words::of("multi");
    let jvm = words.jvm(&stage, 0).await;
    let rust = Side::new(stage.worker(0).await, "multi @2,@1", "0");
    for one in [jvm.count("loop", n), rust.count("loop", n)] {
        assert_eq!(one.answer_while(|| stage.progress()).await.expect("all counted"), n.to_string());
    }
    assert_eq!(stage.number(), 2 * n, "two were in at once");
    words.nobody(&stage).await;
}
