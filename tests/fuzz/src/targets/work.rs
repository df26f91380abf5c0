//! What a client does with a store whose answers are made up. It ignores what it is told: only that it is told
//! something, and soon, is what matters.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{
    Backend, Claim, ClientId, CountOp, Counter, HoldId, Interest, Kind, Name, OpId, Query,
};
use tenure_core::{Client, Settings};

/// The kinds of work.
pub(crate) const WORKS: &[&str] =
    &["lock", "fair", "read-write", "permits", "leader", "count", "inspect", "diagnose", "client"];

/// How long a waiter waits here: a server that lies need not tell it anything.
const A_WHILE: Duration = Duration::from_millis(5);

/// How long a client waits for an answer. On a busy machine that is too short for a server that is slow, which is one
/// more lie.
pub(super) const TIMEOUT: Duration = Duration::from_millis(20);

/// How many clients work at once, each with a server of its own: they mostly wait.
pub(super) const AT_ONCE: usize = 32;

/// One client for all, so that what a server said to it before makes sense again.
pub(super) fn client() -> ClientId {
    "00000000-0000-4000-8000-000000000001".parse().expect("an id")
}

/// Does the work of this name; all of it, if there is no such work.
pub(super) async fn work(what: &str, store: Arc<dyn Backend>) {
    let store = &*store;
    match what {
        "lock" => hold(store, Kind::Lock, 1).await,
        "fair" => hold(store, Kind::FairLock, 2).await,
        "read-write" => {
            hold(store, Kind::Read { under_write: None }, 3).await;
            hold(store, Kind::Write, 5).await;
        }
        "permits" => hold(store, Kind::Permit { n: 2, limit: 3 }, 7).await,
        "leader" => hold(store, Kind::Leader, 9).await,
        "count" => count(store).await,
        "inspect" => inspect(store).await,
        "diagnose" => {
            if let Some(admin) = store.admin() {
                let _ = admin.diagnose().await;
            }
        }
        _ => {
            hold(store, Kind::Lock, 1).await;
            count(store).await;
            inspect(store).await;
        }
    }
    let _ = store.close(A_WHILE).await;
}

fn name(what: &str) -> Name {
    Name::new(format!("orders/{what}")).expect("a name")
}

/// Holds a name with one claim, waits for it with another, and gives both up.
async fn hold(store: &dyn Backend, kind: Kind, n: u64) {
    let name = name(&n.to_string());
    let claim = |n| Claim::of(HoldId { client: client(), n }, name.clone(), kind);
    let (first, second) = (claim(n), Claim { wait: Some(A_WHILE), watched: Some(1), ..claim(n + 1) });
    let _ = store.try_acquire(&first).await;
    let watch = store.watch(&name, Interest::Claim(&second)).await;
    let _ = store.try_acquire(&second).await;
    let _ = store.renew(&[Arc::new(first.clone()), Arc::new(second.clone())]).await;
    let _ = store.release(&first, 0).await;
    if let Ok(mut watch) = watch {
        let _ = tokio::time::timeout(A_WHILE, watch.signal()).await;
    }
    let _ = store.release(&second, 0).await;
}

async fn count(store: &dyn Backend) {
    let name = name("count");
    for (n, (counter, op)) in [
        (Counter::Latch, CountOp::Init(3)),
        (Counter::Latch, CountOp::Add(-1)),
        (Counter::Latch, CountOp::Get),
        (Counter::Latch, CountOp::Delete),
        (Counter::Semaphore, CountOp::Set(5)),
        (Counter::Semaphore, CountOp::TakeIfAtLeast(2)),
        (Counter::Semaphore, CountOp::Undo(6)),
        (Counter::Semaphore, CountOp::Drain),
        (Counter::Size, CountOp::Get),
    ]
    .into_iter()
    .enumerate()
    {
        let id = OpId { client: client(), n: n as u64 + 1, settled: n as u64 };
        let _ = store.count(&name, counter, op, id).await;
    }
}

async fn inspect(store: &dyn Backend) {
    let claim = Claim::of(HoldId { client: client(), n: 11 }, name("11"), Kind::Lock);
    let _ = store.try_acquire(&claim).await;
    let Some(admin) = store.admin() else { return };
    let _ = admin.inspect(Query::Name(name("11"))).await;
    let _ = admin.inspect(Query::Prefix { prefix: "orders/".into(), limit: 9, idle: true }).await;
    let _ = admin.expel(&name("11"), Kind::Lock, "holder").await;
    let _ = store.release(&claim, 0).await;
}

/// What a program does: a lock from a client, with everything that a client does by itself.
pub(super) async fn as_a_program(store: Arc<dyn Backend>) {
    let mut settings = Settings::default();
    (settings.call_timeout, settings.close_timeout, settings.outage) = (A_WHILE, A_WHILE, A_WHILE);
    let client = Client::with(store, settings);
    if let Ok(Some(guard)) = client.lock("orders/21").try_acquire_for(A_WHILE).await {
        let _ = guard.release().await;
    }
    if let Ok(Some(guard)) = client.lock("orders/22").fair().try_acquire_for(A_WHILE).await {
        drop((guard.fence(), guard.name().clone()));
        drop(guard);
    }
    let _ = client.latch("orders/23").try_wait_for(A_WHILE).await;
    let _ = client.close().await;
}
