//! What the tests have in common: stores, a deadline, and a room that knows how many are in it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::Client;
use testbed::{Redis, RedisOptions, ZooKeeper, ZooKeeperOptions};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn memory() -> Client {
    tenure::connect("memory:").await.unwrap()
}

/// A store, and the server that it needs.
pub(crate) struct Store {
    pub(crate) client: Client,
    _server: Server,
}

#[allow(dead_code, reason = "they are kept running")]
enum Server {
    None,
    Redis(Redis),
    ZooKeeper(ZooKeeper),
}

impl Store {
    pub(crate) async fn memory() -> Self {
        Self { client: memory().await, _server: Server::None }
    }

    pub(crate) async fn redis() -> Self {
        let server = Redis::start(RedisOptions::default()).unwrap();
        Self { client: tenure::connect(&server.url()).await.unwrap(), _server: Server::Redis(server) }
    }

    pub(crate) async fn zookeeper() -> Self {
        let server = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
        Self { client: tenure::connect(&server.url()).await.unwrap(), _server: Server::ZooKeeper(server) }
    }
}

/// The same case on each store.
macro_rules! on_each_store {
    ($($case:ident),* $(,)?) => {
        on_each_store!(memory: $($case),*);
        on_each_store!(redis: $($case),*);
        on_each_store!(zookeeper: $($case),*);
    };
    ($store:ident: $($case:ident),*) => {
        mod $store {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let store = $crate::bench::Store::$store().await;
                    $crate::bench::in_time(super::$case(store.client.clone())).await;
                    store.client.close().await.unwrap();
                }
            )*
        }
    };
}
pub(crate) use on_each_store;

pub(crate) async fn in_time<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("within the deadline")
}

pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Counts who is inside, and how many were at once.
#[derive(Clone, Default)]
pub(crate) struct Room(Arc<(AtomicUsize, AtomicUsize, AtomicUsize)>);

impl Room {
    /// Stays for a while, in which others would come in if they could.
    pub(crate) async fn visit(&self) {
        self.enter();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.leave();
    }

    pub(crate) fn visit_blocking(&self) {
        self.enter();
        for _ in 0..20 {
            std::thread::yield_now();
        }
        self.leave();
    }

    fn enter(&self) {
        let (inside, most, visits) = &*self.0;
        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
        visits.fetch_add(1, SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, SeqCst);
    }

    /// How many were inside at once.
    pub(crate) fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }

    pub(crate) fn visits(&self) -> usize {
        self.0.2.load(SeqCst)
    }
}
