//! The servers of a store, and a way to them for each worker: through proxies of its own where the servers do not tell
//! clients other addresses.

use std::time::Duration;

use checker::{Store, Target, Timing};
use testbed::{Cluster, Ensemble, Proxy, Redis, RedisOptions, Sentinels, ZooKeeperOptions};

use crate::clock::nanos;
use crate::login::{self, Login};
use crate::wall::Wall;

/// The lease, where there are no sessions.
const LEASE: Duration = Duration::from_secs(2);

/// The poll cap.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// The session timeout on ZooKeeper.
const SESSION: Duration = Duration::from_secs(4);

/// How long a restarted node of a quorum has no vote: the longest lease, three seconds, and one more.
pub(crate) const RESTART_DELAY: Duration = Duration::from_secs(4);

/// What a busy machine may add to any bound.
pub(crate) const SLACK: Duration = Duration::from_secs(5);

/// The servers of a store.
pub(crate) enum Servers {
    Memory,
    File(tempfile::TempDir),
    Redis(Vec<Redis>),
    Sentinels(Sentinels),
    Cluster(Cluster),
    Ensemble(Ensemble),
}

/// A store, and the ways to it.
pub(crate) struct Deployment {
    store: Store,
    pub(crate) servers: Servers,
    /// For each slot the proxies to all nodes.
    proxies: Vec<Vec<Proxy>>,
    /// The clocks of the servers, where they can be set.
    pub(crate) walls: Vec<Wall>,
    /// How workers log in at single servers.
    pub(crate) login: Login,
}

impl Deployment {
    /// Starts the servers of a store, a quorum of so many, and the proxies of so many slots.
    pub(crate) fn start(store: Store, nodes: u32, slots: usize, seed: u64) -> testbed::Result<Self> {
        let login = Login::create()?;
        let walls: Vec<Wall> = (0..nodes).map(|_| Wall::create()).collect::<testbed::Result<_>>()?;
        let servers = match store {
            Store::Memory => Servers::Memory,
            Store::Sqlite => Servers::File(tempfile::tempdir()?),
            Store::Redis | Store::RedisPlain | Store::Redlock => {
                let one = |wall: &Wall| Redis::start(single(&login, wall));
                Servers::Redis(walls.iter().map(one).collect::<testbed::Result<_>>()?)
            }
            Store::RedisSentinel => Servers::Sentinels(Sentinels::start()?),
            Store::RedisCluster => Servers::Cluster(Cluster::start()?),
            Store::Zookeeper => {
                let environment = walls[0].environment();
                let options = ZooKeeperOptions { environment, ..ZooKeeperOptions::default() };
                Servers::Ensemble(Ensemble::start_with(options)?)
            }
        };
        let proxies =
            (0..slots).map(|slot| proxies(&servers, seed ^ slot as u64)).collect::<testbed::Result<_>>()?;
        Ok(Self { store, servers, proxies, walls, login })
    }

    /// How many servers decide.
    pub(crate) fn nodes_of(store: Store, seed: u64) -> u32 {
        match store {
            Store::Redlock if seed.is_multiple_of(2) => 5,
            Store::Redlock | Store::Zookeeper => 3,
            _ => 1,
        }
    }

    /// The lease of holds that name none; as long as the session where there is one, so that both end together.
    pub(crate) fn lease(store: Store) -> Duration {
        if store.has_sessions() { SESSION } else { LEASE }
    }

    /// What the promises are counted in.
    pub(crate) fn timing(store: Store) -> Timing {
        let lease = Self::lease(store);
        let [lease, poll, restart_delay, slack] = [lease, POLL, RESTART_DELAY, SLACK].map(nanos);
        Timing { lease, poll, restart_delay, slack }
    }

    /// The address for the worker in this slot, or the direct one; none for memory.
    pub(crate) fn url(&self, slot: Option<usize>) -> Option<String> {
        let ports: Vec<u16> = match (&self.servers, slot) {
            (Servers::Redis(_) | Servers::Ensemble(_), Some(slot)) => {
                self.proxies[slot].iter().map(Proxy::port).collect()
            }
            (Servers::Redis(nodes), None) => nodes.iter().map(|node| node.port()).collect(),
            (Servers::Ensemble(nodes), None) => nodes.servers().iter().map(|node| node.port()).collect(),
            _ => Vec::new(),
        };
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let hosts = hosts.join(",");
        Some(match (&self.servers, self.store) {
            (Servers::Memory, _) => return None,
            (Servers::File(folder), _) => format!("sqlite:{}", folder.path().join("locks.db").display()),
            (Servers::Sentinels(servers), _) => format!("{}?timeout=1s", servers.url()),
            (Servers::Cluster(servers), _) => format!("{}?timeout=1s", servers.url()),
            (Servers::Ensemble(_), _) => {
                let session = SESSION.as_secs();
                format!("zookeeper://{hosts}?session={session}s&tick=500ms&timeout=1s")
            }
            (Servers::Redis(_), store) => {
                let more = match store {
                    Store::Redlock => "&max_lease=3s&retry_delay=5ms-25ms",
                    Store::RedisPlain => "&layout=plain",
                    _ => "",
                };
                let scheme = if store == Store::Redlock { "redlock" } else { "redis" };
                format!("{scheme}://{}@{hosts}?timeout=1s&{}{more}", login::USER, self.login.options())
            }
        })
    }

    /// The proxies of the worker in this slot; none where the servers tell clients other addresses.
    pub(crate) fn proxies(&self, slot: usize) -> &[Proxy] {
        &self.proxies[slot]
    }

    /// The servers that hold data and speak Redis's protocol.
    pub(crate) fn redis(&self) -> &[Redis] {
        match &self.servers {
            Servers::Redis(nodes) => nodes,
            Servers::Sentinels(servers) => servers.servers(),
            Servers::Cluster(servers) => servers.nodes(),
            Servers::Memory | Servers::File(_) | Servers::Ensemble(_) => &[],
        }
    }

    /// What a fault of this node hits.
    pub(crate) fn target(&self, node: usize) -> Target {
        match self.store {
            Store::Redlock | Store::Zookeeper => Target::Node(node as u32),
            _ => Target::Store,
        }
    }
}

/// One that keeps what it is told, can be told to save elsewhere, and knows the workers.
fn single(login: &Login, wall: &Wall) -> RedisOptions {
    let lines = vec!["enable-protected-configs yes".to_owned(), login.user()];
    RedisOptions {
        append_only: true,
        // Never by itself, but one who cannot save refuses to write only if saves are wanted.
        save: Some("3600 1000000".into()),
        lines,
        environment: wall.environment(),
        ..RedisOptions::default()
    }
}

fn proxies(servers: &Servers, seed: u64) -> testbed::Result<Vec<Proxy>> {
    match servers {
        Servers::Redis(nodes) => nodes.iter().map(|node| Proxy::start_seeded(node.port(), seed)).collect(),
        Servers::Ensemble(nodes) => {
            nodes.servers().iter().map(|node| Proxy::start_zookeeper(node.port())).collect()
        }
        _ => Ok(Vec::new()),
    }
}
