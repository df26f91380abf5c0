//! The servers of a deployment, and the processes that all of its trials share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use interop::trials::{Processes, SharedProcess};
use interop::{Address, Jvm, Numbers, Options, Worker};
use testbed::{Cluster, Redis, RedisOptions, Sentinels};

/// The watchdog lease of the shared Java processes, renewed every third of it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(9);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Deployment {
    Single,
    Cluster,
    Sentinel,
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Deployment::Single => "single",
            Deployment::Cluster => "cluster",
            Deployment::Sentinel => "sentinel",
        })
    }
}

enum Servers {
    Single(Box<Redis>),
    Cluster(Cluster),
    Sentinel(Sentinels),
}

pub(crate) struct Environment {
    // Declared before the servers, so that the processes are dropped first.
    processes: Processes,
    servers: Servers,
}

impl Environment {
    pub(crate) fn start(deployment: Deployment) -> Result<Self, testbed::Error> {
        let servers = match deployment {
            Deployment::Single => Servers::Single(Box::new(Redis::start(RedisOptions::default())?)),
            Deployment::Cluster => Servers::Cluster(Cluster::start()?.steady()?),
            Deployment::Sentinel => Servers::Sentinel(Sentinels::start()?.steady()?),
        };
        Ok(Self { processes: Processes::default(), servers })
    }

    /// Starts a server for one case alone, which may stop or fill it.
    pub(crate) fn start_single() -> Self {
        Self::start(Deployment::Single).expect("a server")
    }

    /// Starts a cluster whose nodes keep serving while another one is down.
    pub(crate) fn start_cluster() -> Self {
        let lines = vec!["cluster-require-full-coverage no".to_owned()];
        let cluster = Cluster::start_with(RedisOptions { lines, ..RedisOptions::default() });
        Self { processes: Processes::default(), servers: Servers::Cluster(cluster.expect("a cluster")) }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// The URL for Tenure, with these options.
    pub(crate) fn url(&self, options: &str) -> String {
        let servers = match &self.servers {
            Servers::Single(server) => format!("redis://127.0.0.1:{}", server.port()),
            Servers::Cluster(cluster) => format!("redis+cluster://{}", cluster.addresses().join(",")),
            Servers::Sentinel(all) => {
                format!("redis+sentinel://{}/{}", all.addresses().join(","), all.name())
            }
        };
        format!("{servers}?{options}")
    }

    /// The address for Redisson.
    fn address(&self) -> Address {
        match &self.servers {
            Servers::Single(server) => Address::Single(format!("127.0.0.1:{}", server.port())),
            Servers::Cluster(cluster) => Address::Cluster(cluster.addresses()),
            Servers::Sentinel(all) => {
                Address::Sentinel { nodes: all.addresses(), master: all.name().to_owned() }
            }
        }
    }

    /// All servers that clients may subscribe to.
    pub(crate) fn nodes(&self) -> &[Redis] {
        match &self.servers {
            Servers::Single(server) => std::slice::from_ref(&**server),
            Servers::Cluster(cluster) => cluster.nodes(),
            Servers::Sentinel(all) => all.servers(),
        }
    }

    /// The server that stores this key.
    pub(crate) fn node_of(&self, key: &str) -> &Redis {
        match &self.servers {
            Servers::Single(server) => server,
            Servers::Cluster(cluster) => cluster.node_of(key).expect("a node"),
            Servers::Sentinel(all) => all.master().expect("a master"),
        }
    }

    pub(crate) async fn new_jvm(&self, options: Options) -> SharedProcess {
        Arc::new(Jvm::start(&self.address(), &options).await.expect("a Java process"))
    }

    pub(crate) async fn new_worker(&self, options: &str) -> SharedProcess {
        let binary = env!("CARGO_BIN_EXE_interop-worker");
        let numbers = Numbers::Redis(self.node_of("any").port());
        Arc::new(Worker::start(binary, &self.url(options), &numbers).await.expect("a worker"))
    }

    /// The n-th of the shared Java processes.
    pub(crate) async fn jvm(&self, n: usize) -> SharedProcess {
        self.processes
            .get(format!("jvm {n}"), async || self.new_jvm(Options::small().watchdog(WATCHDOG)).await)
            .await
    }

    /// The n-th of the shared processes with Tenure.
    pub(crate) async fn worker(&self, n: usize, options: &str) -> SharedProcess {
        self.processes.get(format!("worker {n} {options}"), async || self.new_worker(options).await).await
    }
}
