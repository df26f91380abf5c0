//! Turns raw configuration into a store: each type of store reads its own keys.

#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(any(feature = "redis", feature = "zookeeper"))]
mod servers;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::sync::Arc;

use tenure_core::{Backend, Client, Memory, Result, Settings};

use crate::config::keys::Type;
use crate::config::raw::{Given, Setting};

/// A store that is not open yet.
enum Place {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf, tenure_sqlite::Options),
    #[cfg(feature = "redis")]
    Redis(Box<tenure_redis::Options>),
    /// Several addresses; one of the servers has to be asked whether they are a cluster.
    #[cfg(feature = "redis")]
    PerhapsCluster(Box<tenure_redis::Options>, Setting),
    #[cfg(feature = "redis")]
    Redlock(Box<redlock::Nodes>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Box<tenure_zookeeper::Options>),
}

/// A client that is not connected yet. Everything that can be checked without the store is checked.
pub(crate) struct Plan {
    place: Place,
    settings: Settings,
}

impl Given {
    /// Validates all keys; `settings` are the defaults of the client.
    pub(crate) fn plan(mut self, settings: Settings) -> Result<Plan> {
        let (kind, setting) = self.kind()?;
        let settings = self.settings(settings)?;
        let place = self.place(kind, &setting)?;
        debug_assert_eq!(self.iter().map(|s| s.key.name).next(), None, "what a type has, it reads");
        Ok(Plan { place, settings })
    }

    fn place(&mut self, kind: Type, setting: &Setting) -> Result<Place> {
        match kind {
            Type::Memory => Ok(Place::Memory),
            #[cfg(feature = "sqlite")]
            Type::Sqlite => self.sqlite(),
            #[cfg(feature = "redis")]
            Type::Redis | Type::RedisSentinel | Type::RedisCluster => self.redis(kind, setting),
            #[cfg(feature = "redis")]
            Type::Redlock => self.redlock(setting),
            #[cfg(feature = "zookeeper")]
            Type::ZooKeeper => self.zookeeper(setting),
            #[allow(unreachable_patterns)]
            other => Err(setting.wrong(format!(
                "{} is not compiled in: enable the cargo feature {:?} of tenure",
                other.name(),
                other.feature().unwrap_or_default()
            ))),
        }
    }

    #[cfg(feature = "sqlite")]
    fn sqlite(&mut self) -> Result<Place> {
        let mut options = tenure_sqlite::Options::default();
        if let Some(choice) = self.take("network_fs") {
            options.network_fs = choice.choice(&[("refuse", false), ("allow", true)])?;
        }
        if let Some(mode) = self.take("mode") {
            let bits = u32::from_str_radix(&mode.text, 8).ok();
            let right = bits.filter(|bits| bits & !0o666 == 0 && bits & 0o600 == 0o600);
            options.mode = Some(right.ok_or_else(|| {
                mode.wrong(format!("{:?}: expected permissions such as 600, 660 or 666", mode.text))
            })?);
        }
        let path = match self.take("path") {
            Some(path) => path.text.into(),
            None => tenure_sqlite::default_path()?,
        };
        Ok(Place::Sqlite(path, options))
    }
}

impl Plan {
    pub(crate) async fn connect(self) -> Result<Client> {
        let settings = self.settings.clone();
        let backend = self.open().await?;
        backend.info().require_durability(settings.durability)?;
        Ok(Client::with(backend, settings))
    }

    pub(crate) async fn open(self) -> Result<Arc<dyn Backend>> {
        Ok(match self.place {
            Place::Memory => Arc::new(Memory::new()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(path, options) => Arc::new(tenure_sqlite::open(&path, options)?),
            #[cfg(feature = "redis")]
            Place::Redis(options) => Arc::new(tenure_redis::Redis::open(*options).await?),
            #[cfg(feature = "redis")]
            Place::PerhapsCluster(options, nodes) => redis::open_cluster(*options, &nodes).await?,
            #[cfg(feature = "redis")]
            Place::Redlock(nodes) => nodes.open().await?,
            #[cfg(feature = "zookeeper")]
            Place::ZooKeeper(options) => Arc::new(tenure_zookeeper::ZooKeeper::open(*options).await?),
        })
    }
}
