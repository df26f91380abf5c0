//! Sessions that end on the server while their clients live on.

use std::time::Instant;

use crate::side::granted;
use crate::stage::{PATIENCE, Stage, assert_soon};
use crate::world::LONG;
use crate::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("lock", "the_session_of_curator_ends", Way::FromPeer, curators).one_server(),
        Case::new("lock", "the_session_of_tenure_ends", Way::FromTenure, tenures).one_server(),
    ]
}

async fn curators(stage: Stage) {
    let (jvm, client) = (stage.own_jvm(LONG).await, stage.client().await);
    jvm.call("holder", "lock plain @").await;
    let child = stage.queued("@", 1).await.remove(0);
    let lock = client.lock(stage.name());
    let waiting = tokio::spawn(async move { lock.acquire().await });
    stage.queued("@", 2).await;
    let begin = Instant::now();
    stage.world().server().expire(stage.stat(&child).ephemeral_owner).expect("expired");
    let guard = waiting.await.unwrap().expect("granted");
    assert_soon(begin, "the hand-over");
    // Curator goes on with another session, and queues like everybody.
    let again = jvm.spawn("waiter", "lock plain @");
    stage.queued("@", 2).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    granted(again).await;
    jvm.call("waiter", "unlock plain @").await;
}

/// Whoever held it is told.
async fn tenures(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    let child = stage.queued("@", 1).await.remove(0);
    let waiting = jvm.spawn("waiter", "lock plain @");
    stage.queued("@", 2).await;
    let begin = Instant::now();
    stage.world().server().expire(stage.stat(&child).ephemeral_owner).expect("expired");
    granted(waiting).await;
    assert_soon(begin, "the hand-over");
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("the loss is told");
    assert!(!guard.is_held());
    assert!(guard.release().await.is_err());
    // It goes on with another session, and queues like everybody.
    let lock = client.lock(stage.name());
    assert!(lock.try_acquire().await.unwrap().is_none());
    let again = tokio::spawn(async move { lock.acquire().await });
    stage.queued("@", 2).await;
    jvm.call("waiter", "unlock plain @").await;
    again.await.unwrap().expect("granted").release().await.unwrap();
}
