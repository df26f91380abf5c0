//! The stores, their servers, and what is left in them.

use std::fmt;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use testbed::{Redis, RedisOptions, ZooKeeper, ZooKeeperOptions};

/// A store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Store {
    Memory,
    Sqlite,
    Redis,
    Zookeeper,
}

impl Store {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Sqlite, Self::Redis, Self::Zookeeper];
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Zookeeper => "zookeeper",
        })
    }
}

/// What serves a store.
pub(crate) enum Server {
    Memory,
    File(TempDir),
    Redis(Box<Redis>),
    /// With the number of nodes that it has when it is new.
    ZooKeeper(ZooKeeper, u64),
}

impl Server {
    pub(crate) fn start(store: Store) -> testbed::Result<Self> {
        Ok(match store {
            Store::Memory => Self::Memory,
            Store::Sqlite => Self::File(tempfile::tempdir()?),
            Store::Redis => {
                let lines = vec!["maxclients 20000".to_owned()];
                Self::Redis(Box::new(Redis::start(RedisOptions { lines, ..RedisOptions::default() })?))
            }
            Store::Zookeeper => {
                // Room for the nodes of all names, whose containers are collected as fast as they become empty.
                let jvm = ["-Xmx1500m", "-Dznode.container.maxPerMinute=100000000"].map(str::to_owned).into();
                let container_check = Some(std::time::Duration::from_secs(1));
                let options = ZooKeeperOptions { jvm, container_check, ..ZooKeeperOptions::default() };
                let server = ZooKeeper::start(options)?;
                let nodes = measure(&server, "zk_znode_count")?;
                Self::ZooKeeper(server, nodes)
            }
        })
    }

    /// The address, with leases (on ZooKeeper sessions) of so many seconds.
    pub(crate) fn url(&self, lease: u64) -> String {
        match self {
            Self::Memory => format!("memory:?lease={lease}s"),
            Self::File(folder) => {
                format!("sqlite:{}?lease={lease}s", folder.path().join("locks.db").display())
            }
            Self::Redis(server) => format!("{}?lease={lease}s", server.url()),
            Self::ZooKeeper(server, _) => format!("{}?session={lease}s&tick=500ms", server.url()),
        }
    }

    /// The connections that the server counts, the one of this question included.
    pub(crate) fn connections(&self) -> testbed::Result<u64> {
        match self {
            Self::Memory | Self::File(_) => Ok(0),
            Self::Redis(server) => {
                let info = server.info("clients")?;
                Ok(info["connected_clients"].parse().expect("a number"))
            }
            Self::ZooKeeper(server, _) => measure(server, "zk_num_alive_connections"),
        }
    }

    /// The sessions that the server knows: more than its connections if some were not closed.
    pub(crate) fn sessions(&self) -> testbed::Result<u64> {
        match self {
            Self::ZooKeeper(server, _) => measure(server, "zk_global_sessions"),
            _ => Ok(0),
        }
    }

    /// What is left in the store besides what its layout documents: fences on Redis. Empty containers on ZooKeeper are
    /// on their way out.
    pub(crate) fn left(&self) -> testbed::Result<Vec<String>> {
        Ok(match self {
            Self::Memory => Vec::new(),
            Self::File(folder) => {
                let wake = std::fs::read_dir(folder.path().join("locks.db-wake"))?;
                wake.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
                    .collect()
            }
            Self::Redis(server) => {
                let keys = server.cmd(&["KEYS", "*"])?.texts();
                keys.into_iter().filter(|key| !key.starts_with("tenure_fence:")).take(10).collect()
            }
            Self::ZooKeeper(server, nodes) => {
                let more = measure(server, "zk_znode_count")?.saturating_sub(*nodes);
                (more > 0).then(|| format!("{more} nodes")).into_iter().collect()
            }
        })
    }
}

fn measure(server: &ZooKeeper, name: &str) -> testbed::Result<u64> {
    let measures = server.measures()?;
    Ok(measures.get(name).unwrap_or_else(|| panic!("{name} in {measures:?}")).parse().expect("a number"))
}
