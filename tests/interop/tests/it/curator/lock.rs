//! The lock: re-entrance, what either side sees of the other, names, fences.

use std::time::Duration;

use tenure::Owner;

use crate::curator::mutual::Words;
use crate::curator::side::{Side, granted};
use crate::curator::stage::Stage;
use crate::curator::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["lock", "fair", "read/write"] {
        let words = Words::of(kind);
        cases.push(Case::new(kind, "curator_re_enters", Way::FromPeer, move |stage| async move {
            let (jvm, rust) = (words.jvm(&stage, 0).await, words.rust(&stage, 0).await);
            re_enters(&stage, words, &jvm, &rust).await;
        }));
        cases.push(Case::new(kind, "tenure_re_enters", Way::FromTenure, move |stage| async move {
            let (jvm, rust) = (words.jvm(&stage, 0).await, words.rust(&stage, 0).await);
            re_enters(&stage, words, &rust, &jvm).await;
        }));
    }
    cases.extend([
        Case::new("lock", "tenure_sees_curator", Way::FromPeer, tenure_sees_curator),
        Case::new("lock", "curator_sees_tenure", Way::FromTenure, curator_sees_tenure),
        Case::new("lock", "tenure_forces_curator_out", Way::FromPeer, tenure_forces_curator_out),
        Case::new("lock", "tenure_is_forced_out", Way::FromTenure, tenure_is_forced_out),
        Case::new("lock", "a_name_with_folders", Way::Both, a_name_with_folders),
        Case::new("lock", "fences_grow_across_both", Way::Both, fences_grow),
    ]);
    cases
}

/// All of it stands for one child.
async fn re_enters(stage: &Stage, words: Words, owner: &Side, other: &Side) {
    owner.enter("owner").await;
    owner.enter("owner").await;
    words.waiting(stage, 0).await;
    let waiting = other.wait("waiter");
    words.waiting(stage, 1).await;
    owner.leave("owner").await;
    assert!(!other.attempt("other").await, "two are in");
    assert!(waiting.is_open());
    owner.leave("owner").await;
    granted(waiting).await;
    other.leave("waiter").await;
    words.nobody(stage).await;
}

async fn tenure_sees_curator(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let lock = client.lock(stage.name());
    assert!(!lock.is_locked().await.unwrap());
    jvm.call("holder", "lock plain @").await;
    let holder = lock.holder().await.unwrap().expect("held");
    assert!(holder.foreign, "{holder:?}");
    assert!(lock.waiters().await.unwrap().is_empty());
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire_for(Duration::from_secs(3)).await.unwrap().is_none());
    let waiting = jvm.spawn("waiter", "lock plain @");
    stage.queued("@", 2).await;
    assert_eq!(lock.waiters().await.unwrap().len(), 1);
    jvm.call("holder", "unlock plain @").await;
    granted(waiting).await;
    jvm.call("waiter", "unlock plain @").await;
    assert!(!lock.is_locked().await.unwrap());
}

/// A child as Curator makes them.
async fn curator_sees_tenure(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    let child = stage.queued("@", 1).await.remove(0);
    let protection = &child[..40];
    assert!(protection.starts_with("_c_") && protection.ends_with('-'), "{child}");
    let (_, number) = child.rsplit_once("-lock-").expect("a marker");
    assert!(number.len() == 10 && number.chars().all(|c| c.is_ascii_digit()), "{child}");
    jvm.says("other", "participants plain @", &format!("/{}/{child}", stage.name())).await;
    jvm.says("other", "is-held plain @", "false").await;
    jvm.says("other", "try plain @ 300", "false").await;
    let error = jvm.try_call("other", "unlock plain @").await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalMonitorStateException"), "{error}");
    assert!(guard.is_held());
    guard.release().await.unwrap();
    jvm.says("other", "participants plain @", "").await;
}

async fn tenure_forces_curator_out(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    jvm.call("holder", "lock plain @").await;
    let waiting = jvm.spawn("waiter", "lock plain @");
    stage.queued("@", 2).await;
    assert!(client.lock(stage.name()).force_release().await.unwrap());
    granted(waiting).await;
    jvm.call("waiter", "unlock plain @").await;
    stage.queued("@", 0).await;
    assert!(!client.lock(stage.name()).force_release().await.unwrap());
}

/// Whoever deletes the child does what Curator's own tools do.
async fn tenure_is_forced_out(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    let child = stage.queued("@", 1).await.remove(0);
    let waiting = jvm.spawn("waiter", "lock plain @");
    stage.queued("@", 2).await;
    stage.look().delete(&stage.child(&child), None).expect("deleted");
    granted(waiting).await;
    testbed::within("the loss is told", guard.lost()).await;
    assert!(guard.release().await.is_err());
    jvm.says("waiter", "is-held plain @", "true").await;
    jvm.call("waiter", "unlock plain @").await;
    stage.queued("@", 0).await;
}

/// Nobody has made the folders.
async fn a_name_with_folders(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let lock = client.lock(format!("{}.by/tenure/first", stage.name())).owner(&Owner::new());
    let guard = lock.acquire().await.unwrap();
    let waiting = jvm.spawn("waiter", "lock plain @.by/tenure/first");
    stage.queued("@.by/tenure/first", 2).await;
    guard.release().await.unwrap();
    granted(waiting).await;
    jvm.call("waiter", "unlock plain @.by/tenure/first").await;
    jvm.call("holder", "lock plain @.by/curator/first").await;
    let lock = client.lock(format!("{}.by/curator/first", stage.name()));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    stage.queued("@.by/curator/first", 2).await;
    jvm.call("holder", "unlock plain @.by/curator/first").await;
    waiting.await.unwrap().expect("granted").release().await.unwrap();
}

/// The fence is the transaction that made the child, so one of Curator's in between has one, too.
async fn fences_grow(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let lock = client.lock(stage.name());
    let born = |child: &str| stage.stat(child).czxid.cast_unsigned();
    let mut last = 0;
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        let fence = guard.fence().expect("a fence").0;
        assert_eq!(fence, born(&stage.queued("@", 1).await[0]));
        assert!(fence > last, "{fence} after {last}");
        guard.release().await.unwrap();
        jvm.call("holder", "lock plain @").await;
        let theirs = born(&stage.queued("@", 1).await[0]);
        assert!(theirs > fence, "{theirs} after {fence}");
        assert_eq!(lock.holder().await.unwrap().expect("held").fence.expect("a fence").0, theirs);
        jvm.call("holder", "unlock plain @").await;
        last = theirs;
    }
}
