//! Backend configuration: validates raw configuration, turns it into the options of one store, and opens that store.

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

use crate::config::keys::StoreType;
use crate::config::raw::{RawConfig, Setting};

/// The options of one store, which is not open yet.
enum BackendConfig {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf, tenure_sqlite::Options),
    #[cfg(feature = "redis")]
    Redis(Box<tenure_redis::Options>),
    /// Several addresses: a server must be queried whether they are a cluster.
    #[cfg(feature = "redis")]
    PossiblyCluster(Box<tenure_redis::Options>, Setting),
    #[cfg(feature = "redis")]
    Redlock(Box<redlock::QuorumConfig>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Box<tenure_zookeeper::Options>),
}

/// A validated configuration. All that can be checked without the store has been checked.
pub(crate) struct ClientConfig {
    backend: BackendConfig,
    settings: Settings,
}

impl RawConfig {
    /// Validates all keys; `settings` are the defaults of the client.
    pub(crate) fn validate(self, settings: Settings) -> Result<ClientConfig> {
        let mut raw = self.strict()?;
        let (kind, setting) = raw.take_store_type()?;
        let settings = raw.take_client_settings(settings)?;
        let backend = raw.take_backend_config(kind, &setting)?;
        debug_assert_eq!(raw.iter().map(|s| s.key.name).next(), None, "each supported key is read");
        Ok(ClientConfig { backend, settings })
    }

    fn take_backend_config(&mut self, kind: StoreType, setting: &Setting) -> Result<BackendConfig> {
        match kind {
            StoreType::Memory => Ok(BackendConfig::Memory),
            #[cfg(feature = "sqlite")]
            StoreType::Sqlite => self.take_sqlite_config(),
            #[cfg(feature = "redis")]
            StoreType::Redis | StoreType::RedisSentinel | StoreType::RedisCluster => {
                self.take_redis_config(kind, setting)
            }
            #[cfg(feature = "redis")]
            StoreType::Redlock => self.take_redlock_config(setting),
            #[cfg(feature = "zookeeper")]
            StoreType::ZooKeeper => self.take_zookeeper_config(setting),
            #[allow(unreachable_patterns)]
            other => Err(setting.error(format!(
                "{} is not compiled in: cargo add tenure --features {}",
                other.name(),
                other.feature().unwrap_or_default()
            ))),
        }
    }

    #[cfg(feature = "sqlite")]
    fn take_sqlite_config(&mut self) -> Result<BackendConfig> {
        let mut options = tenure_sqlite::Options::default();
        if let Some(choice) = self.take("network_fs") {
            options.network_fs = choice.choice(&[("refuse", false), ("allow", true)])?;
        }
        if let Some(mode) = self.take("mode") {
            let bits = u32::from_str_radix(&mode.value, 8).ok();
            let right = bits.filter(|bits| bits & !0o666 == 0 && bits & 0o600 == 0o600);
            options.mode = Some(right.ok_or_else(|| {
                mode.error(format!("{:?}: expected permissions such as 600, 660 or 666", mode.value))
            })?);
        }
        let path = match self.take("path") {
            Some(path) => path.value.into(),
            None => tenure_sqlite::default_path()?,
        };
        Ok(BackendConfig::Sqlite(path, options))
    }
}

impl ClientConfig {
    pub(crate) async fn connect(self) -> Result<Client> {
        let settings = self.settings.clone();
        let backend = self.open().await?;
        backend.info().require_durability(settings.durability)?;
        Ok(Client::with(backend, settings))
    }

    /// Connects also to a quorum of which too few nodes answer.
    pub(crate) async fn connect_to_any(self) -> Result<Client> {
        match self.backend {
            #[cfg(feature = "redis")]
            BackendConfig::Redlock(nodes) => {
                let quorum = nodes.assemble()?.0;
                Ok(Client::with(Arc::new(quorum), self.settings))
            }
            _ => self.connect().await,
        }
    }

    pub(crate) async fn open(self) -> Result<Arc<dyn Backend>> {
        Ok(match self.backend {
            BackendConfig::Memory => Arc::new(Memory::new()),
            #[cfg(feature = "sqlite")]
            BackendConfig::Sqlite(path, options) => {
                Arc::new(open_sqlite(&path, &options, self.settings.call_timeout).await?)
            }
            #[cfg(feature = "redis")]
            BackendConfig::Redis(options) => Arc::new(tenure_redis::Redis::open(*options).await?),
            #[cfg(feature = "redis")]
            BackendConfig::PossiblyCluster(options, nodes) => redis::open_cluster(*options, &nodes).await?,
            #[cfg(feature = "redis")]
            BackendConfig::Redlock(nodes) => nodes.open().await?,
            #[cfg(feature = "zookeeper")]
            BackendConfig::ZooKeeper(options) => Arc::new(tenure_zookeeper::ZooKeeper::open(*options).await?),
        })
    }
}

/// Opens the file. While another process holds it, that is tried again for as long as a call may take.
#[cfg(feature = "sqlite")]
async fn open_sqlite(
    path: &std::path::Path,
    options: &tenure_sqlite::Options,
    limit: std::time::Duration,
) -> Result<tenure_sqlite::Sqlite> {
    use std::time::{Duration, Instant};
    let begun = Instant::now();
    let mut backoff = tenure_core::backend::Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
    loop {
        match tenure_sqlite::open(path, options.clone()) {
            Err(error) if error.is_transient() && begun.elapsed() < limit => {
                tokio::time::sleep(backoff.failed()).await;
            }
            opened => return opened,
        }
    }
}
