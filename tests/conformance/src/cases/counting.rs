//! The counting semaphore: a plain number that is not restored when a holder dies, and that repeated calls change only
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::{Client, CountingSemaphore, Family};

use super::Case;
use super::interceptors::{ReadCounter, client_with_outage_switch};
use crate::harness::{A_WHILE, Harness, PATIENCE, done, ok, poll_times, repeat_if_unanswered, until};

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases![
        "counting"; &[Family::Count];
        try_set_succeeds_once,
        acquire_waits_for_a_release,
        acquire_dropped_after_every_poll,
        a_waiting_acquire_can_be_cancelled_at_any_moment,
        a_timed_out_wait_takes_nothing,
        a_timed_out_wait_takes_nothing_later,
        release_creates_an_absent_semaphore,
        a_dropped_release_is_applied_once,
        add_can_go_below_zero,
        drain_takes_all_permits,
        delete_keeps_waiters_waiting,
        never_grants_more_than_available,
        each_change_is_applied_once,
    ];
    let own = cases!["counting"; &[Family::Count]; a_release_dropped_during_an_outage_is_applied_once];
    all.extend(own.into_iter().map(Case::calm));
    all
}

fn of(client: &Client) -> CountingSemaphore {
    client.counting_semaphore("x")
}

async fn assert_available(semaphore: &CountingSemaphore, n: i64) {
    assert_eq!(ok(semaphore.available().await), n);
}

/// Waits until the number is `n` again, and checks that it stays so.
async fn assert_settles_at(semaphore: &CountingSemaphore, n: i64) {
    until("the number is back", || async { ok(semaphore.available().await) == n }).await;
    tokio::time::sleep(A_WHILE).await;
    assert_available(semaphore, n).await;
}

async fn try_set_succeeds_once(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    assert_available(&a, 0).await;
    assert!(ok(a.try_set(5).await));
    assert!(!ok(b.try_set(7).await));
    assert!(!ok(a.try_set(7).await));
    assert_available(&b, 5).await;
    ok(b.acquire(5).await);
    assert!(!ok(a.try_set(7).await), "none left is not the same as none there");
    assert_available(&a, 0).await;
}

async fn acquire_waits_for_a_release(harness: Arc<Harness>) {
    let (a, store) = (of(&harness.client()), ReadCounter::new(harness.backend()));
    let b = of(&Client::with(store.clone(), harness.settings()));
    assert!(ok(a.try_set(1).await));
    ok(a.acquire(1).await);
    assert!(!ok(a.try_acquire(1).await));
    let before = store.reads();
    let waiting = tokio::spawn(async move { ok(b.acquire(2).await) });
    // One read by the call itself, one by the worker.
    store.wait_for_reads_above(before + 1).await;
    ok(a.release(1).await);
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiting.is_finished(), "it took one of two");
    assert_available(&a, 1).await;
    ok(a.release(1).await);
    done("the waiter gets in", waiting).await;
    assert_available(&a, 0).await;
}

async fn acquire_dropped_after_every_poll(harness: Arc<Harness>) {
    let (a, look) = (of(&harness.client()), of(&harness.observer()));
    assert!(ok(a.try_set(3).await));
    for k in 0..20 {
        if let Some(taken) = poll_times(a.acquire(2), k).await {
            ok(taken);
            assert_available(&look, 1).await;
            ok(a.release(2).await);
            break;
        }
        until("it is given back", || async { ok(look.available().await) == 3 }).await;
    }
    assert_settles_at(&look, 3).await;
}

async fn a_waiting_acquire_can_be_cancelled_at_any_moment(harness: Arc<Harness>) {
    let (a, b, look) = (of(&harness.client()), of(&harness.client()), of(&harness.observer()));
    assert!(ok(b.try_set(1).await));
    for ms in 0..25 {
        let a = a.clone();
        let patience = Duration::from_millis(ms);
        let waiting = tokio::spawn(async move { tokio::time::timeout(patience, a.acquire(2)).await.is_ok() });
        // The permits become available at about the time when the waiter gives up.
        tokio::time::sleep(Duration::from_millis(10)).await;
        ok(b.release(1).await);
        let took = done("it gives up", waiting).await;
        until("what it did not take is there", || async {
            ok(look.available().await) == if took { 0 } else { 2 }
        })
        .await;
        ok(b.add(if took { 1 } else { -1 }).await);
    }
    assert_settles_at(&look, 1).await;
}

async fn a_timed_out_wait_takes_nothing(harness: Arc<Harness>) {
    let a = of(&harness.client());
    assert!(ok(a.try_set(1).await));
    let start = Instant::now();
    assert!(!repeat_if_unanswered(|| async { a.try_acquire_for(2, A_WHILE).await }).await);
    assert!(start.elapsed() >= A_WHILE, "it waited for {:?} only", start.elapsed());
    assert_available(&a, 1).await;
    assert!(ok(a.try_acquire_for(1, PATIENCE).await), "one is there");
    assert_available(&a, 0).await;
}

async fn a_timed_out_wait_takes_nothing_later(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    for _ in 0..5 {
        let wait = Duration::from_millis(30);
        assert!(!repeat_if_unanswered(|| async { a.try_acquire_for(1, wait).await }).await);
        ok(b.release(1).await);
        // A call in flight for the waiter that gave up may take the permit, and returns it afterwards.
        until("what the one that gave up took is back", || async { ok(b.try_acquire(1).await) }).await;
    }
    assert_settles_at(&b, 0).await;
}

async fn release_creates_an_absent_semaphore(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    ok(a.release(3).await);
    assert_available(&b, 3).await;
    assert!(!ok(b.try_set(9).await), "there is one now");
    assert!(ok(b.try_acquire(3).await));
    assert_available(&a, 0).await;
}

async fn a_dropped_release_is_applied_once(harness: Arc<Harness>) {
    let (a, look) = (of(&harness.client()), of(&harness.observer()));
    for k in 0..10 {
        let _ = poll_times(a.release(1), k).await;
        let n = k as i64;
        until("it happens", || async { ok(look.available().await) == n }).await;
    }
    assert_settles_at(&look, 9).await;
}

async fn a_release_dropped_during_an_outage_is_applied_once(harness: Arc<Harness>) {
    let (client, away) = client_with_outage_switch(&harness);
    let (a, look) = (of(&client), of(&harness.observer()));
    for n in 1..4 {
        away.store(true, SeqCst);
        assert!(poll_times(a.release(1), 2).await.is_none());
        assert_available(&look, n - 1).await;
        away.store(false, SeqCst);
        assert_settles_at(&look, n).await;
    }
}

async fn add_can_go_below_zero(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    assert!(ok(a.try_set(2).await));
    ok(a.add(-5).await);
    assert_available(&b, -3).await;
    assert!(!ok(b.try_acquire(1).await));
    assert_eq!(ok(b.drain().await), 0, "there is nothing to take");
    assert_available(&b, -3).await;
    ok(a.add(4).await);
    assert!(!ok(b.try_acquire(2).await));
    assert!(ok(b.try_acquire(1).await));
    assert_available(&a, 0).await;
}

async fn drain_takes_all_permits(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    assert_eq!(ok(a.drain().await), 0, "of none at all");
    assert!(ok(a.try_set(7).await));
    assert_eq!(ok(b.drain().await), 7);
    assert_eq!(ok(a.drain().await), 0);
    assert_available(&a, 0).await;
    ok(b.release(2).await);
    assert_eq!(ok(a.drain().await), 2);
}

async fn delete_keeps_waiters_waiting(harness: Arc<Harness>) {
    let (a, store) = (of(&harness.client()), ReadCounter::new(harness.backend()));
    let b = of(&Client::with(store.clone(), harness.settings()));
    assert!(!ok(a.delete().await));
    assert!(ok(a.try_set(1).await));
    let before = store.reads();
    let waiting = tokio::spawn(async move { ok(b.acquire(2).await) });
    store.wait_for_reads_above(before + 1).await;
    assert!(ok(a.delete().await));
    assert_available(&a, 0).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiting.is_finished(), "there is nothing to take");
    assert!(ok(a.try_set(3).await), "it is another one now");
    done("the waiter gets in", waiting).await;
    assert_available(&a, 1).await;
    assert!(ok(a.delete().await));
    assert!(!ok(a.delete().await));
}

async fn never_grants_more_than_available(harness: Arc<Harness>) {
    const ALL: i64 = 3;
    let times = if harness.is_chaotic() { 5 } else { 25 };
    let clients = [harness.client(), harness.client()];
    assert!(ok(of(&clients[0]).try_set(ALL as u64).await));
    let (inside, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let sampler = {
        let (look, stop) = (of(&harness.observer()), stop.clone());
        tokio::spawn(async move {
            while !stop.load(SeqCst) {
                let seen = ok(look.available().await);
                assert!((0..=ALL).contains(&seen), "{seen} of {ALL} are there");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let (semaphore, n, inside) = (of(&clients[i % 2]), i as i64 % 2 + 1, inside.clone());
            tokio::spawn(async move {
                for _ in 0..times {
                    ok(semaphore.acquire(n as u64).await);
                    let now = inside.fetch_add(n, SeqCst) + n;
                    assert!(now <= ALL, "{now} of {ALL} are taken");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(n, SeqCst);
                    ok(semaphore.release(n as u64).await);
                }
            })
        })
        .collect();
    for task in tasks {
        done("all get in", task).await;
    }
    stop.store(true, SeqCst);
    done("the sampler ends", sampler).await;
    assert_settles_at(&of(&clients[0]), ALL).await;
}

async fn each_change_is_applied_once(harness: Arc<Harness>) {
    let times = if harness.is_chaotic() { 12 } else { 40 };
    let clients = [harness.client(), harness.client()];
    let sum = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|i| {
            let (semaphore, sum) = (of(&clients[i % 2]), sum.clone());
            tokio::spawn(async move {
                for round in 0..times {
                    let n = round as i64 % 5 + 1;
                    ok(semaphore.release(n as u64).await);
                    sum.fetch_add(n, SeqCst);
                    ok(semaphore.add(-1).await);
                    sum.fetch_sub(1, SeqCst);
                    if ok(semaphore.try_acquire(2).await) {
                        sum.fetch_sub(2, SeqCst);
                    }
                    if poll_times(semaphore.acquire(1), round % 4).await.is_some() {
                        sum.fetch_sub(1, SeqCst);
                    }
                    match semaphore.try_acquire_for(1, Duration::from_millis(3)).await {
                        Ok(taken) => drop(sum.fetch_sub(i64::from(taken), SeqCst)),
                        // The store took longer than that; what it may have granted is returned.
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        done("all are done", task).await;
    }
    assert_settles_at(&of(&harness.observer()), sum.load(SeqCst)).await;
}
