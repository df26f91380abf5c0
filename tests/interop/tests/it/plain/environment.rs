//! The servers of a deployment, and the processes that all of its trials share.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use interop::trials::{Processes, SharedProcess};
use interop::{Numbers, Plain, Worker};
use testbed::{Redis, RedisOptions};

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

/// A library under test.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) name: &'static str,
    /// Whether it supports locks on several servers.
    pub(crate) quorum: bool,
    pub(crate) start: Start,
}

impl Library {
    pub(crate) fn deployments(&self) -> &'static [Deployment] {
        if self.quorum { &[Deployment::Single, Deployment::Quorum] } else { &[Deployment::Single] }
    }
}

pub(crate) struct Environment {
    library: Library,
    // Declared before the servers, so that the processes are dropped first.
    processes: Processes,
    servers: Vec<Redis>,
}

impl Environment {
    pub(crate) async fn start(library: Library, deployment: Deployment) -> Result<Self, String> {
        let servers = match deployment {
            Deployment::Single => 1,
            Deployment::Quorum => SERVERS,
        };
        Self::start_servers(library, servers).await
    }

    /// Also starts the first process of the library: building its driver may fail.
    async fn start_servers(library: Library, n: usize) -> Result<Self, String> {
        let start = || Redis::start(RedisOptions::default());
        let servers = std::iter::repeat_with(start).take(n).collect::<Result<_, _>>();
        let servers = servers.map_err(|e| e.to_string())?;
        let environment = Self { library, processes: Processes::default(), servers };
        let peer = (library.start)(environment.addresses()).await.map_err(|e| e.to_string())?;
        environment.processes.get("peer 0".to_owned(), async || Arc::new(peer) as SharedProcess).await;
        Ok(environment)
    }

    /// Starts another environment of this deployment.
    pub(crate) async fn start_another(&self) -> Result<Self, String> {
        Self::start_servers(self.library, self.servers.len()).await
    }

    pub(crate) fn servers(&self) -> &[Redis] {
        &self.servers
    }

    fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
    }

    /// The URL for Tenure, with these options.
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

    /// The n-th of the shared processes of the library.
    pub(crate) async fn peer(&self, n: usize) -> SharedProcess {
        self.processes.get(format!("peer {n}"), async || self.new_peer().await).await
    }

    /// The n-th of the shared processes with Tenure.
    pub(crate) async fn worker(&self, n: usize) -> SharedProcess {
        self.processes.get(format!("worker {n}"), async || self.new_worker("").await).await
    }
}
