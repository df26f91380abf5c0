//! Who is compared: ours with one setting or another, other libraries, and bare connections.

use std::process::Command as Program;

use interop::driver::{Recipe, go, python};
use interop::{Address, Curator, CuratorOptions, Jvm, Options, Peer};
use tokio::process::Command;

use crate::Result;
use crate::servers::{Servers, has_etcd};

/// A program that takes part, steered as `client/mod.rs` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Side {
    pub(crate) name: &'static str,
    kind: Kind,
    /// What it locks, if not what the workload says.
    pub(crate) locks: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Ours on Redis, with these parameters of the URL.
    Ours(&'static str),
    /// This program, as another client.
    Client(&'static str),
    Redsync,
    PythonRedisLock,
    Redisson,
    Curator,
    Etcd,
    /// Something in this process, or a command.
    Here,
}

const fn side(name: &'static str, kind: Kind) -> Side {
    Side { name, kind, locks: None }
}

/// The same side, which locks something else.
const fn locking(of: Side, locks: &'static str, name: &'static str) -> Side {
    Side { name, kind: of.kind, locks: Some(locks) }
}

pub(crate) const TENURE: Side = side("Tenure", Kind::Ours(""));
pub(crate) const TENURE_REMOTE: Side = side("Tenure, hand-over off", Kind::Ours("local_handover=off"));
pub(crate) const PLAIN: Side = side("Tenure plain", Kind::Ours("layout=plain"));
pub(crate) const PLAIN_REMOTE: Side =
    side("Tenure plain, hand-over off", Kind::Ours("layout=plain&local_handover=off"));
pub(crate) const BARE_HASH: Side = side("bare hash", Kind::Client("bare-hash"));
pub(crate) const BARE_SET: Side = side("bare SET", Kind::Client("bare-set"));
pub(crate) const RSLOCK: Side = side("rslock", Kind::Client("rslock"));
pub(crate) const REDSYNC: Side = side("redsync", Kind::Redsync);
pub(crate) const PYTHON: Side = side("python-redis-lock", Kind::PythonRedisLock);
pub(crate) const REDISSON: Side = side("Redisson", Kind::Redisson);

pub(crate) const FAIR: Side = locking(TENURE, "fair", "Tenure, fair");
pub(crate) const READ: Side = locking(TENURE, "read", "Tenure, read");
pub(crate) const WRITE: Side = locking(TENURE, "write", "Tenure, write");
pub(crate) const PERMITS: Side = locking(TENURE, "permit:64", "Tenure, permits");
pub(crate) const REDISSON_FAIR: Side = locking(REDISSON, "fair", "Redisson, fair");
pub(crate) const REDISSON_READ: Side = locking(REDISSON, "read", "Redisson, read");
pub(crate) const REDISSON_WRITE: Side = locking(REDISSON, "write", "Redisson, write");
pub(crate) const REDISSON_PERMITS: Side = locking(REDISSON, "permit:64", "Redisson, permits");
pub(crate) const QUORUM: Side = side("Tenure, quorum", Kind::Ours(""));
pub(crate) const ZOOKEEPER: Side = side("Tenure, ZooKeeper", Kind::Ours(""));
pub(crate) const ZOOKEEPER_REMOTE: Side =
    side("Tenure, ZooKeeper, hand-over off", Kind::Ours("local_handover=off"));
pub(crate) const BARE_ZOOKEEPER: Side = side("bare ZooKeeper", Kind::Client("bare-zookeeper"));
pub(crate) const CURATOR: Side = side("Curator", Kind::Curator);
pub(crate) const ETCD: Side = side("etcd", Kind::Etcd);

pub(crate) const MEMORY: Side = side("Tenure, memory", Kind::Here);
pub(crate) const MUTEX: Side = side("tokio Mutex", Kind::Here);
pub(crate) const SQLITE: Side = side("Tenure, SQLite", Kind::Here);
pub(crate) const TRANSACTIONS: Side = side("two bare transactions", Kind::Here);
pub(crate) const FLOCK: Side = side("flock(1)", Kind::Here);
pub(crate) const COMMAND: Side = side("tenure run", Kind::Here);
pub(crate) const UNWATCHED: Side = side("Tenure, nobody watches", Kind::Here);
pub(crate) const SILENT: Side = side("without spans, events and metrics", Kind::Here);

const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

const REDSYNC_DRIVER: Recipe<Program> = Recipe {
    name: "bench-redsync",
    folder: GO,
    version: "",
    build: |sources, into| go::build(sources, "./redsync", into),
    kept: go::kept,
};

const ETCD_DRIVER: Recipe<Program> = Recipe {
    name: "bench-etcd",
    build: |sources, into| go::build(sources, "./etcd", into),
    ..REDSYNC_DRIVER
};

const PYTHON_DRIVER: Recipe<Program> = Recipe {
    name: "bench-python",
    folder: concat!(env!("CARGO_MANIFEST_DIR"), "/python"),
    version: "",
    build: python::build,
    kept: python::kept,
};

impl Side {
    /// Whether it is there: a feature may be left out of the build, a setting be unknown to the library, or a server not be
    /// installed.
    pub(crate) fn is_known(self) -> bool {
        match self.kind {
            Kind::Ours(settings) if settings.contains("local_handover") => {
                tenure::Config::default().url(&format!("redis://h:1?{settings}")).is_ok()
            }
            Kind::Client("rslock") => cfg!(feature = "rslock"),
            Kind::Etcd => has_etcd(),
            _ => true,
        }
    }

    /// Whether the servers count what it asks of them.
    pub(crate) fn is_counted(self) -> bool {
        self.kind != Kind::Etcd
    }

    /// Whether one process can be both.
    pub(crate) fn is_of(self, other: Self) -> bool {
        self.kind == other.kind
    }

    /// Whether it must be warmed up for longer: code is compiled while it runs.
    pub(crate) fn warms_up(self) -> bool {
        matches!(self.kind, Kind::Redisson | Kind::Curator)
    }

    /// Starts a process of it. Builds it first if necessary.
    pub(crate) async fn start(self, servers: &Servers) -> Result<Peer> {
        self.start_with(servers, "").await
    }

    /// Starts a process of ours with more parameters in its URL.
    pub(crate) async fn start_with(self, servers: &Servers, settings: &str) -> Result<Peer> {
        let addresses = servers.addresses();
        match self.kind {
            Kind::Ours(own) => {
                let settings = [own, settings].join("&");
                client("tenure", &[servers.url(settings.trim_matches('&'))]).await
            }
            Kind::Client(name @ "rslock") => client(name, &addresses).await,
            Kind::Client(name) => client(name, &[addresses.join(",")]).await,
            Kind::Redsync => program(&REDSYNC_DRIVER, &addresses).await,
            Kind::PythonRedisLock => program(&PYTHON_DRIVER, &addresses).await,
            Kind::Redisson => {
                // By default it has 50 of these, and fails with more than 250 fair waiters.
                let options = Options { optimised: true, subscriptions: Some(400), ..Options::default() };
                Ok(Jvm::start(&Address::Single(addresses[0].clone()), &options).await?.into())
            }
            Kind::Curator => {
                let options = CuratorOptions { optimised: true, ..CuratorOptions::default() };
                Ok(Curator::start(&addresses[0], &options).await?.into())
            }
            Kind::Here => Err(format!("{} is no process", self.name).into()),
            Kind::Etcd => program(&ETCD_DRIVER, &[servers.etcd()?]).await,
        }
    }
}

/// This program as a client.
async fn client(name: &str, addresses: &[String]) -> Result<Peer> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--client", name]).args(addresses);
    Ok(Peer::start(command).await?)
}

async fn program(recipe: &'static Recipe<Program>, addresses: &[String]) -> Result<Peer> {
    let mut command = Command::from(tokio::task::spawn_blocking(|| recipe.made()).await??);
    command.args(addresses);
    Ok(Peer::start(command).await?)
}
