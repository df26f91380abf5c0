//! The lock: re-entrance, what either side sees of the other, names, fences.

use std::time::Duration;

use tenure::Owner;

use crate::curator::fixture::Fixture;
use crate::curator::mutual::KindCommands;
use crate::curator::side::Side;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["lock", "fair", "read/write"] {
        let commands = KindCommands::of(kind);
        cases.push(Case::new(kind, "curator_re_enters", Direction::FromPeer, move |fixture| async move {
            let (jvm, rust) = (commands.jvm(&fixture, 0).await, commands.tenure(&fixture, 0).await);
            re_enters(&fixture, commands, &jvm, &rust).await;
        }));
        cases.push(Case::new(kind, "tenure_re_enters", Direction::FromTenure, move |fixture| async move {
            let (jvm, rust) = (commands.jvm(&fixture, 0).await, commands.tenure(&fixture, 0).await);
            re_enters(&fixture, commands, &rust, &jvm).await;
        }));
    }
    cases.extend([
        Case::new("lock", "tenure_sees_curator", Direction::FromPeer, tenure_sees_curator),
        Case::new("lock", "curator_sees_tenure", Direction::FromTenure, curator_sees_tenure),
        Case::new("lock", "tenure_forces_curator_out", Direction::FromPeer, tenure_forces_curator_out),
        Case::new("lock", "tenure_is_forced_out", Direction::FromTenure, tenure_is_forced_out),
        Case::new("lock", "a_name_with_folders", Direction::Both, a_name_with_folders),
        Case::new("lock", "fences_grow_across_both", Direction::Both, fences_grow),
    ]);
    cases
}

/// All re-entries share one child.
async fn re_enters(fixture: &Fixture, commands: KindCommands, owner: &Side, other: &Side) {
    owner.acquire("owner").await;
    owner.acquire("owner").await;
    commands.wait_for_waiters(fixture, 0).await;
    let waiting = other.spawn_acquire("waiter");
    commands.wait_for_waiters(fixture, 1).await;
    owner.release("owner").await;
    assert!(!other.try_acquire("other").await, "two are in");
    assert!(waiting.is_open());
    owner.release("owner").await;
    wait_for_grant(waiting).await;
    other.release("waiter").await;
    commands.wait_until_empty(fixture).await;
}

async fn tenure_sees_curator(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let lock = client.lock(fixture.name());
    assert!(!lock.is_locked().await.unwrap());
    jvm.call("holder", "lock plain @").await;
    let holder = lock.holder().await.unwrap().expect("held");
    assert!(holder.foreign, "{holder:?}");
    assert!(lock.waiters().await.unwrap().is_empty());
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire_for(Duration::from_secs(3)).await.unwrap().is_none());
    let waiting = jvm.spawn("waiter", "lock plain @");
    fixture.wait_for_children("@", 2).await;
    assert_eq!(lock.waiters().await.unwrap().len(), 1);
    jvm.call("holder", "unlock plain @").await;
    wait_for_grant(waiting).await;
    jvm.call("waiter", "unlock plain @").await;
    assert!(!lock.is_locked().await.unwrap());
}

/// Tenure's child is named like Curator's.
async fn curator_sees_tenure(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    let child = fixture.wait_for_children("@", 1).await.remove(0);
    let protection = &child[..40];
    assert!(protection.starts_with("_c_") && protection.ends_with('-'), "{child}");
    let (_, number) = child.rsplit_once("-lock-").expect("a marker");
    assert!(number.len() == 10 && number.chars().all(|c| c.is_ascii_digit()), "{child}");
    jvm.expect_answer("other", "participants plain @", &format!("/{}/{child}", fixture.name())).await;
    jvm.expect_answer("other", "is-held plain @", "false").await;
    jvm.expect_answer("other", "try plain @ 300", "false").await;
    let error = jvm.try_call("other", "unlock plain @").await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalMonitorStateException"), "{error}");
    assert!(guard.is_held());
    guard.release().await.unwrap();
    jvm.expect_answer("other", "participants plain @", "").await;
}

async fn tenure_forces_curator_out(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    jvm.call("holder", "lock plain @").await;
    let waiting = jvm.spawn("waiter", "lock plain @");
    fixture.wait_for_children("@", 2).await;
    assert!(client.lock(fixture.name()).force_release().await.unwrap());
    wait_for_grant(waiting).await;
    jvm.call("waiter", "unlock plain @").await;
    fixture.wait_for_children("@", 0).await;
    assert!(!client.lock(fixture.name()).force_release().await.unwrap());
}

/// Deleting the child is how Curator's own tools force a release.
async fn tenure_is_forced_out(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    let child = fixture.wait_for_children("@", 1).await.remove(0);
    let waiting = jvm.spawn("waiter", "lock plain @");
    fixture.wait_for_children("@", 2).await;
    fixture.raw_client().delete(&fixture.child(&child), None).expect("deleted");
    wait_for_grant(waiting).await;
    testbed::within("the loss is told", guard.lost()).await;
    assert!(guard.release().await.is_err());
    jvm.expect_answer("waiter", "is-held plain @", "true").await;
    jvm.call("waiter", "unlock plain @").await;
    fixture.wait_for_children("@", 0).await;
}

/// The parent nodes do not exist before.
async fn a_name_with_folders(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let lock = client.lock(format!("{}.by/tenure/first", fixture.name())).owner(&Owner::new());
    let guard = lock.acquire().await.unwrap();
    let waiting = jvm.spawn("waiter", "lock plain @.by/tenure/first");
    fixture.wait_for_children("@.by/tenure/first", 2).await;
    guard.release().await.unwrap();
    wait_for_grant(waiting).await;
    jvm.call("waiter", "unlock plain @.by/tenure/first").await;
    jvm.call("holder", "lock plain @.by/curator/first").await;
    let lock = client.lock(format!("{}.by/curator/first", fixture.name()));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    fixture.wait_for_children("@.by/curator/first", 2).await;
    jvm.call("holder", "unlock plain @.by/curator/first").await;
    waiting.await.unwrap().expect("granted").release().await.unwrap();
}

/// The fence is the transaction that created the child, so Curator's holds have fences, too.
async fn fences_grow(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let lock = client.lock(fixture.name());
    let born = |child: &str| fixture.stat(child).czxid.cast_unsigned();
    let mut last = 0;
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        let fence = guard.fence().expect("a fence").0;
        assert_eq!(fence, born(&fixture.wait_for_children("@", 1).await[0]));
        assert!(fence > last, "{fence} after {last}");
        guard.release().await.unwrap();
        jvm.call("holder", "lock plain @").await;
        let theirs = born(&fixture.wait_for_children("@", 1).await[0]);
        assert!(theirs > fence, "{theirs} after {fence}");
        assert_eq!(lock.holder().await.unwrap().expect("held").fence.expect("a fence").0, theirs);
        jvm.call("holder", "unlock plain @").await;
        last = theirs;
    }
}
