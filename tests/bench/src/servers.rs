//! The servers of a run, and what they say about it.

use std::ffi::OsString;
use std::net::TcpStream;

use testbed::{Instance, Recipe, Redis, RedisOptions, Server, ZooKeeper, ZooKeeperOptions};

use crate::Result;

/// What locks are kept in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Store {
    Redis,
    /// Five servers of Redis.
    Quorum,
    /// ZooKeeper, and etcd for its own mutex.
    ZooKeeper,
}

pub(crate) enum Servers {
    Redis(Vec<Redis>),
    ZooKeeper { zookeeper: Box<ZooKeeper>, etcd: Option<Box<Server>> },
}

/// How much a server has done: commands of Redis, those inside of scripts too, and calls of scripts alone; or requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commands {
    pub(crate) all: f64,
    pub(crate) scripts: f64,
}

impl Servers {
    pub(crate) fn start(store: Store) -> Result<Self> {
        let redis = |n| (0..n).map(|_| Redis::start(RedisOptions::default())).collect::<testbed::Result<_>>();
        Ok(match store {
            Store::Redis => Self::Redis(redis(1)?),
            Store::Quorum => Self::Redis(redis(5)?),
            Store::ZooKeeper => {
                let zookeeper = ZooKeeper::start(ZooKeeperOptions {
                    // With the optimizing compiler, as on a long-running server.
                    jvm: vec!["-XX:TieredStopAtLevel=4".into(), "-Xmx512m".into()],
                    ..ZooKeeperOptions::default()
                })?;
                let etcd = has_etcd().then(|| Server::start(Etcd).map(Box::new)).transpose()?;
                Self::ZooKeeper { zookeeper: Box::new(zookeeper), etcd }
            }
        })
    }

    /// Each `HOST:PORT`.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match self {
            Self::Redis(all) => all.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect(),
            Self::ZooKeeper { zookeeper, .. } => vec![zookeeper.address()],
        }
    }

    pub(crate) fn etcd(&self) -> Result<String> {
        match self {
            Self::ZooKeeper { etcd: Some(etcd), .. } => Ok(format!("127.0.0.1:{}", etcd.port())),
            _ => Err("etcd does not run".into()),
        }
    }

    /// Our URL with these parameters.
    pub(crate) fn url(&self, settings: &str) -> String {
        let mark = if settings.is_empty() { "" } else { "?" };
        match self {
            Self::Redis(all) if all.len() > 1 => {
                let nodes = self.addresses().join(",");
                format!("redlock://{nodes}?restart_delay=off&{settings}").trim_end_matches('&').to_owned()
            }
            Self::Redis(all) => format!("{}{mark}{settings}", all[0].url()),
            Self::ZooKeeper { zookeeper, .. } => format!("{}{mark}{settings}", zookeeper.url()),
        }
    }

    /// What all servers have done so far, without asking for this.
    pub(crate) fn commands(&self) -> Result<Commands> {
        let mut sum = Commands::default();
        match self {
            Self::Redis(all) => {
                for server in all {
                    for (name, text) in server.info("commandstats")? {
                        let Some(name) = name.strip_prefix("cmdstat_") else { continue };
                        let calls = text.strip_prefix("calls=").and_then(|text| text.split(',').next());
                        let calls: f64 = calls.ok_or_else(|| format!("{name}: {text}"))?.parse()?;
                        sum.all += if name == "info" { 0.0 } else { calls };
                        sum.scripts += if name.starts_with("eval") { calls } else { 0.0 };
                    }
                }
            }
            Self::ZooKeeper { zookeeper, .. } => {
                let measures = zookeeper.measures()?;
                let packets = measures.get("zk_packets_received").ok_or("no count of packets")?;
                sum.all = packets.parse()?;
            }
        }
        Ok(sum)
    }

    /// A field of INFO of the first server of Redis.
    pub(crate) fn info(&self, section: &str, field: &str) -> Result<f64> {
        let Self::Redis(all) = self else { return Err("Redis does not run".into()) };
        let info = all[0].info(section)?;
        Ok(info.get(field).ok_or_else(|| format!("no {field}"))?.parse()?)
    }

    /// The process of the first server of Redis.
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Redis(all) => all[0].pid(),
            Self::ZooKeeper { zookeeper, .. } => zookeeper.pid(),
        }
    }
}

impl std::ops::Sub for Commands {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { all: self.all - before.all, scripts: self.scripts - before.scripts }
    }
}

/// Whether etcd is installed: the tests do without.
pub(crate) fn has_etcd() -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join("etcd").is_file())
}

/// One member, with its data in the folder of the testbed.
struct Etcd;

impl Recipe for Etcd {
    fn name(&self) -> &str {
        "etcd"
    }

    fn ports(&self) -> usize {
        2
    }

    fn prepare(&self, _: &Instance) -> testbed::Result<()> {
        Ok(())
    }

    fn command(&self, instance: &Instance) -> Vec<OsString> {
        let [client, peer] = [0, 1].map(|i| format!("http://127.0.0.1:{}", instance.ports[i]));
        let data = instance.data().join("etcd");
        let mut words: Vec<OsString> = vec!["etcd".into(), "--data-dir".into(), data.into()];
        words.extend(["--listen-client-urls", &client, "--advertise-client-urls", &client].map(Into::into));
        words.extend(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer].map(Into::into));
        words.extend(["--initial-cluster".into(), format!("default={peer}").into()]);
        words
    }

    /// Its data folder is locked by one process, and it ends if a port is taken.
    fn serves(&self, instance: &Instance) -> bool {
        let log = std::fs::read_to_string(instance.log()).unwrap_or_default();
        log.contains("ready to serve client requests")
            && TcpStream::connect(("127.0.0.1", instance.ports[0])).is_ok()
    }
}
