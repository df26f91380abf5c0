//! The plain lock: re-entrance, inspection, forced release, names.

use tenure::Owner;
use testbed::{done, until, within};

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE, QUIET};
use crate::redisson::mutual::{KINDS, KindCommands};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for commands in KINDS.into_iter().filter(|w| ["lock", "fair", "read/write", "fenced"].contains(&w.kind)) {
        cases.push(Case::new(commands.kind, "redisson_re_enters", Direction::FromPeer, move |fixture| {
            redisson_re_enters(fixture, commands)
        }));
        cases.push(Case::new(commands.kind, "tenure_re_enters", Direction::FromTenure, move |fixture| {
            tenure_re_enters(fixture, commands)
        }));
    }
    cases.extend([
        Case::new("lock", "tenure_sees_redisson", Direction::FromPeer, tenure_sees_redisson),
        Case::new("lock", "redisson_sees_tenure", Direction::FromTenure, redisson_sees_tenure),
        Case::new("lock", "redisson_cannot_unlock_for_tenure", Direction::FromTenure, redisson_cannot_unlock),
        Case::new("lock", "tenure_forces_redisson_out", Direction::FromPeer, tenure_forces_redisson_out),
        Case::new("lock", "redisson_forces_tenure_out", Direction::FromTenure, redisson_forces_tenure_out),
        Case::new("lock", "redisson_renews_past_its_lease", Direction::FromPeer, redisson_renews),
        Case::new("lock", "tenure_renews_past_its_lease", Direction::FromTenure, tenure_renews),
        Case::new("lock", "a_name_with_a_hash_tag", Direction::Both, a_name_with_a_hash_tag),
    ]);
    cases
}

/// The sum of the hold counts in the hash, which also has our record of the holder.
fn count(fixture: &Fixture) -> i64 {
    let all = fixture.command("HGETALL @").texts();
    let holds = all.chunks(2).filter(|pair| pair[0] != "mode" && !pair[0].ends_with(":d"));
    let counts = holds.map(|pair| pair[1].parse::<i64>());
    counts.sum::<Result<i64, _>>().expect("numbers")
}

async fn redisson_re_enters(fixture: Fixture, commands: KindCommands) {
    let (jvm, rust) = (fixture.jvm(0).await, fixture.worker_with(0, commands.options).await);
    jvm.call("owner", commands.acquire).await;
    jvm.call("owner", commands.acquire).await;
    assert_eq!(count(&fixture), 2);
    let waiting = rust.spawn("waiter", commands.acquire);
    commands.wait_for_waiters(&fixture, 1).await;
    jvm.call("owner", commands.release).await;
    assert_eq!(count(&fixture), 1);
    assert_eq!(commands.try_acquire(&rust, "other").await, None);
    assert!(waiting.is_open());
    jvm.call("owner", commands.release).await;
    waiting.answer().await.expect("granted");
    rust.call("waiter", commands.release).await;
}

async fn tenure_re_enters(fixture: Fixture, commands: KindCommands) {
    let (jvm, rust) = (fixture.jvm(0).await, fixture.worker_with(0, commands.options).await);
    rust.call("owner", commands.acquire).await;
    rust.call("owner", commands.acquire).await;
    assert_eq!(count(&fixture), 2);
    let waiting = jvm.spawn("waiter", commands.acquire);
    commands.wait_for_waiters(&fixture, 1).await;
    jvm.wait_until_parked("waiter").await;
    rust.call("owner", commands.release).await;
    assert_eq!(count(&fixture), 1);
    assert_eq!(commands.try_acquire(&jvm, "other").await, None);
    assert!(waiting.is_open());
    rust.call("owner", commands.release).await;
    waiting.answer().await.expect("granted");
    jvm.call("waiter", commands.release).await;
}

async fn tenure_sees_redisson(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let lock = client.lock(fixture.name());
    assert!(!lock.is_locked().await.unwrap());
    let owner = jvm.call("owner", "owner").await;
    jvm.call("owner", "lock plain @ 1800000").await;
    jvm.call("owner", "lock plain @ 1800000").await;
    let holder = lock.holder().await.unwrap().expect("held");
    assert_eq!((holder.id, holder.holds), (owner, 2));
    let left = holder.left.expect("a lease");
    assert!(left > LEASE / 2 && left <= LEASE, "{left:?}");
    jvm.call("owner", "unlock plain @").await;
    jvm.call("owner", "unlock plain @").await;
    assert!(!lock.is_locked().await.unwrap());
}

async fn redisson_sees_tenure(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let guard = client.lock(fixture.name()).lease(LEASE).acquire().await.unwrap();
    // Redisson may read from a replica, which lags behind.
    until("the news", || async { jvm.call("other", "is-locked plain @").await == "true" }).await;
    jvm.expect_answer("other", "is-held plain @", "false").await;
    jvm.expect_answer("other", "holds plain @", "0").await;
    let ttl: u64 = jvm.call("other", "ttl plain @").await.parse().expect("a time");
    assert!((900_000..=1_800_000).contains(&ttl), "{ttl}");
    guard.release().await.unwrap();
    jvm.expect_answer("other", "try plain @", "true").await;
    jvm.call("other", "unlock plain @").await;
}

async fn redisson_cannot_unlock(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    let error = jvm.try_call("other", "unlock plain @").await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalMonitorStateException"), "{error}");
    assert_eq!(fixture.number(&format!("HGET @ {}", guard.id())), 1);
    guard.release().await.unwrap();
}

async fn tenure_forces_redisson_out(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    jvm.call("owner", "lock plain @ 1800000").await;
    let waiting = jvm.spawn("waiter", "lock plain @ 1800000");
    fixture.wait_for_subscribers("redisson_lock__channel:{@}", 1).await;
    assert!(client.lock(fixture.name()).force_release().await.unwrap());
    waiting.answer().await.expect("granted");
    let error = jvm.try_call("owner", "unlock plain @").await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalMonitorStateException"), "{error}");
    jvm.call("waiter", "unlock plain @").await;
}

async fn redisson_forces_tenure_out(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock(fixture.name());
        async move { lock.acquire().await }
    });
    fixture.wait_for_subscribers("redisson_lock__channel:{@}", 1).await;
    jvm.expect_answer("other", "force-unlock plain @", "true").await;
    let next = done("the hand-over", waiting).await.expect("granted");
    assert!(guard.release().await.is_err());
    assert!(next.is_held());
    next.release().await.unwrap();
    // A holder that does not release is notified of the loss by its next renewal.
    let client = fixture.client("lease=9s").await;
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    jvm.expect_answer("other", "force-unlock plain @", "true").await;
    within("the loss is told", guard.lost()).await;
}

async fn redisson_renews(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    jvm.call("owner", "lock plain @").await;
    fixture.wait_for_renewal("@").await;
    let lock = client.lock(fixture.name());
    assert!(lock.try_acquire().await.unwrap().is_none(), "two are in");
    jvm.call("owner", "unlock plain @").await;
    lock.acquire().await.unwrap().release().await.unwrap();
}

async fn tenure_renews(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client("lease=9s").await);
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    fixture.wait_for_renewal("@").await;
    jvm.expect_answer("other", "try plain @", "false").await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    jvm.expect_answer("other", "try plain @ 120000 1800000", "true").await;
    jvm.call("other", "unlock plain @").await;
}

async fn a_name_with_a_hash_tag(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let name = format!("a{{{}}}b", fixture.name());
    let lock = client.lock(&name).owner(&Owner::new()).lease(LEASE);
    let guard = lock.acquire().await.unwrap();
    let waiting = jvm.spawn("waiter", "lock plain a{@}b 1800000");
    fixture.wait_for_subscribers("redisson_lock__channel:a{@}b", 1).await;
    guard.release().await.unwrap();
    waiting.answer().await.expect("granted");
    let ours = tokio::spawn(async move { lock.acquire().await });
    fixture.wait_for_subscribers("redisson_lock__channel:a{@}b", 1).await;
    jvm.call("waiter", "unlock plain a{@}b").await;
    ours.await.unwrap().expect("granted").release().await.unwrap();
}
