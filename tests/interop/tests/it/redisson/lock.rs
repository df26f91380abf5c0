//! The plain lock: re-entrance, questions, force, names.

use tenure::Owner;
use testbed::{done, until, within};

use crate::redisson::case::{Case, Way};
use crate::redisson::mutual::{KINDS, Words};
use crate::redisson::stage::{LEASE, QUIET, Stage};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for words in KINDS.into_iter().filter(|w| ["lock", "fair", "read/write", "fenced"].contains(&w.kind)) {
        cases.push(Case::new(words.kind, "redisson_re_enters", Way::FromPeer, move |stage| {
            redisson_re_enters(stage, words)
        }));
        cases.push(Case::new(words.kind, "tenure_re_enters", Way::FromTenure, move |stage| {
            tenure_re_enters(stage, words)
        }));
    }
    cases.extend([
        Case::new("lock", "tenure_sees_redisson", Way::FromPeer, tenure_sees_redisson),
        Case::new("lock", "redisson_sees_tenure", Way::FromTenure, redisson_sees_tenure),
        Case::new("lock", "redisson_cannot_unlock_for_tenure", Way::FromTenure, redisson_cannot_unlock),
        Case::new("lock", "tenure_forces_redisson_out", Way::FromPeer, tenure_forces_redisson_out),
        Case::new("lock", "redisson_forces_tenure_out", Way::FromTenure, redisson_forces_tenure_out),
        Case::new("lock", "redisson_renews_past_its_lease", Way::FromPeer, redisson_renews),
        Case::new("lock", "tenure_renews_past_its_lease", Way::FromTenure, tenure_renews),
        Case::new("lock", "a_name_with_a_hash_tag", Way::Both, a_name_with_a_hash_tag),
    ]);
    cases
}

/// The count in the hash, of whoever is in it.
fn count(stage: &Stage) -> i64 {
    let all = stage.ask("HGETALL @").texts();
    let counts = all.chunks(2).filter(|pair| pair[0] != "mode").map(|pair| pair[1].parse::<i64>());
    counts.sum::<Result<i64, _>>().expect("numbers")
}

async fn redisson_re_enters(stage: Stage, words: Words) {
    let (jvm, rust) = (stage.jvm(0).await, stage.worker_with(0, words.options).await);
    jvm.call("owner", words.enter).await;
    jvm.call("owner", words.enter).await;
    assert_eq!(count(&stage), 2);
    let waiting = rust.spawn("waiter", words.enter);
    words.waiting(&stage, 1).await;
    jvm.call("owner", words.leave).await;
    assert_eq!(count(&stage), 1);
    assert_eq!(words.attempt(&rust, "other").await, None);
    assert!(waiting.is_open());
    jvm.call("owner", words.leave).await;
    waiting.answer().await.expect("granted");
    rust.call("waiter", words.leave).await;
}

async fn tenure_re_enters(stage: Stage, words: Words) {
    let (jvm, rust) = (stage.jvm(0).await, stage.worker_with(0, words.options).await);
    rust.call("owner", words.enter).await;
    rust.call("owner", words.enter).await;
    assert_eq!(count(&stage), 2);
    let waiting = jvm.spawn("waiter", words.enter);
    words.waiting(&stage, 1).await;
    jvm.parked("waiter").await;
    rust.call("owner", words.leave).await;
    assert_eq!(count(&stage), 1);
    assert_eq!(words.attempt(&jvm, "other").await, None);
    assert!(waiting.is_open());
    rust.call("owner", words.leave).await;
    waiting.answer().await.expect("granted");
    jvm.call("waiter", words.leave).await;
}

async fn tenure_sees_redisson(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let lock = client.lock(stage.name());
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

async fn redisson_sees_tenure(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let guard = client.lock(stage.name()).lease(LEASE).acquire().await.unwrap();
    // Asked of a replica, where there are some: they hear of it a moment later.
    until("the news", || async { jvm.call("other", "is-locked plain @").await == "true" }).await;
    jvm.says("other", "is-held plain @", "false").await;
    jvm.says("other", "holds plain @", "0").await;
    let ttl: u64 = jvm.call("other", "ttl plain @").await.parse().expect("a time");
    assert!((900_000..=1_800_000).contains(&ttl), "{ttl}");
    guard.release().await.unwrap();
    jvm.says("other", "try plain @", "true").await;
    jvm.call("other", "unlock plain @").await;
}

async fn redisson_cannot_unlock(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    let error = jvm.try_call("other", "unlock plain @").await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalMonitorStateException"), "{error}");
    assert_eq!(stage.number(&format!("HGET @ {}", guard.id())), 1);
    guard.release().await.unwrap();
}

async fn tenure_forces_redisson_out(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    jvm.call("owner", "lock plain @ 1800000").await;
    let waiting = jvm.spawn("waiter", "lock plain @ 1800000");
    stage.listening("redisson_lock__channel:{@}", 1).await;
    assert!(client.lock(stage.name()).force_release().await.unwrap());
    waiting.answer().await.expect("granted");
    let error = jvm.try_call("owner", "unlock plain @").await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalMonitorStateException"), "{error}");
    jvm.call("waiter", "unlock plain @").await;
}

async fn redisson_forces_tenure_out(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock(stage.name());
        async move { lock.acquire().await }
    });
    stage.listening("redisson_lock__channel:{@}", 1).await;
    jvm.says("other", "force-unlock plain @", "true").await;
    let next = done("the hand-over", waiting).await.expect("granted");
    assert!(guard.release().await.is_err());
    assert!(next.is_held());
    next.release().await.unwrap();
    // Whoever does not release it is told by its next renewal.
    let client = stage.client("lease=9s").await;
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    jvm.says("other", "force-unlock plain @", "true").await;
    within("the loss is told", guard.lost()).await;
}

async fn redisson_renews(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    jvm.call("owner", "lock plain @").await;
    stage.renewed("@").await;
    let lock = client.lock(stage.name());
    assert!(lock.try_acquire().await.unwrap().is_none(), "two are in");
    jvm.call("owner", "unlock plain @").await;
    lock.acquire().await.unwrap().release().await.unwrap();
}

async fn tenure_renews(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client("lease=9s").await);
    let guard = client.lock(stage.name()).acquire().await.unwrap();
    stage.renewed("@").await;
    jvm.says("other", "try plain @", "false").await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    jvm.says("other", "try plain @ 120000 1800000", "true").await;
    jvm.call("other", "unlock plain @").await;
}

async fn a_name_with_a_hash_tag(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let name = format!("a{{{}}}b", stage.name());
    let lock = client.lock(&name).owner(&Owner::new()).lease(LEASE);
    let guard = lock.acquire().await.unwrap();
    let waiting = jvm.spawn("waiter", "lock plain a{@}b 1800000");
    stage.listening("redisson_lock__channel:a{@}b", 1).await;
    guard.release().await.unwrap();
    waiting.answer().await.expect("granted");
    let ours = tokio::spawn(async move { lock.acquire().await });
    stage.listening("redisson_lock__channel:a{@}b", 1).await;
    jvm.call("waiter", "unlock plain a{@}b").await;
    ours.await.unwrap().expect("granted").release().await.unwrap();
}
