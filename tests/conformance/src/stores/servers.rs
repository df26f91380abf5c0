//! Real servers: one of each deployment per test process, started on first use. A world is a separate prefix.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tenure::backend::Backend;
use tenure::{Error, Family, Result};
use testbed::{RedisOptions, ZooKeeperOptions};

use super::{Store, World};

/// Servers of one type, in one deployment.
pub(super) struct Servers {
    name: &'static str,
    serves: &'static [Family],
    /// Appended to the URL.
    options: &'static str,
    start: fn() -> testbed::Result<Running>,
    running: Mutex<Option<std::result::Result<Running, String>>>,
}

/// Long enough that sessions do not expire because the machine is busy.
const SESSION: &str = "&session=60s&tick=500ms&timeout=30s";

/// Short enough that a case can wait until the session of a killed process expires.
const VICTIMS_SESSION: &str = "&session=3s&tick=500ms";

/// Running servers and their URL. Stopped on drop.
struct Running {
    url: String,
    _servers: Box<dyn Send>,
}

impl Servers {
    /// A single Redis server.
    pub(super) fn single() -> Self {
        Self::new("redis", || {
            let server = testbed::Redis::start(RedisOptions::default())?;
            Ok(Running { url: server.url(), _servers: Box::new(server) })
        })
    }

    /// A master with two replicas, and three sentinels.
    pub(super) fn sentinels() -> Self {
        Self::new("redis-sentinel", || {
            let servers = testbed::Sentinels::start()?.steady()?;
            Ok(Running { url: servers.url(), _servers: Box::new(servers) })
        })
    }

    /// Three masters with a replica each.
    pub(super) fn cluster() -> Self {
        Self::new("redis-cluster", || {
            let servers = testbed::Cluster::start()?.steady()?;
            Ok(Running { url: servers.url(), _servers: Box::new(servers) })
        })
    }

    /// A single Redis server, with the plain layout, where locks are strings.
    pub(super) fn plain() -> Self {
        let server = Self::new("redis-plain", || {
            let server = testbed::Redis::start(RedisOptions::default())?;
            Ok(Running { url: server.url(), _servers: Box::new(server) })
        });
        Self { serves: &[Family::Lock], options: "&layout=plain", ..server }
    }

    /// A quorum of five independent servers, with the plain layout.
    pub(super) fn quorum_of_five() -> Self {
        let servers = Self::new("redlock", || quorum(5));
        Self {
            serves: &[Family::Lock],
            options: "&restart_delay=off&max_lease=1h&retry_delay=5ms-25ms&node_timeout=60s&timeout=60s",
            ..servers
        }
    }

    /// A quorum of three independent servers, in Redisson's layout.
    pub(super) fn quorum_of_three() -> Self {
        let servers = Self::new("redlock-3", || quorum(3));
        Self {
            serves: &[Family::Lock],
            options: "&layout=redisson&restart_delay=off&max_lease=1h&retry_delay=5ms-25ms&node_timeout=60s&timeout=60s",
            ..servers
        }
    }

    /// A single ZooKeeper server.
    pub(super) fn zookeeper() -> Self {
        let server = Self::new("zookeeper", || {
            let server = testbed::ZooKeeper::start(ZooKeeperOptions::default())?;
            Ok(Running { url: server.url(), _servers: Box::new(server) })
        });
        Self { options: SESSION, ..server }
    }

    /// A ZooKeeper ensemble of three servers.
    pub(super) fn ensemble() -> Self {
        let servers = Self::new("zookeeper-ensemble", || {
            let servers = testbed::Ensemble::start()?;
            Ok(Running { url: servers.url(), _servers: Box::new(servers) })
        });
        Self { options: SESSION, ..servers }
    }

    fn new(name: &'static str, start: fn() -> testbed::Result<Running>) -> Self {
        Self { name, serves: Family::ALL, options: "", start, running: Mutex::default() }
    }
}

/// Starts new servers, so there are no grants that they could have lost.
fn quorum(n: usize) -> testbed::Result<Running> {
    let servers: Vec<_> =
        (0..n).map(|_| testbed::Redis::start(RedisOptions::default())).collect::<testbed::Result<_>>()?;
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    Ok(Running { url: format!("redlock://{}", hosts.join(",")), _servers: Box::new(servers) })
}

impl Store for Servers {
    fn name(&self) -> &'static str {
        self.name
    }

    fn serves(&self) -> &'static [Family] {
        self.serves
    }

    fn world(&self) -> Result<Box<dyn World>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut running = self.running.lock().unwrap();
        let running = running.get_or_insert_with(|| (self.start)().map_err(|e| e.to_string()));
        let running = running.as_ref().map_err(|e| Error::Config(e.clone()))?;
        let url = format!("{}?prefix=w{}:{}", running.url, NEXT.fetch_add(1, SeqCst), self.options);
        Ok(Box::new(Prefixed(url)))
    }
}

struct Prefixed(String);

impl World for Prefixed {
    fn backend(&self) -> Result<Arc<dyn Backend>> {
        // Opened on a runtime that is dropped afterwards, since a backend must survive the runtime that opened it.
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|e| Error::Config(e.to_string()))?;
                runtime.block_on(tenure::open(&self.0))
            });
            opening.join().map_err(|_| Error::Config("opening the store panicked".into()))?
        })
    }

    fn url(&self) -> Option<String> {
        Some(self.0.clone())
    }

    fn victims_url(&self) -> Option<String> {
        Some(self.0.replace(SESSION, VICTIMS_SESSION))
    }

    /// A cluster hashes what is inside the first pair of braces; Redisson wraps names without a brace.
    fn refuses(&self, name: &str) -> bool {
        let tagged = match name.split_once('{') {
            Some((_, rest)) => rest.find('}').is_some_and(|at| at > 0),
            None => !name.contains('}'),
        };
        self.0.starts_with("redis+cluster") && !tagged
    }
}
