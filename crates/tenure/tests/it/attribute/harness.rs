//! What the tests have in common: stores, and a room that knows how many are in it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};

use tenure::Client;
use testbed::{Redis, RedisOptions, ZooKeeper, ZooKeeperOptions};

pub(crate) async fn memory() -> Client {
    tenure::connect("memory:").await.unwrap()
}

/// A store of its own, on a server that is shared by those who use it at the same time.
pub(crate) struct Store {
    pub(crate) client: Client,
    _server: Option<Arc<dyn Send + Sync>>,
}

impl Store {
    pub(crate) async fn memory() -> Self {
        Self { client: memory().await, _server: None }
    }

    pub(crate) async fn redis() -> Self {
        static SHARED: Mutex<Weak<Redis>> = Mutex::new(Weak::new());
        let server = shared(&SHARED, || Redis::start(RedisOptions::default()).unwrap());
        Self { client: connect(&server.url()).await, _server: Some(server) }
    }

    pub(crate) async fn zookeeper() -> Self {
        static SHARED: Mutex<Weak<ZooKeeper>> = Mutex::new(Weak::new());
        let server = shared(&SHARED, || ZooKeeper::start(ZooKeeperOptions::default()).unwrap());
        Self { client: connect(&server.url()).await, _server: Some(server) }
    }
}

/// The one that runs, or a new one.
fn shared<T>(shared: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut shared = shared.lock().unwrap();
    let server = shared.upgrade().unwrap_or_else(|| Arc::new(start()));
    *shared = Arc::downgrade(&server);
    server
}

/// With a prefix that nobody else has.
async fn connect(url: &str) -> Client {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    tenure::connect(&format!("{url}?prefix=w{}:", NEXT.fetch_add(1, SeqCst))).await.unwrap()
}

/// Runs one case on each store.
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
                    let store = $crate::attribute::harness::Store::$store().await;
                    testbed::within(stringify!($case), super::$case(store.client.clone())).await;
                    store.client.close().await.unwrap();
                }
            )*
        }
    };
}
pub(crate) use on_each_store;

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
