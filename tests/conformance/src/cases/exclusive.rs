//! Cases for every exclusive primitive: each runs through its [`Mutex`] adapter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::Client;

use super::Case;
use crate::harness::{
    A_WHILE, Harness, PATIENCE, RENEWED, done, heavy_case_slot, ok, poll_once, poll_times,
    repeat_if_unanswered, until, within,
};
use crate::mutex::{ADAPTERS, Make, Mutex};

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (word, needs, make) in ADAPTERS {
        let mut add =
            |name: &str, case: fn(Arc<Harness>, Make) -> futures_util::future::BoxFuture<'static, ()>| {
                all.push(Case::new(format!("{word}::{name}"), needs, move |harness| case(harness, *make)));
            };
        macro_rules! each {
            ($($case:ident),* $(,)?) => { $(add(stringify!($case), |b, m| Box::pin($case(b, m)));)* };
        }
        each![
            excludes_tasks,
            excludes_clients,
            try_acquire_does_not_wait,
            try_acquire_for_waits_for_the_given_time,
            release_lets_the_next_in,
            drop_lets_the_next_in,
            drop_then_try_is_not_busy,
            watchdog_renews_past_the_lease,
            fences_only_grow,
            acquire_dropped_after_every_poll,
            an_unpolled_acquire_blocks_nobody,
            a_thousand_waiters,
        ];
    }
    all
}

async fn excludes_tasks(harness: Arc<Harness>, make: Make) {
    let client = harness.client();
    exclude(vec![make(&client, "x"); 8], if harness.is_chaotic() { 6 } else { 40 }).await;
}

async fn excludes_clients(harness: Arc<Harness>, make: Make) {
    let mutexes = (0..4).map(|_| make(&harness.client(), "x")).collect();
    exclude(mutexes, if harness.is_chaotic() { 6 } else { 40 }).await;
}

async fn has_waiter(look: &Client) -> bool {
    !ok(look.lock("x").waiters().await).is_empty()
}

async fn wait_for_waiter(look: &Client) {
    until("it waits", || has_waiter(look)).await;
}

/// Increments an unprotected number from one task per mutex; no increment may be lost, and never may two be inside.
async fn exclude(mutexes: Vec<Mutex>, times: u64) {
    let (number, inside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let total = mutexes.len() as u64 * times;
    let tasks: Vec<_> = mutexes
        .into_iter()
        .map(|mutex| {
            let (number, inside) = (number.clone(), inside.clone());
            tokio::spawn(async move {
                for _ in 0..times {
                    let held = ok(mutex.acquire().await);
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
                    let seen = number.load(SeqCst);
                    tokio::task::yield_now().await;
                    number.store(seen + 1, SeqCst);
                    assert!(held.is_held());
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two are inside");
                    ok(held.release().await);
                }
            })
        })
        .collect();
    for task in tasks {
        done("all get in", task).await;
    }
    assert_eq!(number.load(SeqCst), total);
}

async fn try_acquire_does_not_wait(harness: Arc<Harness>, make: Make) {
    let (a, b) = (make(&harness.client(), "x"), make(&harness.client(), "x"));
    let held = ok(a.acquire().await);
    assert!(ok(within("it does not wait", b.try_acquire()).await).is_none());
    ok(held.release().await);
    let again = ok(b.try_acquire().await).expect("free");
    ok(again.release().await);
}

async fn try_acquire_for_waits_for_the_given_time(harness: Arc<Harness>, make: Make) {
    let (a, b) = (make(&harness.client(), "x"), make(&harness.client(), "x"));
    let held = ok(a.acquire().await);
    let (start, wait) = (Instant::now(), Duration::from_millis(400));
    assert!(repeat_if_unanswered(|| async { b.try_acquire_for(wait).await }).await.is_none());
    let waited = start.elapsed();
    assert!(waited >= wait, "it waited for {waited:?} only");
    ok(held.release().await);
    let again = ok(within("a free one", b.try_acquire_for(PATIENCE * 2)).await).expect("free");
    ok(again.release().await);
}

async fn release_lets_the_next_in(harness: Arc<Harness>, make: Make) {
    let (a, b) = (make(&harness.client(), "x"), make(&harness.client(), "x"));
    let held = ok(a.acquire().await);
    let waiting = tokio::spawn(async move { ok(b.acquire().await) });
    wait_for_waiter(&harness.observer()).await;
    assert!(!waiting.is_finished(), "two are inside");
    ok(held.release().await);
    let next = done("the wake-up", waiting).await;
    ok(next.release().await);
}

async fn drop_lets_the_next_in(harness: Arc<Harness>, make: Make) {
    let (a, b) = (make(&harness.client(), "x"), make(&harness.client(), "x"));
    let held = ok(a.acquire().await);
    let waiting = tokio::spawn(async move { ok(b.acquire().await) });
    wait_for_waiter(&harness.observer()).await;
    drop(held);
    let next = done("the wake-up", waiting).await;
    ok(next.release().await);
}

async fn drop_then_try_is_not_busy(harness: Arc<Harness>, make: Make) {
    let mutex = make(&harness.client(), "x");
    for _ in 0..20 {
        drop(ok(mutex.try_acquire().await).expect("the one before was dropped"));
    }
}

async fn watchdog_renews_past_the_lease(harness: Arc<Harness>, make: Make) {
    let (a, b) = (make(&harness.client_with(harness.renewing_settings()), "x"), make(&harness.client(), "x"));
    let held = ok(a.acquire().await);
    let start = Instant::now();
    while start.elapsed() < RENEWED * 4 / 3 {
        assert!(held.is_held(), "lost after {:?}", start.elapsed());
        assert!(ok(b.try_acquire().await).is_none(), "taken after {:?}", start.elapsed());
        tokio::time::sleep(A_WHILE * 2).await;
    }
    ok(held.release().await);
}

async fn fences_only_grow(harness: Arc<Harness>, make: Make) {
    let clients = [harness.client(), harness.client()];
    if !clients[0].backend().info().fenced {
        assert!(ok(make(&clients[0], "x").acquire().await).fence().is_none());
        return;
    }
    let mut last = None;
    for i in 0..30 {
        let held = ok(make(&clients[i % 2], "x").acquire().await);
        assert!(held.fence() > last, "{:?} after {last:?}", held.fence());
        last = held.fence();
        ok(held.release().await);
    }
}

async fn acquire_dropped_after_every_poll(harness: Arc<Harness>, make: Make) {
    let (client, other) = (harness.client(), harness.client());
    for busy in [false, true] {
        for k in 0..6 {
            let held = if busy { Some(ok(make(&other, "x").acquire().await)) } else { None };
            let ready = poll_times(make(&client, "x").acquire(), k).await;
            let done = ready.is_some();
            drop(ready);
            if let Some(held) = held {
                ok(held.release().await);
            }
            // Nothing of it is left: another client gets in without waiting for a lease to end.
            let next = within("the next one gets in", make(&other, "x").acquire()).await;
            ok(ok(next).release().await);
            if done {
                break;
            }
        }
    }
}

async fn an_unpolled_acquire_blocks_nobody(harness: Arc<Harness>, make: Make) {
    let (client, other, look) =
        (harness.client_with(harness.renewing_settings()), harness.client(), harness.observer());
    let held = ok(make(&other, "x").acquire().await);
    let mutex = make(&client, "x");
    let mut asleep = Box::pin(mutex.acquire());
    // Poll it until it waits, then never again.
    while {
        assert!(poll_once(asleep.as_mut()).is_pending());
        !has_waiter(&look).await
    } {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let local = make(&client, "x");
    let waiting = tokio::spawn(async move { ok(local.acquire().await) });
    ok(held.release().await);
    // It is granted first but not collected: after a third of the lease the next waiter is served.
    let next = done("the next one gets in", waiting).await;
    ok(next.release().await);
    drop(asleep);
}

async fn a_thousand_waiters(harness: Arc<Harness>, make: Make) {
    let _slot = heavy_case_slot().await;
    let client = harness.client();
    let n = if harness.is_chaotic() { 40 } else { 1000 };
    let held = ok(make(&client, "x").acquire().await);
    let inside = Arc::new(AtomicU64::new(0));
    let waiting: Vec<_> = (0..n)
        .map(|_| {
            let (mutex, inside) = (make(&client, "x"), inside.clone());
            tokio::spawn(async move {
                let held = ok(mutex.acquire().await);
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
                assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two are inside");
                ok(held.release().await);
            })
        })
        .collect();
    wait_for_waiter(&harness.observer()).await;
    ok(held.release().await);
    for task in waiting {
        done("all get in", task).await;
    }
}
