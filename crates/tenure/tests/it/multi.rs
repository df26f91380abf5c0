//! One lock over different stores: two Redis servers and a SQLite file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure::{Client, MultiLock, Settings, multi};
use testbed::{Redis, RedisOptions, done, until, within};

struct World {
    servers: [Redis; 2],
    folder: tempfile::TempDir,
}

/// What one process has: a client of each store.
struct Process([Client; 3]);

impl World {
    fn start() -> Self {
        let server = || Redis::start(RedisOptions::default()).expect("a server");
        Self { servers: [server(), server()], folder: tempfile::tempdir().expect("a folder") }
    }

    async fn process(&self) -> Process {
        let mut settings = Settings::default();
        settings.lease = Duration::from_secs(60);
        self.process_with(settings).await
    }

    async fn process_with(&self, settings: Settings) -> Process {
        let file = format!("sqlite:{}", self.folder.path().join("locks.db").display());
        let urls = [self.servers[0].url(), self.servers[1].url(), file];
        let connect = urls.each_ref().map(|url| tenure::connect_with(url, settings.clone()));
        let [a, b, c] = connect;
        Process([a.await.unwrap(), b.await.unwrap(), c.await.unwrap()])
    }
}

impl Process {
    /// One name on each store, in this order.
    fn all(&self, order: [usize; 3]) -> MultiLock {
        multi(order.map(|at| self.0[at].lock("x")))
    }

    async fn free(&self) -> bool {
        for client in &self.0 {
            if client.show("x").await.unwrap().is_some_and(|s| !s.holders.is_empty() || !s.waiters.is_empty())
            {
                return false;
            }
        }
        true
    }
}

/// Every order at once: never two inside, nobody waits for ever, and nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn every_order_gets_in_one_by_one() {
    let world = World::start();
    let (inside, most, sum) =
        (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
    let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]];
    let mut tasks = Vec::new();
    for order in orders {
        let process = world.process().await;
        let (inside, most, sum) = (inside.clone(), most.clone(), sum.clone());
        tasks.push(tokio::spawn(async move {
            let all = process.all(order);
            for _ in 0..10 {
                let guards = all.acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                let seen = sum.load(SeqCst);
                tokio::task::yield_now().await;
                sum.store(seen + 1, SeqCst);
                inside.fetch_sub(1, SeqCst);
                guards.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        done("all get in", task).await;
    }
    assert_eq!((most.load(SeqCst), sum.load(SeqCst)), (1, 40));
    let look = world.process().await;
    until("nothing is left", || async { look.free().await }).await;
}

/// All or nothing, whichever store is in the way.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_busy_leaves_none_held() {
    let world = World::start();
    let (ours, theirs) = (world.process().await, world.process().await);
    for busy in 0..3 {
        let held = theirs.0[busy].lock("x").acquire().await.unwrap();
        let all = ours.all([0, 1, 2]);
        assert!(all.try_acquire().await.unwrap().is_none());
        for other in (0..3).filter(|at| *at != busy) {
            assert!(!theirs.0[other].lock("x").is_locked().await.unwrap());
        }
        let waiting = tokio::spawn(async move { all.acquire().await });
        until("it waits", || async { !theirs.0[busy].lock("x").waiters().await.unwrap().is_empty() }).await;
        held.release().await.unwrap();
        let guards = done("it gets in", waiting).await.unwrap();
        assert_eq!(guards.fences().len(), 3);
        guards.release().await.unwrap();
        until("nothing is left", || async { theirs.free().await }).await;
    }
}

/// A store that is gone: what the others have is given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_dies_is_all_of_it_lost() {
    let world = World::start();
    let mut settings = Settings::default();
    (settings.lease, settings.call_timeout) = (Duration::from_secs(9), Duration::from_secs(9));
    let (ours, look) = (world.process_with(settings).await, world.process().await);
    let guards = ours.all([0, 1, 2]).acquire().await.unwrap();
    world.servers[1].kill().unwrap();
    within("told", guards.lost()).await;
    assert!(!guards.is_held());
    drop(guards);
    for at in [0, 2] {
        until("given back", || async { !look.0[at].lock("x").is_locked().await.unwrap() }).await;
    }
    // Nor is anything left of one that could not be had.
    let all = ours.all([0, 2, 1]);
    assert!(within("an answer", all.try_acquire()).await.is_err());
    for at in [0, 2] {
        until("given back", || async { !look.0[at].lock("x").is_locked().await.unwrap() }).await;
    }
}
