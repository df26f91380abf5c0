//! Latches and semaphores that do not wake waiters, and names that a cluster does not support.

use std::time::Duration;

use tenure::Error;

use super::ours;
use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, QUIET};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("latch", "defect_deleting_wakes_nobody", Direction::FromTenure, deleting),
        ours("latch", "an_early_message_makes_waiters_spin", early_message),
        Case::new("semaphore", "defect_a_negative_number_is_published", Direction::FromTenure, negative),
        Case::new("lock", "defect_names_are_split_over_slots", Direction::Alone, split_names),
        Case::new("latch", "defect_names_are_split_over_slots", Direction::Alone, split_latch),
    ]
}

const LATCH: &str = "redisson_countdownlatch__channel__{@}";

/// For waiters of both sides.
async fn deleting(fixture: Fixture) {
    let (jvm, rust, client) = (fixture.jvm(0).await, fixture.worker(0).await, fixture.client(QUIET).await);
    let latch = client.latch(fixture.name());
    assert!(latch.try_set_count(3).await.unwrap());
    let waiting = [jvm.spawn("w", "latch.await @"), rust.spawn("w", "latch.await @")];
    fixture.wait_for_subscribers(LATCH, 2).await;
    assert!(latch.delete().await.unwrap());
    for one in waiting {
        one.answer().await.expect("woken");
    }
}

async fn early_message(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    let latch = client.latch(fixture.name());
    assert!(latch.try_set_count(3).await.unwrap());
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait().await }
    });
    fixture.wait_for_subscribers(LATCH, 1).await;
    let mut monitor = fixture.environment().nodes()[0].monitor().unwrap();
    fixture.command("PUBLISH redisson_countdownlatch__channel__{@} 0");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = monitor.drain().unwrap();
    let asked =
        all.iter().filter(|seen| !seen.is_in_script() && seen.words.iter().any(|w| w == fixture.name()));
    let asked = asked.count();
    assert!(asked < 10, "asked {asked} times in a second");
    assert!(latch.delete().await.unwrap());
    waiting.await.unwrap().unwrap();
}

/// Redisson's client fails on such a message. Tenure publishes no negative number, and later messages still wake
/// waiters.
async fn negative(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let semaphore = client.counting_semaphore(fixture.name());
    assert!(semaphore.try_set(5).await.unwrap());
    let waiting = jvm.spawn("w", "sem.acquire @ 6");
    fixture.wait_for_subscribers("redisson_sc:{@}", 1).await;
    // Pattern subscriptions do not receive sharded messages.
    let channel = format!("redisson_sc:{{{}}}", fixture.name());
    let mut heard = fixture.environment().nodes()[0].psubscribe(&[&channel]).unwrap();
    semaphore.add(-10).await.unwrap();
    semaphore.add(2).await.unwrap();
    jvm.expect_answer("a", "sem.available @", "-3").await;
    assert!(waiting.is_open());
    semaphore.add(20).await.unwrap();
    waiting.answer().await.expect("granted");
    assert_eq!(semaphore.available().await.unwrap(), 11);
    let said: Vec<String> = heard.drain().unwrap().iter().map(testbed::Message::text).collect();
    assert!(said.iter().all(|number| !number.starts_with('-')), "{said:?}");
    assert!(!said.is_empty() || fixture.environment().is_cluster());
}

/// In a cluster Redisson can lock these names but not unlock them. On a single server they work.
async fn split_names(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    for name in ["a{b", "{}x", "a}b"] {
        let name = format!("{}{name}", if name == "{}x" { "" } else { fixture.name() });
        let got = client.lock(&name).try_acquire().await;
        if fixture.environment().is_cluster() {
            let error = got.map(drop).unwrap_err();
            assert!(matches!(error, Error::Config(_)), "{name}: {error}");
            assert_eq!(fixture.number(&format!("EXISTS {name}")), 0);
        } else {
            got.unwrap().expect("free").release().await.unwrap();
        }
    }
}

/// Redisson always wraps the channel name of a latch in braces, even if the name has a hash tag.
async fn split_latch(fixture: Fixture) {
    let client = fixture.client(QUIET).await;
    let name = format!("{{{}}}x", fixture.name());
    let set = client.latch(&name).try_set_count(1).await;
    if fixture.environment().is_cluster() {
        assert!(matches!(set, Err(Error::Config(_))), "{set:?}");
    } else {
        assert!(set.unwrap());
        client.latch(&name).count_down().await.unwrap();
    }
}
