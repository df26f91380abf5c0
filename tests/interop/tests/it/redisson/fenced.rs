//! Fences in one series with Redisson's fenced lock.

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE, QUIET};

const FENCED: &str = "poll=30m&lease=30m&fence=redisson";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fenced", "tokens_only_grow_across_both", Direction::Both, tokens_only_grow),
        Case::new("fenced", "the_counter_never_ends", Direction::FromTenure, the_counter_never_ends),
        Case::new("fenced", "tokens_of_many_are_all_different", Direction::Both, all_different),
        Case::new("fenced", "our_own_fences_leave_redissons_alone", Direction::FromTenure, ours_apart),
    ]
}

async fn tokens_only_grow(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(FENCED).await);
    let lock = client.lock(fixture.name());
    let mut last = 0;
    for _ in 0..3 {
        let token: u64 = jvm.call("owner", "fenced.lock @").await.parse().expect("a number");
        assert_eq!(token, last + 1);
        jvm.call("owner", "unlock fenced @").await;
        let guard = lock.acquire().await.unwrap();
        last = guard.fence().expect("a fence").0;
        assert_eq!(last, token + 1);
        jvm.expect_answer("owner", "fenced.token @", &last.to_string()).await;
        guard.release().await.unwrap();
    }
}

async fn the_counter_never_ends(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(FENCED).await);
    let guard = client.lock(fixture.name()).lease(LEASE).acquire().await.unwrap();
    assert_eq!(fixture.number("TTL redisson_lock_token:{@}"), -1);
    guard.release().await.unwrap();
    assert_eq!(fixture.number("TTL redisson_lock_token:{@}"), -1);
    jvm.expect_answer("owner", "fenced.lock @", "2").await;
    jvm.call("owner", "unlock fenced @").await;
}

async fn all_different(fixture: Fixture) {
    let (jvms, client) = ([fixture.jvm(0).await, fixture.jvm(1).await], fixture.client(FENCED).await);
    let n = 10;
    let mut theirs = Vec::new();
    for jvm in jvms {
        theirs.push(tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..n {
                tokens.push(jvm.call("owner", "fenced.lock @").await.parse::<u64>().expect("a number"));
                jvm.call("owner", "unlock fenced @").await;
            }
            tokens
        }));
    }
    let mut all = Vec::new();
    for _ in 0..n {
        let guard = client.lock(fixture.name()).acquire().await.unwrap();
        all.push(guard.fence().expect("a fence").0);
        guard.release().await.unwrap();
    }
    assert!(all.is_sorted());
    for tokens in theirs {
        let tokens = tokens.await.expect("no panic");
        assert!(tokens.is_sorted());
        all.extend(tokens);
    }
    all.sort_unstable();
    assert_eq!(all, (1..=3 * n).collect::<Vec<u64>>());
}

async fn ours_apart(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    jvm.expect_answer("owner", "fenced.lock @", "1").await;
    jvm.call("owner", "unlock fenced @").await;
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    assert!(guard.fence().expect("a fence").0 > 1_000_000, "a time in microseconds");
    guard.release().await.unwrap();
    jvm.expect_answer("owner", "fenced.lock @", "2").await;
    jvm.call("owner", "unlock fenced @").await;
}
