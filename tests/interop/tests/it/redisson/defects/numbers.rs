//! Latches and semaphores that leave waiters alone, and names that fall apart.

use std::time::Duration;

use tenure::Error;

use super::ours;
use crate::redisson::case::{Case, Way};
use crate::redisson::stage::{QUIET, Stage};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("latch", "defect_deleting_wakes_nobody", Way::FromTenure, deleting),
        ours("latch", "an_early_message_makes_waiters_spin", early_message),
        Case::new("semaphore", "defect_a_negative_number_is_published", Way::FromTenure, negative),
        Case::new("lock", "defect_names_are_split_over_slots", Way::Alone, split_names),
        Case::new("latch", "defect_names_are_split_over_slots", Way::Alone, split_latch),
    ]
}

const LATCH: &str = "redisson_countdownlatch__channel__{@}";

/// Those of both sides.
async fn deleting(stage: Stage) {
    let (jvm, rust, client) = (stage.jvm(0).await, stage.worker(0).await, stage.client(QUIET).await);
    let latch = client.latch(stage.name());
    assert!(latch.try_set_count(3).await.unwrap());
    let waiting = [jvm.spawn("w", "latch.await @"), rust.spawn("w", "latch.await @")];
    stage.listening(LATCH, 2).await;
    assert!(latch.delete().await.unwrap());
    for one in waiting {
        one.answer().await.expect("woken");
    }
}

async fn early_message(stage: Stage) {
    let client = stage.client(QUIET).await;
    let latch = client.latch(stage.name());
    assert!(latch.try_set_count(3).await.unwrap());
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait().await }
    });
    stage.listening(LATCH, 1).await;
    let mut monitor = stage.world().nodes()[0].monitor().unwrap();
    stage.ask("PUBLISH redisson_countdownlatch__channel__{@} 0");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = monitor.drain().unwrap();
    let asked =
        all.iter().filter(|seen| !seen.is_in_script() && seen.words.iter().any(|w| w == stage.name()));
    let asked = asked.count();
    assert!(asked < 10, "asked {asked} times in a second");
    assert!(latch.delete().await.unwrap());
    waiting.await.unwrap().unwrap();
}

/// A JVM cannot bear it. What is published is never below zero, and waiters hear of what comes after.
async fn negative(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let semaphore = client.counting_semaphore(stage.name());
    assert!(semaphore.try_set(5).await.unwrap());
    let waiting = jvm.spawn("w", "sem.acquire @ 6");
    stage.listening("redisson_sc:{@}", 1).await;
    // The messages of shards do not come through patterns.
    let channel = format!("redisson_sc:{{{}}}", stage.name());
    let mut heard = stage.world().nodes()[0].psubscribe(&[&channel]).unwrap();
    semaphore.add(-10).await.unwrap();
    semaphore.add(2).await.unwrap();
    jvm.says("a", "sem.available @", "-3").await;
    assert!(waiting.is_open());
    semaphore.add(20).await.unwrap();
    waiting.answer().await.expect("granted");
    assert_eq!(semaphore.available().await.unwrap(), 11);
    let said: Vec<String> = heard.drain().unwrap().iter().map(testbed::Message::text).collect();
    assert!(said.iter().all(|number| !number.starts_with('-')), "{said:?}");
    assert!(!said.is_empty() || stage.world().is_cluster());
}

/// In a cluster Redisson locks these and cannot unlock them. Elsewhere they are names like others.
async fn split_names(stage: Stage) {
    let client = stage.client(QUIET).await;
    for name in ["a{b", "{}x", "a}b"] {
        let name = format!("{}{name}", if name == "{}x" { "" } else { stage.name() });
        let got = client.lock(&name).try_acquire().await;
        if stage.world().is_cluster() {
            let error = got.map(drop).unwrap_err();
            assert!(matches!(error, Error::Config(_)), "{name}: {error}");
            assert_eq!(stage.number(&format!("EXISTS {name}")), 0);
        } else {
            got.unwrap().expect("free").release().await.unwrap();
        }
    }
}

/// Redisson wraps the channel of a latch always, also around a name that has a hash tag.
async fn split_latch(stage: Stage) {
    let client = stage.client(QUIET).await;
    let name = format!("{{{}}}x", stage.name());
    let set = client.latch(&name).try_set_count(1).await;
    if stage.world().is_cluster() {
        assert!(matches!(set, Err(Error::Config(_))), "{set:?}");
    } else {
        assert!(set.unwrap());
        client.latch(&name).count_down().await.unwrap();
    }
}
