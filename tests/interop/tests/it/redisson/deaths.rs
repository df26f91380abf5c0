//! Processes of either side killed while they hold, and while they wait.

use std::time::Duration;

use interop::Options;
use interop::trials::Doomed;

use crate::redisson::case::{Case, Way};
use crate::redisson::mutual::{KINDS, Words};
use crate::redisson::stage::{LEASE, Stage};

/// What the dead leave behind lives this long.
const SHORT: Duration = Duration::from_secs(3);

/// Settings of our workers: leases, what is added to permits for clocks of Java, and how long a waiter counts as alive.
const OPTIONS: &str = "lease=3s&permit_slack=1s&poll=1s";

fn short_lived() -> Options {
    let mut options = Options::small().watchdog(SHORT);
    options.fair_wait = Some(SHORT);
    options
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // Counted permits have no holders, and so no dead ones.
    for words in KINDS.into_iter().filter(|words| words.kind != "semaphore" && words.kind != "multi") {
        let kind = words.kind;
        let options =
            if kind == "fenced" { "lease=3s&permit_slack=1s&poll=1s&fence=redisson" } else { OPTIONS };
        cases.push(Case::new(kind, "redisson_dies", Way::FromPeer, move |stage| async move {
            let doomed = Doomed::new(stage.own_jvm(short_lived()).await);
            dies(&stage, words, &doomed, false).await;
        }));
        cases.push(Case::new(kind, "tenure_dies", Way::FromTenure, move |stage| async move {
            let doomed = Doomed::new(stage.own_worker(options).await);
            dies(&stage, words, &doomed, true).await;
        }));
    }
    cases
}

/// It holds one and waits for another.
async fn dies(stage: &Stage, words: Words, doomed: &Doomed, ours: bool) {
    let (holding, waiting) = (stage.part("holding"), stage.part("waiting"));
    tokio::join!(dies_holding(&holding, words, doomed, ours), dies_waiting(&waiting, words, doomed, ours),);
}

/// The heir has it when the lease of the dead one has ended.
async fn dies_holding(stage: &Stage, words: Words, doomed: &Doomed, ours: bool) {
    let victim = doomed.party(stage.name());
    let heir = if ours { stage.jvm(0).await } else { stage.worker_with(0, words.options).await };
    words.set_up(&victim).await;
    // Under the watchdog where there is one: a dead process renews no more.
    let enter = match words.kind {
        "permits" => words.enter_for(SHORT),
        _ => words.enter.replace(" 1800000", ""),
    };
    victim.call("victim", &enter).await;
    let waiting = heir.spawn("heir", words.enter);
    // On a slow machine the lease may have ended by now.
    tokio::select! {
        () = words.waiting(stage, 1) => {}
        () = stage.until("the heir is in", || !waiting.is_open()) => {}
    }
    doomed.kill().await;
    let ticket = waiting.answer().await.expect("granted");
    heir.call("heir", &words.leave(&ticket)).await;
}

/// The next one gets in although the first in line is dead.
///
/// A fair queue knows a dead waiter of ours by the end of its signs of life, once somebody of ours looks. One of
/// Redisson keeps its place until its patience has ended.
async fn dies_waiting(stage: &Stage, words: Words, doomed: &Doomed, ours: bool) {
    let victim = doomed.party(stage.name());
    let (jvm, rust) = (stage.jvm(0).await, stage.worker_with(0, words.options).await);
    let (holder, next) = if ours { (rust, jvm) } else { (jvm, rust) };
    words.set_up(&holder).await;
    let is_fair = words.channel.is_none();
    // A waiter of Redisson keeps its place for as long as this and its patience.
    let lease = if is_fair && !ours { Duration::from_secs(15) } else { LEASE };
    let ticket = holder.call("holder", &words.enter_for(lease)).await;
    let first = victim.spawn("victim", words.enter);
    words.waiting(stage, 1).await;
    let second = next.spawn("next", words.enter);
    words.waiting(stage, 2).await;
    next.parked("next").await;
    let queue = stage.ask("LRANGE redisson_lock_queue:{@} 0 -1").texts();
    doomed.kill().await;
    assert!(first.answer().await.is_err());
    if is_fair && ours {
        let sign = || stage.number(&format!("ZSCORE tenure_stamps:{{@}} {}", queue[0]));
        stage.until("its signs of life have ended", || sign() < stage.now()).await;
    }
    let left = holder.try_call("holder", &words.leave(&ticket)).await;
    // On a slow machine the short one may have ended by now.
    assert!(left.is_ok() || lease != LEASE, "{left:?}");
    let ticket = second.answer().await.expect("granted");
    next.call("next", &words.leave(&ticket)).await;
}
