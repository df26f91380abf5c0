//! Processes of either side killed while they hold, and while they wait.

use std::time::Duration;

use interop::Options;
use interop::trials::SharedVictim;
use testbed::until_true;

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE};
use crate::redisson::mutual::{KINDS, KindCommands};

/// The lease of processes that are killed.
const SHORT: Duration = Duration::from_secs(3);

/// Options of Tenure's URL: the lease, the slack of permits for Java's clocks, and the heartbeat of waiters.
const OPTIONS: &str = "lease=3s&permit_slack=1s&poll=1s";

fn short_lived() -> Options {
    let mut options = Options::small().watchdog(SHORT);
    options.fair_wait = Some(SHORT);
    options
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // A counting semaphore records no holders, so it does not recover from their death.
    for commands in
        KINDS.into_iter().filter(|commands| commands.kind != "semaphore" && commands.kind != "multi")
    {
        let kind = commands.kind;
        let options =
            if kind == "fenced" { "lease=3s&permit_slack=1s&poll=1s&fence=redisson" } else { OPTIONS };
        cases.push(Case::new(kind, "redisson_dies", Direction::FromPeer, move |fixture| async move {
            let shared_victim = SharedVictim::new(fixture.own_jvm(short_lived()).await);
            dies(&fixture, commands, &shared_victim, false).await;
        }));
        cases.push(Case::new(kind, "tenure_dies", Direction::FromTenure, move |fixture| async move {
            let shared_victim = SharedVictim::new(fixture.own_worker(options).await);
            dies(&fixture, commands, &shared_victim, true).await;
        }));
    }
    cases
}

/// The victim holds one lock and waits for another.
async fn dies(fixture: &Fixture, commands: KindCommands, shared_victim: &SharedVictim, ours: bool) {
    let (holding, waiting) = (fixture.part("holding"), fixture.part("waiting"));
    tokio::join!(
        dies_holding(&holding, commands, shared_victim, ours),
        dies_waiting(&waiting, commands, shared_victim, ours),
    );
}

/// The next one is granted the lock once the lease of the dead holder has ended.
async fn dies_holding(fixture: &Fixture, commands: KindCommands, shared_victim: &SharedVictim, ours: bool) {
    let victim = shared_victim.process(fixture.name());
    let next = if ours { fixture.jvm(0).await } else { fixture.worker_with(0, commands.options).await };
    commands.set_up(&victim).await;
    // With the watchdog for kinds that have one: a dead process does not renew.
    let enter = match commands.kind {
        "permits" => commands.acquire_for(SHORT),
        _ => commands.acquire.replace(" 1800000", ""),
    };
    victim.call("victim", &enter).await;
    let waiting = next.spawn("next", commands.acquire);
    // On a slow machine the lease may have ended by now.
    tokio::select! {
        () = commands.wait_for_waiters(fixture, 1) => {}
        () = until_true("the next is in", || !waiting.is_open()) => {}
    }
    shared_victim.kill().await;
    let ticket = waiting.answer().await.expect("granted");
    next.call("next", &commands.release(&ticket)).await;
}

/// The next waiter is granted the lock although the first in the queue is dead.
///
/// In a fair queue, a dead waiter of Tenure is removed after its heartbeat has expired, by the next attempt of a Tenure
/// client. A dead waiter of Redisson keeps its position until its own timeout.
async fn dies_waiting(fixture: &Fixture, commands: KindCommands, shared_victim: &SharedVictim, ours: bool) {
    let victim = shared_victim.process(fixture.name());
    let (jvm, rust) = (fixture.jvm(0).await, fixture.worker_with(0, commands.options).await);
    let (holder, next) = if ours { (rust, jvm) } else { (jvm, rust) };
    commands.set_up(&holder).await;
    let is_fair = commands.channel.is_none();
    // A dead waiter of Redisson keeps its position for this lease plus its own timeout.
    let lease = if is_fair && !ours { Duration::from_secs(15) } else { LEASE };
    let ticket = holder.call("holder", &commands.acquire_for(lease)).await;
    let first = victim.spawn("victim", commands.acquire);
    commands.wait_for_waiters(fixture, 1).await;
    let second = next.spawn("next", commands.acquire);
    commands.wait_for_waiters(fixture, 2).await;
    next.wait_until_parked("next").await;
    let queue = fixture.command("LRANGE redisson_lock_queue:{@} 0 -1").texts();
    shared_victim.kill().await;
    assert!(first.answer().await.is_err());
    if is_fair && ours {
        let sign = || fixture.number(&format!("ZSCORE tenure_stamps:{{@}} {}", queue[0]));
        until_true("its signs of life have ended", || sign() < fixture.now()).await;
    }
    let left = holder.try_call("holder", &commands.release(&ticket)).await;
    // On a slow machine the short lease may have ended by now.
    assert!(left.is_ok() || lease != LEASE, "{left:?}");
    let ticket = second.answer().await.expect("granted");
    next.call("next", &commands.release(&ticket)).await;
}
