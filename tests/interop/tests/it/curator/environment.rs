//! The servers of a deployment, and the processes that all of its trials share.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use interop::trials::{Processes, SharedProcess};
use interop::{Curator, CuratorOptions, Numbers, Worker};
use tempfile::TempDir;
use testbed::{Ensemble, PATIENCE, ZkClient, ZkMode, ZooKeeper, ZooKeeperOptions};

/// The session of clients that must keep it: as long as the servers allow.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The session of clients that lose it in a case.
pub(crate) const SHORT: Duration = Duration::from_secs(6);

/// On several servers, all nodes are below this one.
const ROOT: &str = "/app";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Deployment {
    Single,
    Ensemble,
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Deployment::Single => "single",
            Deployment::Ensemble => "ensemble",
        })
    }
}

enum Servers {
    Single(Box<ZooKeeper>),
    Ensemble(Ensemble),
}

pub(crate) struct Environment {
    // Declared before the servers, so that the processes are dropped first.
    processes: Processes,
    servers: Servers,
    /// The folder of the unprotected counters.
    pub(crate) numbers: TempDir,
}

impl Environment {
    pub(crate) fn start(deployment: Deployment) -> Result<Self, testbed::Error> {
        let servers = match deployment {
            Deployment::Single => Servers::Single(Box::new(ZooKeeper::start(ZooKeeperOptions::default())?)),
            Deployment::Ensemble => Servers::Ensemble(Ensemble::start()?),
        };
        let environment = Self { processes: Processes::default(), servers, numbers: tempfile::tempdir()? };
        if !environment.root().is_empty() {
            environment.raw_client()?.create(environment.root(), b"", ZkMode::Persistent)?;
        }
        Ok(environment)
    }

    /// The path in front of each name.
    pub(crate) fn root(&self) -> &'static str {
        match self.servers {
            Servers::Single(_) => "",
            Servers::Ensemble(_) => ROOT,
        }
    }

    /// `HOST:PORT,…/ROOT`
    fn address(&self) -> String {
        let servers = match &self.servers {
            Servers::Single(server) => server.address(),
            Servers::Ensemble(all) => all.addresses().join(","),
        };
        servers + self.root()
    }

    /// The URL for Tenure, with these options.
    pub(crate) fn url(&self, options: &str) -> String {
        format!("zookeeper://{}?{options}", self.address())
    }

    /// The server that executes writes, so that reads on it are up to date.
    pub(crate) fn server(&self) -> &ZooKeeper {
        match &self.servers {
            Servers::Single(server) => server,
            Servers::Ensemble(all) => all.leader().expect("a leader"),
        }
    }

    pub(crate) fn servers(&self) -> &[ZooKeeper] {
        match &self.servers {
            Servers::Single(server) => std::slice::from_ref(&**server),
            Servers::Ensemble(all) => all.servers(),
        }
    }

    /// A client that uses neither library.
    pub(crate) fn raw_client(&self) -> Result<ZkClient, testbed::Error> {
        self.server().client()
    }

    pub(crate) async fn new_jvm(&self, session: Duration) -> SharedProcess {
        let numbers = Some(self.numbers.path().to_owned());
        let options = CuratorOptions { session: Some(session), numbers, ..CuratorOptions::default() };
        Arc::new(Curator::start(&self.address(), &options).await.expect("a Java process"))
    }

    pub(crate) async fn new_worker(&self, session: Duration) -> SharedProcess {
        let binary = env!("CARGO_BIN_EXE_interop-worker");
        let numbers = Numbers::Folder(self.numbers.path().to_owned());
        let begin = Instant::now();
        loop {
            match Worker::start(binary, &self.url(&options(session)), &numbers).await {
                // With a short session the connect timeout is short, too: not enough on a busy machine.
                Err(e) if e.class() == Some("Unavailable") && begin.elapsed() < PATIENCE => {}
                worker => return Arc::new(worker.expect("a worker")),
            }
        }
    }

    /// The n-th of the shared Java processes.
    pub(crate) async fn jvm(&self, n: usize) -> SharedProcess {
        self.processes.get(format!("jvm {n}"), async || self.new_jvm(LONG).await).await
    }

    /// The n-th of the shared processes with Tenure.
    pub(crate) async fn worker(&self, n: usize) -> SharedProcess {
        self.processes.get(format!("worker {n}"), async || self.new_worker(LONG).await).await
    }
}

/// Options of Tenure's URL. Waiters do not poll within a case, so that only a notification can wake them.
pub(crate) fn options(session: Duration) -> String {
    format!("session={}ms&poll=30m", session.as_millis())
}
