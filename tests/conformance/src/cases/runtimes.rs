//! Runtimes that end, and guards that outlive them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tenure::{Client, Family};

use super::Case;
use crate::harness::{Harness, RENEWED, ok, repeat_if_unanswered, until, within};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Lock];
    cases!["runtime"; NEEDS;
        a_guard_can_be_dropped_without_a_runtime,
        shutdown_releases_a_thousand_guards,
        a_client_can_be_used_from_a_second_runtime,
        a_blocked_runtime_does_not_stop_renewal,
        needs_no_timers,
        a_loop_lets_other_tasks_run,
        a_panic_while_holding_releases,
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs `work` on a thread without a runtime.
async fn on_another_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(send.send(work())));
    within("the thread", receive).await.expect("no panic")
}

/// A client for runtimes that end. An attempt of a quorum that a slow node has not answered then may still arrive there, so
/// that its release is certain only when the lease is over.
fn ending(harness: &Harness) -> Client {
    harness.client_with(harness.renewing_settings())
}

async fn a_guard_can_be_dropped_without_a_runtime(harness: Arc<Harness>) {
    let client = harness.client();
    let guard = ok(client.lock("x").acquire().await);
    on_another_thread(move || drop(guard)).await;
    ok(within("free", harness.client().lock("x").acquire()).await.map(drop));
}

async fn shutdown_releases_a_thousand_guards(harness: Arc<Harness>) {
    let n = if harness.is_chaotic() { 50 } else { 1000 };
    let client = harness.client();
    on_another_thread(move || {
        let runtime = runtime();
        for i in 0..n {
            let lock = client.lock(format!("x{i}"));
            let guard = runtime.block_on(lock.acquire()).expect("free");
            runtime.spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
        }
        drop(runtime);
    })
    .await;
    let look = harness.observer();
    until("all are free", || async { ok(look.list("x", 10).await).is_empty() }).await;
}

async fn a_client_can_be_used_from_a_second_runtime(harness: Arc<Harness>) {
    let client = ending(&harness);
    for _ in 0..3 {
        let client = client.clone();
        on_another_thread(move || {
            runtime().block_on(async {
                let guard = ok(client.lock("x").acquire().await);
                let lock = client.lock("x");
                let waiting = tokio::spawn(async move { ok(lock.acquire().await) });
                tokio::task::yield_now().await;
                ok(guard.release().await);
                ok(waiting.await.expect("no panic").release().await);
            });
        })
        .await;
    }
}

async fn a_blocked_runtime_does_not_stop_renewal(harness: Arc<Harness>) {
    let client = harness.client_with(harness.renewing_settings());
    let held = on_another_thread(move || {
        runtime().block_on(async {
            let guard = ok(client.lock("x").acquire().await);
            std::thread::sleep(RENEWED * 4 / 3);
            let held = guard.is_held();
            ok(guard.release().await);
            held
        })
    })
    .await;
    assert!(held);
}

async fn needs_no_timers(harness: Arc<Harness>) {
    let (client, other) = (ending(&harness), harness.client());
    let held = ok(other.lock("x").acquire().await);
    let given_up = repeat_if_unanswered(|| {
        let lock = client.lock("x");
        on_another_thread(move || {
            let bare = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            bare.block_on(lock.try_acquire_for(Duration::from_millis(200)))
        })
    })
    .await;
    assert!(given_up.is_none());
    ok(held.release().await);
}

async fn a_loop_lets_other_tasks_run(harness: Arc<Harness>) {
    const ROUNDS: u32 = 1000;
    let held = ok(harness.client().lock("held").acquire().await);
    let client = ending(&harness);
    // Counts the iterations of each loop before another task of the same runtime is polled.
    let rounds = on_another_thread(move || {
        let alone = |turn: &AsyncTurn| {
            runtime().block_on(async {
                let ran = Arc::new(AtomicBool::new(false));
                let (theirs, mut rounds) = (ran.clone(), 0);
                tokio::spawn(async move { theirs.store(true, SeqCst) });
                while !ran.load(SeqCst) && rounds < ROUNDS {
                    rounds += 1;
                    turn(client.clone()).await;
                }
                rounds
            })
        };
        let loops: [(&str, &AsyncTurn); 3] = [
            ("take and release", &|client| {
                Box::pin(async move { ok(ok(client.lock("x").acquire().await).release().await) })
            }),
            ("try what is held", &|client| {
                Box::pin(async move { assert!(ok(client.lock("held").try_acquire().await).is_none()) })
            }),
            ("look", &|client| Box::pin(async move { assert!(ok(client.lock("held").is_locked().await)) })),
        ];
        loops.map(|(what, turn)| (what, alone(turn)))
    })
    .await;
    assert!(rounds.iter().all(|(_, n)| *n < ROUNDS), "{rounds:?}");
    ok(held.release().await);
}

/// One iteration of a loop.
type AsyncTurn = dyn Fn(Client) -> Pin<Box<dyn Future<Output = ()>>>;

async fn a_panic_while_holding_releases(harness: Arc<Harness>) {
    let client = harness.client();
    let other = ok(client.lock("y").acquire().await);
    let task = tokio::spawn({
        let lock = client.lock("x");
        async move {
            let _guard = ok(lock.acquire().await);
            std::panic::resume_unwind(Box::new("in the section"));
        }
    });
    assert!(task.await.is_err());
    ok(within("free", harness.client().lock("x").acquire()).await.map(drop));
    assert!(other.is_held(), "other names are not touched");
    ok(other.release().await);
}
