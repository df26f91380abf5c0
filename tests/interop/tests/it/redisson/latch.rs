//! The count-down latch.

use interop::trials::TrialProcess;

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::Fixture;

const CHANNEL: &str = "redisson_countdownlatch__channel__{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("latch", "redisson_opens_it", Direction::FromPeer, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            opens(&fixture, &jvm, &rust).await;
        }),
        Case::new("latch", "tenure_opens_it", Direction::FromTenure, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            opens(&fixture, &rust, &jvm).await;
        }),
        Case::new("latch", "all_count_and_all_wait", Direction::Both, all_count),
    ]
}

/// One side waits, and the other opens the latch.
async fn opens(fixture: &Fixture, opener: &TrialProcess, other: &TrialProcess) {
    other.expect_answer("a", "latch.await @", "true").await;
    opener.expect_answer("a", "latch.set @ 2", "true").await;
    other.expect_answer("a", "latch.set @ 9", "false").await;
    let waiting = other.spawn("w", "latch.await @");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    opener.call("a", "latch.down @").await;
    other.expect_answer("a", "latch.count @", "1").await;
    assert!(waiting.is_open());
    opener.call("a", "latch.down @").await;
    assert_eq!(waiting.answer().await.expect("open"), "true");
    other.expect_answer("a", "latch.count @", "0").await;
    // Again from the other side; counting below zero does nothing.
    other.call("a", "latch.down @").await;
    other.expect_answer("a", "latch.set @ 1", "true").await;
    opener.expect_answer("a", "latch.count @", "1").await;
    let waiting = other.spawn("w", "latch.await @");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    opener.call("a", "latch.down @").await;
    assert_eq!(waiting.answer().await.expect("open"), "true");
}

async fn all_count(fixture: Fixture) {
    let processes =
        [fixture.jvm(0).await, fixture.worker(0).await, fixture.jvm(1).await, fixture.worker(1).await];
    processes[0].expect_answer("a", "latch.set @ 4", "true").await;
    let waiting: Vec<_> = processes.iter().map(|process| process.spawn("w", "latch.await @")).collect();
    fixture.wait_for_subscribers(CHANNEL, 4).await;
    let (last, others) = processes.split_last().expect("four");
    for process in others {
        process.call("a", "latch.down @").await;
    }
    assert!(waiting.iter().all(|w| w.is_open()), "open too early");
    last.call("a", "latch.down @").await;
    for one in waiting {
        one.answer().await.expect("open");
    }
}
