//! Fair locks: the order of service.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::backend::{Claim, Kind};
use tenure::{Client, ClientId, Family, HoldId, Name};

use super::Case;
use crate::harness::{A_WHILE, Harness, done, ok, until, within};

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

/// Queues `who` behind the current waiters, and records it once it is in.
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
    until("it has its place", || async { ok(client.lock("x").waiters().await).len() > before }).await;
    task
}

async fn in_order(harness: &Harness, clients: &[Client], n: usize) {
    let held = ok(harness.client().lock("x").fair().acquire().await);
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for who in 0..n {
        tasks.push(queue_up(&clients[who * 7 % clients.len()], who, &served).await);
    }
    ok(held.release().await);
    for task in tasks {
        done("all are served", task).await;
    }
    assert_eq!(*served.lock().unwrap(), (0..n).collect::<Vec<_>>());
}

async fn serves_in_order(harness: Arc<Harness>) {
    in_order(&harness, &[harness.client()], 12).await;
}

async fn serves_in_order_across_clients(harness: Arc<Harness>) {
    in_order(&harness, &[harness.client(), harness.client(), harness.client()], 12).await;
}

async fn a_dead_head_is_skipped(harness: Arc<Harness>) {
    let mut settings = harness.settings();
    settings.poll = Some(A_WHILE);
    let client = harness.client_with(settings);
    let held = ok(client.lock("x").fair().acquire().await);
    // A hundred waiters that queue and never come back, all expiring at the same time: if they were skipped one after
    // another, each after its own timeout, that would take longer than the patience.
    let (dead, silent) = (100, Duration::from_secs(3));
    let backend = harness.bare_backend();
    for n in 0..dead {
        let id = HoldId { client: ClientId::new(), n };
        let claim = Claim {
            wait: Some(Duration::MAX),
            stamp: silent,
            ..Claim::of(id, ok(Name::new("x")), Kind::FairLock)
        };
        ok(backend.try_acquire(&claim).await);
    }
    if harness.has_sessions() {
        // There a waiter is alive as long as its session, so end the session.
        drop(backend);
    }
    ok(held.release().await);
    ok(ok(within("the living one is served", client.lock("x").fair().acquire()).await).release().await);
}

async fn a_head_that_gives_up_lets_the_next_in(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let held = ok(a.lock("x").fair().acquire().await);
    let served = Arc::new(Mutex::new(Vec::new()));
    let giving_up = queue_up(&b, 0, &served).await;
    let task = queue_up(&a, 1, &served).await;
    giving_up.abort();
    until("its place is gone", || async { ok(b.lock("x").waiters().await).len() == 1 }).await;
    ok(held.release().await);
    done("the next is served", task).await;
}

async fn a_try_does_not_overtake(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
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
    let next = ok(within("its turn", waiting).await);
    assert!(ok(a.lock("x").fair().try_acquire().await).is_none());
    ok(next.release().await);
}
