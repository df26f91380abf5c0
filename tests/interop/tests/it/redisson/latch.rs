//! The count-down latch.

use interop::trials::Party;

use crate::redisson::case::{Case, Way};
use crate::redisson::stage::Stage;

const CHANNEL: &str = "redisson_countdownlatch__channel__{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("latch", "redisson_opens_it", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            opens(&stage, &jvm, &rust).await;
        }),
        Case::new("latch", "tenure_opens_it", Way::FromTenure, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            opens(&stage, &rust, &jvm).await;
        }),
        Case::new("latch", "all_count_and_all_wait", Way::Both, all_count),
    ]
}

/// The other side waits, and this one opens.
async fn opens(stage: &Stage, opener: &Party, other: &Party) {
    other.says("a", "latch.await @", "true").await;
    opener.says("a", "latch.set @ 2", "true").await;
    other.says("a", "latch.set @ 9", "false").await;
    let waiting = other.spawn("w", "latch.await @");
    stage.listening(CHANNEL, 1).await;
    opener.call("a", "latch.down @").await;
    other.says("a", "latch.count @", "1").await;
    assert!(waiting.is_open());
    opener.call("a", "latch.down @").await;
    assert_eq!(waiting.answer().await.expect("open"), "true");
    other.says("a", "latch.count @", "0").await;
    // Once more, from the other side; and below zero nothing happens.
    other.call("a", "latch.down @").await;
    other.says("a", "latch.set @ 1", "true").await;
    opener.says("a", "latch.count @", "1").await;
    let waiting = other.spawn("w", "latch.await @");
    stage.listening(CHANNEL, 1).await;
    opener.call("a", "latch.down @").await;
    assert_eq!(waiting.answer().await.expect("open"), "true");
}

async fn all_count(stage: Stage) {
    let parties = [stage.jvm(0).await, stage.worker(0).await, stage.jvm(1).await, stage.worker(1).await];
    parties[0].says("a", "latch.set @ 4", "true").await;
    let waiting: Vec<_> = parties.iter().map(|party| party.spawn("w", "latch.await @")).collect();
    stage.listening(CHANNEL, 4).await;
    let (last, others) = parties.split_last().expect("four");
    for party in others {
        party.call("a", "latch.down @").await;
    }
    assert!(waiting.iter().all(|w| w.is_open()), "open too early");
    last.call("a", "latch.down @").await;
    for one in waiting {
        one.answer().await.expect("open");
    }
}
