//! Processes of either side killed while they hold, and while they wait.

use std::time::{Duration, Instant};

use interop::Options;
use interop::trials::Party;

use crate::case::{Case, Way};
use crate::mutual::{KINDS, Words};
use crate::stage::{PATIENCE, Stage, assert_soon};

/// What the dead leave behind lives this long.
const SHORT: Duration = Duration::from_secs(3);

/// The same for ours: its leases, what is added to permits for clocks of Java, and how long a waiter counts as alive.
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
        cases.push(Case::new(kind, "redisson_dies_holding", Way::FromPeer, move |stage| async move {
            let victim = stage.own_jvm(short_lived()).await;
            let heir = stage.worker_with(0, words.options).await;
            dies_holding(&stage, words, victim, heir).await;
        }));
        cases.push(Case::new(kind, "tenure_dies_holding", Way::FromTenure, move |stage| async move {
            let victim = stage.own_worker(options).await;
            let heir = stage.jvm(0).await;
            dies_holding(&stage, words, victim, heir).await;
        }));
        cases.push(Case::new(kind, "redisson_dies_waiting", Way::FromPeer, move |stage| async move {
            let victim = stage.own_jvm(short_lived()).await;
            let (holder, next) = (stage.jvm(0).await, stage.worker_with(0, words.options).await);
            dies_waiting(&stage, words, holder, victim, next, false).await;
        }));
        cases.push(Case::new(kind, "tenure_dies_waiting", Way::FromTenure, move |stage| async move {
            let victim = stage.own_worker(options).await;
            let (holder, next) = (stage.worker_with(0, words.options).await, stage.jvm(0).await);
            dies_waiting(&stage, words, holder, victim, next, true).await;
        }));
    }
    cases
}

/// The heir has it when the lease of the dead one has ended.
async fn dies_holding(stage: &Stage, words: Words, victim: Party, heir: Party) {
    words.set_up(&victim).await;
    // Under the watchdog where there is one: a dead process renews no more.
    let enter = match words.kind {
        "permits" => words.enter_for(SHORT),
        _ => words.enter.replace(" 20000", ""),
    };
    victim.call("victim", &enter).await;
    let waiting = heir.spawn("heir", words.enter);
    words.waiting(stage, 1).await;
    victim.kill().await;
    let begin = Instant::now();
    let ticket = waiting.within(PATIENCE).await.expect("granted");
    assert!(begin.elapsed() < 2 * SHORT + Duration::from_secs(5), "only after {:?}", begin.elapsed());
    heir.call("heir", &words.leave(&ticket)).await;
}

/// The next one gets in although the first in line is dead.
///
/// A fair queue knows a dead waiter of ours by the end of its signs of life, once somebody of ours looks. One of
/// Redisson keeps its place until its patience has ended.
async fn dies_waiting(stage: &Stage, words: Words, holder: Party, victim: Party, next: Party, ours: bool) {
    words.set_up(&holder).await;
    let ticket = holder.call("holder", &words.enter_for(Duration::from_secs(10))).await;
    let first = victim.spawn("victim", words.enter);
    words.waiting(stage, 1).await;
    let second = next.spawn("next", words.enter);
    words.waiting(stage, 2).await;
    next.parked("next").await;
    let queue = stage.ask("LRANGE redisson_lock_queue:{@} 0 -1").texts();
    victim.kill().await;
    assert!(first.answer().await.is_err());
    let is_fair = words.channel.is_none();
    if is_fair && ours {
        let sign = || stage.number(&format!("ZSCORE tenure_stamps:{{@}} {}", queue[0]));
        stage.until("its signs of life have ended", || sign() < stage.now()).await;
    }
    let begin = Instant::now();
    holder.call("holder", &words.leave(&ticket)).await;
    let ticket = second.within(PATIENCE).await.expect("granted");
    if !is_fair || ours {
        assert_soon(begin, "the hand-over past a dead waiter");
    }
    next.call("next", &words.leave(&ticket)).await;
}
