//! The order of service.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::{Claim, Client, ClientId, Family, HoldId, Kind, Name};

use super::Case;
use crate::bench::{Bench, LEASE, PATIENCE, eventually, ok, within};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Fair];
    cases!["fair"; NEEDS;
        serves_in_order,
        serves_in_order_across_clients,
        a_dead_head_is_skipped,
        a_head_that_gives_up_lets_the_next_in,
        a_try_does_not_overtake,
    ]
}

/// Queues `who` behind those who wait, and notes its name when it is in.
async fn queue_up(
    client: &Client,
    who: usize,
    served: &Arc<Mutex<Vec<usize>>>,
) -> tokio::task::JoinHandle<()> {
    let before = ok(client.lock("x").waiters().await).len();
    let task = tokio::spawn({
        let (lock, served) = (client.lock("x").fair(), served.clone());
        async move {
            let guard = ok(lock.acquire().await);
            served.lock().unwrap().push(who);
            ok(guard.release().await);
        }
    });
    eventually("it has its place", || async { ok(client.lock("x").waiters().await).len() > before }).await;
    task
}

async fn in_order(bench: &Bench, clients: &[Client], n: usize) {
    let held = ok(bench.client().lock("x").fair().acquire().await);
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for who in 0..n {
        tasks.push(queue_up(&clients[who * 7 % clients.len()], who, &served).await);
    }
    ok(held.release().await);
    for task in tasks {
        within(PATIENCE * 2, "all are served", task).await.expect("no panic");
    }
    assert_eq!(*served.lock().unwrap(), (0..n).collect::<Vec<_>>());
}

async fn serves_in_order(bench: Arc<Bench>) {
    in_order(&bench, &[bench.client()], 12).await;
}

async fn serves_in_order_across_clients(bench: Arc<Bench>) {
    in_order(&bench, &[bench.client(), bench.client(), bench.client()], 12).await;
}

async fn a_dead_head_is_skipped(bench: Arc<Bench>) {
    // With places that last for 900 ms.
    let mut settings = Bench::settings();
    settings.poll = Some(Duration::from_millis(300));
    let client = bench.client_with(settings);
    let held = ok(client.lock("x").fair().acquire().await);
    // Ten that queue and are never heard of again.
    let backend = bench.bare();
    for n in 0..10 {
        let id = HoldId { client: ClientId::new(), n };
        let claim = Claim {
            wait: Some(Duration::MAX),
            stamp: Duration::from_millis(900),
            ..Claim::of(id, ok(Name::new("x")), Kind::FairLock)
        };
        ok(backend.try_acquire(&claim).await);
    }
    if bench.has_sessions() {
        // Who is alive there is alive with all its places.
        drop(backend);
    }
    let served = Arc::new(Mutex::new(Vec::new()));
    let task = queue_up(&client, 1, &served).await;
    ok(held.release().await);
    let start = Instant::now();
    within(PATIENCE, "the living one is served", task).await.expect("no panic");
    assert!(start.elapsed() < LEASE, "one after another: {:?}", start.elapsed());
}

async fn a_head_that_gives_up_lets_the_next_in(bench: Arc<Bench>) {
    let (a, b) = (bench.client(), bench.client());
    let held = ok(a.lock("x").fair().acquire().await);
    let giving_up = tokio::spawn({
        let lock = b.lock("x").fair();
        async move { ok(lock.try_acquire_for(LEASE / 6).await).is_none() }
    });
    eventually("the first has its place", || async { ok(b.lock("x").waiters().await).len() == 1 }).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let task = queue_up(&a, 1, &served).await;
    assert!(within(PATIENCE, "it gives up", giving_up).await.expect("no panic"));
    eventually("its place is gone", || async { ok(b.lock("x").waiters().await).len() == 1 }).await;
    ok(held.release().await);
    within(LEASE / 2, "the next is served", task).await.expect("no panic");
}

async fn a_try_does_not_overtake(bench: Arc<Bench>) {
    let (a, b) = (bench.client(), bench.client());
    let held = ok(a.lock("x").fair().acquire().await);
    let asleep = b.lock("x").fair();
    let mut waiting = Box::pin(asleep.acquire());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    while ok(a.lock("x").waiters().await).is_empty() {
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(ok(a.lock("x").fair().try_acquire().await).is_none());
    ok(held.release().await);
    let next = ok(within(PATIENCE, "its turn", waiting).await);
    assert!(ok(a.lock("x").fair().try_acquire().await).is_none());
    ok(next.release().await);
}
