//! Several processes on one store, some of which are killed.

use std::sync::Arc;
use std::time::Instant;

use tenure::Family;

use super::Case;
use crate::harness::{A_WHILE, Harness, VICTIM, done, heavy_case_slot, ok, until, within};

pub(super) fn cases() -> Vec<Case> {
    const LOCK: &[Family] = &[Family::Lock, Family::Fair];
    let all = cases!["processes"; LOCK;
        exclude_each_other,
        wake_each_other,
        a_killed_holder_frees_after_its_lease,
        a_killed_waiter_is_skipped,
        are_served_in_order,
        a_stopped_holder_notices_the_loss_before_it_continues,
        fences_grow_across_processes,
    ];
    let turns = TURNS.iter().map(|&(kind, needs)| {
        let name = format!("{kind}::several_tasks_of_several_processes");
        Case::new(name, needs, move |harness| several_tasks_of_several_processes(harness, kind))
    });
    all.into_iter().chain(turns).map(|case| case.processes().calm()).collect()
}

/// Kinds for the command `turns` of the worker.
const TURNS: &[(&str, &[Family])] = &[
    ("lock", &[Family::Lock]),
    ("fair", &[Family::Fair]),
    ("rwlock", &[Family::ReadWrite]),
    ("permits", &[Family::Permit]),
    ("leader", &[Family::Leader]),
];

/// Slot number in a `granted` answer.
fn slot(answer: &str) -> &str {
    assert!(answer.starts_with("granted"), "{answer}");
    answer.split(' ').nth(1).expect("a slot")
}

async fn exclude_each_other(harness: Arc<Harness>) {
    let (mut a, mut b) = (harness.start_process().await, harness.start_process().await);
    for kind in ["lock", "fair"] {
        let held = a.ask(&format!("acquire {kind} {kind}")).await;
        assert_eq!(b.ask(&format!("try {kind} {kind}")).await, "busy");
        assert!(ok(harness.observer().lock(kind).try_acquire().await).is_none());
        assert_eq!(a.ask(&format!("release {}", slot(&held))).await, "ok");
        let next = b.ask(&format!("try {kind} {kind}")).await;
        assert_eq!(b.ask(&format!("release {}", slot(&next))).await, "ok");
    }
}

async fn wake_each_other(harness: Arc<Harness>) {
    let (mut a, mut b) = (harness.start_process().await, harness.start_process().await);
    let held = a.ask("acquire x lock").await;
    b.send("acquire x lock").await;
    let look = harness.observer();
    until("it waits", || async { !ok(look.lock("x").waiters().await).is_empty() }).await;
    assert_eq!(a.ask(&format!("release {}", slot(&held))).await, "ok");
    // Woken by the signal: its poll cap is longer than the patience.
    let next = b.answer().await;
    assert_eq!(b.ask(&format!("release {}", slot(&next))).await, "ok");
}

async fn a_killed_holder_frees_after_its_lease(harness: Arc<Harness>) {
    let mut a = harness.start_victim().await;
    slot(&a.ask("acquire x lock").await);
    a.kill().await;
    let (start, holder) = (Instant::now(), ok(harness.observer().lock("x").holder().await));
    let left = holder.and_then(|holder| harness.remaining_lease(&holder)).unwrap_or_default();
    let next = ok(within("free after its lease", harness.client().lock("x").acquire()).await);
    assert!(start.elapsed() + A_WHILE >= left, "{left:?} were left, taken after {:?}", start.elapsed());
    ok(next.release().await);
}

async fn a_killed_waiter_is_skipped(harness: Arc<Harness>) {
    let (mut a, mut b) = (harness.start_process().await, harness.start_victim().await);
    let held = a.ask("acquire x fair").await;
    b.send("acquire x fair").await;
    let look = harness.observer();
    let waiters = async || {
        let waiters = ok(look.lock("x").waiters().await);
        waiters.into_iter().map(|waiter| waiter.id).collect::<Vec<_>>()
    };
    until("it waits", || async { !waiters().await.is_empty() }).await;
    let dead = waiters().await;
    b.kill().await;
    // No signal announces a death: waiters behind the dead one have to poll.
    let mut settings = harness.settings();
    settings.poll = Some(VICTIM / 3);
    let client = harness.client_with(settings);
    let waiting = tokio::spawn(async move { ok(client.lock("x").fair().acquire().await) });
    until("another waits behind it", || async { waiters().await.iter().any(|id| !dead.contains(id)) }).await;
    assert_eq!(a.ask(&format!("release {}", slot(&held))).await, "ok");
    ok(done("the living one", waiting).await.release().await);
}

async fn are_served_in_order(harness: Arc<Harness>) {
    let mut workers =
        [harness.start_process().await, harness.start_process().await, harness.start_process().await];
    let client = harness.client();
    let held = ok(client.lock("x").fair().acquire().await);
    for (i, worker) in workers.iter_mut().enumerate() {
        worker.send("acquire x fair").await;
        until("it has its place", || async { ok(client.lock("x").waiters().await).len() == i + 1 }).await;
    }
    let mut fences = vec![held.fence().map_or(0, |f| f.0)];
    ok(held.release().await);
    for worker in &mut workers {
        let granted = worker.answer().await;
        fences.push(granted.split(' ').nth(2).and_then(|f| f.parse().ok()).expect("a fence"));
        assert_eq!(worker.ask(&format!("release {}", slot(&granted))).await, "ok");
    }
    assert!(fences.is_sorted() || fences.iter().all(|f| *f == 0), "{fences:?}");
}

async fn a_stopped_holder_notices_the_loss_before_it_continues(harness: Arc<Harness>) {
    let mut a = harness.start_victim().await;
    let held = a.ask("acquire x lock").await;
    let slot = slot(&held).to_owned();
    signal(a.pid(), "STOP");
    let next = ok(within("its lease ends", harness.client().lock("x").acquire()).await);
    signal(a.pid(), "CONT");
    assert_eq!(a.ask(&format!("held {slot}")).await, "no");
    let released = a.ask(&format!("release {slot}")).await;
    assert!(released.starts_with("error") && released.contains("no longer held"), "{released}");
    assert!(next.is_held() && ok(harness.observer().lock("x").is_locked().await));
    ok(next.release().await);
}

fn signal(pid: u32, signal: &str) {
    let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(sent.expect("kill").success());
}

/// With several tasks in each of several processes, the order in which they reach the store differs from the order in
/// which they reach the gate of their process, and the waiter that the store wakes need not be the one the gate listens
/// for. None of them polls within a case, so a missed wake-up is a hang.
async fn several_tasks_of_several_processes(harness: Arc<Harness>, kind: &'static str) {
    const PROCESSES: usize = 2;
    const TASKS: usize = 8;
    const EACH: usize = 20;
    let _slot = heavy_case_slot().await;
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("number").display().to_string();
    std::fs::write(&file, "0").expect("the file");
    let mut workers = Vec::new();
    for _ in 0..PROCESSES {
        workers.push(harness.start_process().await);
    }
    for worker in &mut workers {
        worker.send(&format!("turns x {kind} {file} {EACH} {TASKS}")).await;
    }
    let mut added = 0;
    for worker in &mut workers {
        let answer = worker.answer().await;
        let done = answer.strip_prefix("added ").and_then(|n| n.parse::<u64>().ok());
        added += done.unwrap_or_else(|| panic!("{answer}"));
    }
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), added.to_string());
    // Closing waits for what they still undo in the background.
    for worker in workers {
        worker.end().await;
    }
}

async fn fences_grow_across_processes(harness: Arc<Harness>) {
    let mut workers = [harness.start_process().await, harness.start_process().await];
    let mut last = 0;
    for i in 0..10 {
        let worker = &mut workers[i % 2];
        let granted = worker.ask("acquire x lock").await;
        let fence: u64 = granted.split(' ').nth(2).and_then(|f| f.parse().ok()).expect("a fence");
        assert!(fence > last || fence == 0, "{fence} after {last}");
        last = fence;
        assert_eq!(worker.ask(&format!("release {}", slot(&granted))).await, "ok");
    }
}
