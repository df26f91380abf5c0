//! The fair queue, with waiters of both sides.

use interop::trials::TrialProcess;
use tokio::sync::mpsc;

use crate::fixture::receive_order;
use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fair", "all_are_served_in_the_order_of_coming", Direction::Both, order),
        Case::new(
            "fair",
            "tenure_leaves_early_and_order_and_scores_stay",
            Direction::FromTenure,
            tenure_leaves,
        ),
        Case::new("fair", "redisson_leaves_early_and_order_stays", Direction::FromPeer, redisson_leaves),
        Case::new("fair", "nobody_overtakes_the_queue", Direction::Both, nobody_overtakes),
    ]
}

fn score(fixture: &Fixture, owner: &str) -> f64 {
    let text = fixture.command(&format!("ZSCORE redisson_lock_timeout:{{@}} {owner}")).text();
    text.parse().unwrap_or_else(|_| panic!("{owner} has the score {text:?}"))
}

/// Queues these one after the other. Each sends its number once the lock is granted, and releases it at once.
async fn line_up(
    fixture: &Fixture,
    processes: &[&TrialProcess],
    already: usize,
) -> mpsc::UnboundedReceiver<usize> {
    let (entered, order) = mpsc::unbounded_channel();
    for (n, process) in processes.iter().enumerate() {
        let (process, entered) = ((*process).clone(), entered.clone());
        let thread = format!("waiter-{n}");
        let waiting = process.spawn(&thread, "lock fair @ 1800000");
        tokio::spawn(async move {
            waiting.answer().await.expect("granted");
            entered.send(n).expect("somebody counts");
            process.call(&thread, "unlock fair @").await;
        });
        fixture.wait_for_queue(already + n + 1).await;
    }
    order
}

async fn order(fixture: Fixture) {
    let jvms = [fixture.jvm(0).await, fixture.jvm(1).await];
    let workers = [fixture.worker(0).await, fixture.worker(1).await];
    jvms[0].call("holder", "lock fair @ 1800000").await;
    let all = [&jvms[1], &workers[0], &jvms[0], &workers[1], &workers[0], &jvms[1]];
    let order = line_up(&fixture, &all, 0).await;
    jvms[0].call("holder", "unlock fair @").await;
    assert_eq!(receive_order(order, all.len()).await, [0, 1, 2, 3, 4, 5]);
    fixture.wait_for_queue(0).await;
    assert_eq!(fixture.number("ZCARD redisson_lock_timeout:{@}"), 0);
}

/// A waiter that gives up subtracts from the scores behind it what it added to them.
async fn tenure_leaves(fixture: Fixture) {
    // A waiter that polls less often is considered alive for longer, so its score is higher.
    let (jvm, client) = (fixture.jvm(0).await, fixture.client("poll=60s&lease=30m").await);
    let holder = client.lock(fixture.name()).fair().lease(LEASE).acquire().await.unwrap();
    let first = line_up(&fixture, &[&jvm], 0).await;
    let leaving = tokio::spawn({
        let lock = client.lock(fixture.name()).fair();
        async move { lock.acquire().await }
    });
    fixture.wait_for_queue(2).await;
    let second = jvm.spawn("second", "lock fair @ 1800000");
    let owners = fixture.wait_for_queue(3).await;
    let apart = |a: &str, b: &str| score(&fixture, b) - score(&fixture, a);
    let before = apart(&owners[0], &owners[2]);
    assert!((590_000.0..=690_000.0).contains(&before), "two patiences apart: {before}");
    leaving.abort();
    assert_eq!(fixture.wait_for_queue(2).await, [owners[0].clone(), owners[2].clone()]);
    let after = apart(&owners[0], &owners[2]);
    assert!((290_000.0..=390_000.0).contains(&after), "one patience apart: {after}");
    holder.release().await.unwrap();
    assert_eq!(receive_order(first, 1).await, [0]);
    second.answer().await.expect("granted");
    jvm.call("second", "unlock fair @").await;
}

async fn redisson_leaves(fixture: Fixture) {
    let (jvm, workers) = (fixture.jvm(0).await, [fixture.worker(0).await, fixture.worker(1).await]);
    jvm.call("holder", "lock fair @ 1800000").await;
    let first = line_up(&fixture, &[&workers[0]], 0).await;
    let leaving = jvm.spawn("leaving", "try fair @ 8000 1800000");
    let before = fixture.wait_for_queue(2).await;
    let last = workers[1].spawn("last", "lock fair @ 1800000");
    fixture.wait_for_queue(3).await;
    assert_eq!(leaving.answer().await.unwrap(), "false");
    let owners = fixture.wait_for_queue(2).await;
    assert_eq!(owners[0], before[0]);
    let apart = score(&fixture, &owners[1]) - score(&fixture, &owners[0]);
    // Tenure's heartbeats move its scores, so the bounds are wide.
    assert!((290_000.0..=390_000.0).contains(&apart), "one patience apart: {apart}");
    jvm.call("holder", "unlock fair @").await;
    assert_eq!(receive_order(first, 1).await, [0]);
    last.answer().await.expect("granted");
    workers[1].call("last", "unlock fair @").await;
}

/// A try does not overtake waiters, on both sides.
async fn nobody_overtakes(fixture: Fixture) {
    let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
    jvm.call("holder", "lock fair @ 1800000").await;
    let waiting = [rust.spawn("first", "lock fair @ 1800000")];
    fixture.wait_for_queue(1).await;
    let second = jvm.spawn("second", "lock fair @ 1800000");
    fixture.wait_for_queue(2).await;
    for process in [&jvm, &rust] {
        process.expect_answer("other", "try fair @", "false").await;
        process.expect_answer("other", "try fair @ 300", "false").await;
    }
    fixture.wait_for_queue(2).await;
    jvm.call("holder", "unlock fair @").await;
    for first in waiting {
        first.answer().await.expect("granted");
    }
    for process in [&jvm, &rust] {
        process.expect_answer("other", "try fair @", "false").await;
    }
    rust.call("first", "unlock fair @").await;
    second.answer().await.expect("granted");
    jvm.call("second", "unlock fair @").await;
}
