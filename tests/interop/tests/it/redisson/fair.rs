//! The fair queue, with waiters of both sides in it.

use interop::trials::Party;
use tokio::sync::mpsc;

use crate::redisson::case::{Case, Way};
use crate::redisson::stage::{LEASE, Stage};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fair", "all_are_served_in_the_order_of_coming", Way::Both, order),
        Case::new("fair", "tenure_leaves_early_and_order_and_scores_stay", Way::FromTenure, tenure_leaves),
        Case::new("fair", "redisson_leaves_early_and_order_stays", Way::FromPeer, redisson_leaves),
        Case::new("fair", "nobody_overtakes_the_queue", Way::Both, nobody_overtakes),
    ]
}

fn score(stage: &Stage, owner: &str) -> f64 {
    let text = stage.ask(&format!("ZSCORE redisson_lock_timeout:{{@}} {owner}")).text();
    text.parse().unwrap_or_else(|_| panic!("{owner} has the score {text:?}"))
}

/// Puts these into the queue, one after the other. Their numbers come out as they are let in; each leaves at once.
async fn line_up(stage: &Stage, parties: &[&Party], already: usize) -> mpsc::UnboundedReceiver<usize> {
    let (entered, order) = mpsc::unbounded_channel();
    for (n, party) in parties.iter().enumerate() {
        let (party, entered) = ((*party).clone(), entered.clone());
        let thread = format!("waiter-{n}");
        let waiting = party.spawn(&thread, "lock fair @ 1800000");
        tokio::spawn(async move {
            waiting.answer().await.expect("granted");
            entered.send(n).expect("somebody counts");
            party.call(&thread, "unlock fair @").await;
        });
        stage.queued(already + n + 1).await;
    }
    order
}

/// The next `n` who get in.
async fn served(mut order: mpsc::UnboundedReceiver<usize>, n: usize) -> Vec<usize> {
    let mut all = Vec::new();
    while all.len() < n {
        all.push(order.recv().await.expect("everybody gets in"));
    }
    all
}

async fn order(stage: Stage) {
    let jvms = [stage.jvm(0).await, stage.jvm(1).await];
    let workers = [stage.worker(0).await, stage.worker(1).await];
    jvms[0].call("holder", "lock fair @ 1800000").await;
    let all = [&jvms[1], &workers[0], &jvms[0], &workers[1], &workers[0], &jvms[1]];
    let order = line_up(&stage, &all, 0).await;
    jvms[0].call("holder", "unlock fair @").await;
    assert_eq!(served(order, all.len()).await, [0, 1, 2, 3, 4, 5]);
    stage.queued(0).await;
    assert_eq!(stage.number("ZCARD redisson_lock_timeout:{@}"), 0);
}

/// What a waiter adds to the scores of those behind it, it takes off again when it goes.
async fn tenure_leaves(stage: Stage) {
    // A waiter that looks less often counts as alive for longer, and so its score is higher.
    let (jvm, client) = (stage.jvm(0).await, stage.client("poll=60s&lease=30m").await);
    let holder = client.lock(stage.name()).fair().lease(LEASE).acquire().await.unwrap();
    let first = line_up(&stage, &[&jvm], 0).await;
    let leaving = tokio::spawn({
        let lock = client.lock(stage.name()).fair();
        async move { lock.acquire().await }
    });
    stage.queued(2).await;
    let second = jvm.spawn("second", "lock fair @ 1800000");
    let owners = stage.queued(3).await;
    let apart = |a: &str, b: &str| score(&stage, b) - score(&stage, a);
    let before = apart(&owners[0], &owners[2]);
    assert!((590_000.0..=690_000.0).contains(&before), "two patiences apart: {before}");
    leaving.abort();
    assert_eq!(stage.queued(2).await, [owners[0].clone(), owners[2].clone()]);
    let after = apart(&owners[0], &owners[2]);
    assert!((290_000.0..=390_000.0).contains(&after), "one patience apart: {after}");
    holder.release().await.unwrap();
    assert_eq!(served(first, 1).await, [0]);
    second.answer().await.expect("granted");
    jvm.call("second", "unlock fair @").await;
}

async fn redisson_leaves(stage: Stage) {
    let (jvm, workers) = (stage.jvm(0).await, [stage.worker(0).await, stage.worker(1).await]);
    jvm.call("holder", "lock fair @ 1800000").await;
    let first = line_up(&stage, &[&workers[0]], 0).await;
    let leaving = jvm.spawn("leaving", "try fair @ 8000 1800000");
    let before = stage.queued(2).await;
    let last = workers[1].spawn("last", "lock fair @ 1800000");
    stage.queued(3).await;
    assert_eq!(leaving.answer().await.unwrap(), "false");
    let owners = stage.queued(2).await;
    assert_eq!(owners[0], before[0]);
    let apart = score(&stage, &owners[1]) - score(&stage, &owners[0]);
    // Tenure's own scores move on with its signs of life, so they are compared with some room.
    assert!((290_000.0..=390_000.0).contains(&apart), "one patience apart: {apart}");
    jvm.call("holder", "unlock fair @").await;
    assert_eq!(served(first, 1).await, [0]);
    last.answer().await.expect("granted");
    workers[1].call("last", "unlock fair @").await;
}

/// A try comes after all who wait, on both sides.
async fn nobody_overtakes(stage: Stage) {
    let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
    jvm.call("holder", "lock fair @ 1800000").await;
    let waiting = [rust.spawn("first", "lock fair @ 1800000")];
    stage.queued(1).await;
    let second = jvm.spawn("second", "lock fair @ 1800000");
    stage.queued(2).await;
    for party in [&jvm, &rust] {
        party.says("other", "try fair @", "false").await;
        party.says("other", "try fair @ 300", "false").await;
    }
    stage.queued(2).await;
    jvm.call("holder", "unlock fair @").await;
    for first in waiting {
        first.answer().await.expect("granted");
    }
    for party in [&jvm, &rust] {
        party.says("other", "try fair @", "false").await;
    }
    rust.call("first", "unlock fair @").await;
    second.answer().await.expect("granted");
    jvm.call("second", "unlock fair @").await;
}
