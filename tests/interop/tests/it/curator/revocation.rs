//! Holders that are asked to release. None is forced to.

use tenure::Guard;
use testbed::within;

use crate::curator::fixture::Fixture;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("lock", "tenure_asks_curator_to_give_way", Direction::FromPeer, tenure_asks),
        Case::new("lock", "curator_asks_tenure_to_give_way", Direction::FromTenure, curator_asks),
        Case::new("lock", "who_cannot_be_asked_stays", Direction::FromPeer, unasked),
        Case::new("read/write", "tenure_asks_all_readers_to_give_way", Direction::Both, all_readers),
        Case::new("read/write", "curator_asks_a_reader_of_tenure", Direction::FromTenure, one_reader),
    ]
}

async fn wait_for_revocation(guard: &Guard) {
    within("asked", guard.revoked()).await.unwrap();
    assert!(guard.is_held());
}

async fn tenure_asks(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let lock = client.lock(fixture.name());
    assert!(!lock.revoke().await.unwrap(), "nobody is there");
    jvm.call("holder", "revocable plain @").await;
    jvm.call("holder", "lock plain @").await;
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    fixture.wait_for_children("@", 2).await;
    for _ in 0..2 {
        assert!(lock.revoke().await.unwrap());
        jvm.expect_answer("holder", "revoked plain @ 1800000", "true").await;
    }
    jvm.expect_answer("holder", "is-held plain @", "true").await;
    assert!(!waiting.is_finished(), "two are in");
    jvm.call("holder", "unlock plain @").await;
    let guard = waiting.await.unwrap().expect("granted");
    guard.release().await.unwrap();
    jvm.expect_answer("holder", "revoked plain @", "false").await;
}

/// Writing into the holder's node does not disturb the waiter behind it.
async fn curator_asks(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    let waiting = jvm.spawn("waiter", "lock plain @");
    fixture.wait_for_children("@", 2).await;
    let asking = within("asked", guard.revoked());
    let (told, _) = tokio::join!(asking, jvm.call("revoker", "revoke plain @ 0"));
    told.unwrap();
    // A listener that is added later is notified, too.
    wait_for_revocation(&guard).await;
    assert!(waiting.is_open(), "two are in");
    guard.release().await.unwrap();
    wait_for_grant(waiting).await;
    jvm.call("waiter", "unlock plain @").await;
    // The next hold was not asked.
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    jvm.call("revoker", "revoke plain @ 0").await;
    wait_for_revocation(&guard).await;
    guard.release().await.unwrap();
}

/// A holder of Curator without a listener.
async fn unasked(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    jvm.call("holder", "lock plain @").await;
    let lock = client.lock(fixture.name());
    assert!(lock.revoke().await.unwrap());
    assert!(lock.try_acquire().await.unwrap().is_none(), "two are in");
    jvm.expect_answer("holder", "is-held plain @", "true").await;
    jvm.expect_answer("holder", "revoked plain @", "false").await;
    jvm.call("holder", "unlock plain @").await;
    fixture.wait_for_children("@", 0).await;
}

/// A writer asks all holders that block it; a reader blocks only writers.
async fn all_readers(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let both = client.rwlock(fixture.name());
    jvm.call("reader", "revocable read @").await;
    jvm.call("reader", "lock read @").await;
    let guard = both.read().acquire().await.unwrap();
    assert!(!both.read().revoke().await.unwrap());
    assert!(both.write().revoke().await.unwrap());
    wait_for_revocation(&guard).await;
    jvm.expect_answer("reader", "revoked read @ 1800000", "true").await;
    guard.release().await.unwrap();
    jvm.call("reader", "unlock read @").await;
    both.write().acquire().await.unwrap().release().await.unwrap();
}

async fn one_reader(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let [first, second] = [client.rwlock(fixture.name()).read(), client.rwlock(fixture.name()).read()];
    let first = first.acquire().await.unwrap();
    let second = second.acquire().await.unwrap();
    fixture.wait_for_children("@", 2).await;
    jvm.call("revoker", "revoke read @ 1").await;
    wait_for_revocation(&second).await;
    second.release().await.unwrap();
    jvm.call("revoker", "revoke read @ 0").await;
    wait_for_revocation(&first).await;
    first.release().await.unwrap();
    jvm.expect_answer("writer", "try write @ 120000", "true").await;
    jvm.call("writer", "unlock write @").await;
}
