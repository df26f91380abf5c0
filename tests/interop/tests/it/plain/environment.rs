//! The servers of a deployment, and the processes that all of its trials share.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use interop::trials::SharedProcess;
use interop::{Numbers, Plain, Worker};
use testbed::{Redis, RedisOptions};
use tokio::sync::{Mutex, OnceCell};

/// How many servers make a quorum.
const SERVERS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Deployment {
    Single,
    Quorum,
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Deployment::Single => "single",
            Deployment::Quorum => "quorum",
        })
    }
}

/// Starts a process of a library, connected to these servers.
pub(crate) type Start = fn(Vec<String>) -> Pin<Box<dyn Future<Output = interop::Result<Plain>> + Send>>;

/// The other side.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) name: &'static str,
    /// Whether it knows locks of several servers.
    pub(crate) quorum: bool,
    pub(crate) start: Start,
}

impl Library {
    pub(crate) fn deployments(&self) -> &'static [Deployment] {
        if self.quorum { &[Deployment::Single, Deployment::Quorum] } else { &[Deployment::Single] }
    }
}

/// Each is started when it is first asked for.
pub(crate) struct Environments {
    library: Library,
    single: OnceCell<Arc<Environment>>,
    quorum: OnceCell<Arc<Environment>>,
}

impl Environments {
    pub(crate) fn new(library: Library) -> Self {
        Self { library, single: OnceCell::new(), quorum: OnceCell::new() }
    }

    pub(crate) async fn get(&self, deployment: Deployment) -> Result<Arc<Environment>, String> {
        let (cell, n) = match deployment {
            Deployment::Single => (&self.single, 1),
            Deployment::Quorum => (&self.quorum, SERVERS),
        };
        cell.get_or_try_init(|| Environment::start(self.library, n)).await.cloned()
    }
}

pub(crate) struct Environment {
    library: Library,
    // Before the servers, so that they are dropped before them.
    peers: Mutex<HashMap<String, SharedProcess>>,
    servers: Vec<Redis>,
}

impl Environment {
    /// With a first process of the library, since the driver may have to be built.
    async fn start(library: Library, n: usize) -> Result<Arc<Self>, String> {
        let start = || Redis::start(RedisOptions::default());
        let servers = std::iter::repeat_with(start).take(n).collect::<Result<_, _>>();
        let servers = servers.map_err(|e| e.to_string())?;
        let environment = Self { library, peers: Mutex::default(), servers };
        let peer = (library.start)(environment.addresses()).await.map_err(|e| e.to_string())?;
        environment.peers.lock().await.insert("peer 0".to_owned(), Arc::new(peer));
        Ok(Arc::new(environment))
    }

    /// One more of the kind.
    pub(crate) async fn start_another(&self) -> Result<Arc<Self>, String> {
        Self::start(self.library, self.servers.len()).await
    }

    pub(crate) fn servers(&self) -> &[Redis] {
        &self.servers
    }

    fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
    }

    /// For Tenure, with these options.
    pub(crate) fn url(&self, options: &str) -> String {
        let (servers, all) = (self.addresses(), self.addresses().join(","));
        let base = if servers.len() == 1 {
            format!("redis://{all}?layout=plain")
        } else {
            // The servers have just been started.
            format!("redlock://{all}?restart_delay=off&max_lease=1h&node_timeout=5s")
        };
        if options.is_empty() { base } else { format!("{base}&{options}") }
    }

    pub(crate) async fn new_peer(&self) -> SharedProcess {
        Arc::new((self.library.start)(self.addresses()).await.expect("a process of the peer"))
    }

    pub(crate) async fn new_worker(&self, options: &str) -> SharedProcess {
        let binary = env!("CARGO_BIN_EXE_interop-worker");
        let numbers = Numbers::Redis(self.servers[0].port());
        Arc::new(Worker::start(binary, &self.url(options), &numbers).await.expect("a worker"))
    }

    /// The n-th process of the library that all share.
    pub(crate) async fn peer(&self, n: usize) -> SharedProcess {
        let mut peers = self.peers.lock().await;
        let key = format!("peer {n}");
        if !peers.contains_key(&key) {
            let peer = self.new_peer().await;
            peers.insert(key.clone(), peer);
        }
        peers[&key].clone()
    }

    /// The n-th process with Tenure that all share.
    pub(crate) async fn worker(&self, n: usize) -> SharedProcess {
        let mut peers = self.peers.lock().await;
        let key = format!("worker {n}");
        if !peers.contains_key(&key) {
            let worker = self.new_worker("").await;
            peers.insert(key.clone(), worker);
        }
        peers[&key].clone()
    }
}
