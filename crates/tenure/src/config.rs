//! Configuration of the store and the client. An address overrides the environment, which overrides a file.

#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
pub(crate) mod address;
mod backend;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod duration;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod env;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod file;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod keys;
// What no store of this build reads is not used.
#[cfg_attr(not(all(feature = "redis", feature = "sqlite", feature = "zookeeper")), allow(dead_code))]
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod raw;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod show;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod suggest;
#[cfg(test)]
mod tests;

use std::path::Path;

use tenure_core::{Client, Result, Settings};

pub use address::Address;
pub use duration::parse_duration;
pub use show::Entry;

use keys::ValueType;
use raw::{RawConfig, Setting};

/// The configuration of a store and its client: everything a program needs to [`connect`](Config::connect). Moving to
/// another store changes the configuration, not the program.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let config = tenure::Config::from_toml(
///     r#"
///     type = "memory"
///     lease = "10s"
///     "#,
/// )?;
/// let client = config.connect().await?;
/// client.lock("orders/42").acquire().await?.release().await
/// # }
/// ```
///
/// This program moves to Redis with `type = "redis"` and `nodes = "cache-1:6379"`, to ZooKeeper with
/// `type = "zookeeper"` and `nodes = ["zk-1", "zk-2", "zk-3"]`. Every key can also be a variable, `TENURE_NODES` say.
///
/// Keys of a source with higher precedence replace those of a lower one, key by key. An address replaces the whole
/// store: all store keys of lower sources are dropped. Only client keys stay (`lease`, `poll`, `call_timeout`,
/// `outage`, `close_timeout`, `durability`, `warn_held`, `local_handover`, `deadlocks`), unless the address sets them
/// too.
///
/// A key that is unknown, contradictory or not valid for the type of store is an error that names its origin.
/// Passwords are not shown, neither by `Debug` and `Display` nor in errors.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Config {
    raw: RawConfig,
}

impl Config {
    /// Reads a TOML file. Relative paths in it are resolved against its folder.
    ///
    /// ```
    /// # fn main() -> tenure::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("tenure.toml");
    /// # std::fs::write(&path, "type = 'sqlite'\npath = 'locks.db'").unwrap();
    /// let config = tenure::Config::from_file(&path)?;
    /// config.check()?; // everything that can be checked without the store
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Config` with the file, the line and the key, when the file cannot be read or is invalid.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { raw: file::read(path.as_ref()).strict()? })
    }

    /// Reads TOML text. Relative paths in it are resolved against the working directory.
    ///
    /// ```
    /// let wrong = tenure::Config::from_toml("type = 'sqlite'\nleese = '10s'").unwrap_err();
    /// assert_eq!(wrong.to_string(), "line 2: leese: unknown key; did you mean lease?");
    /// ```
    ///
    /// # Errors
    /// As [`Config::from_file`].
    pub fn from_toml(text: &str) -> Result<Self> {
        Ok(Self { raw: file::parse(text, None).strict()? })
    }

    /// Reads the environment: `TENURE_TYPE`, `TENURE_NODES` and so on, one variable for each key, or `TENURE_URL`.
    /// Empty variables are ignored.
    ///
    /// ```no_run
    /// # fn main() -> tenure::Result<()> {
    /// let mut config = tenure::Config::from_env()?;
    /// if !config.has_store() {
    ///     config = config.url("sqlite:")?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Config` with the name of a variable that is invalid. One that begins with `TENURE_` and is unknown is a warning:
    /// see [`Config::warnings`].
    pub fn from_env() -> Result<Self> {
        Self::default().env()
    }

    /// Reads the file that `TENURE_CONFIG` names, if it is set, and overrides it with the environment.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// let client = tenure::Config::load()?.connect().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Config::from_file`] and [`Config::from_env`].
    pub fn load() -> Result<Self> {
        match env::file() {
            Some(path) => Self::from_file(path)?.env(),
            None => Self::from_env(),
        }
    }

    /// Overrides this configuration with the environment.
    ///
    /// ```no_run
    /// # fn main() -> tenure::Result<()> {
    /// let config = tenure::Config::from_toml("type = 'memory'")?.env()?; // TENURE_LEASE=5s changes the lease
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn env(self) -> Result<Self> {
        let variables = env::read(std::env::vars_os()).strict()?;
        for warning in variables.warnings() {
            tracing::warn!(target: "tenure", "{warning}");
        }
        Ok(Self { raw: self.raw.overridden_by(variables) })
    }

    /// Reads the file, or the one that `TENURE_CONFIG` names, the environment and the address, each overriding the one
    /// before, and keeps what is wrong with them for [`Config::problems`]. With a problem, it cannot connect.
    pub fn collect(file: Option<&Path>, address: Option<&str>) -> Self {
        let file = file.map(Path::to_path_buf).or_else(env::file);
        let mut raw = file.map(|path| file::read(&path)).unwrap_or_default();
        raw = raw.overridden_by(env::read(std::env::vars_os()));
        if let Some(address) = address {
            raw = raw.overridden_by(address::read(address, &raw::Origin::Address("address".to_owned())));
        }
        Self { raw }
    }

    /// Everything that is wrong with it, as far as can be checked without contacting the store. Where [`Config::check`]
    /// stops at the first error, this goes on.
    ///
    /// ```
    /// let config = tenure::Config::collect(None, Some("redis://cache-1?leese=10s&poll=1&db=x"));
    /// let problems: Vec<String> = config.problems().iter().map(ToString::to_string).collect();
    /// assert_eq!(problems[0], "redis: url: unknown option \"leese\"; did you mean lease?");
    /// assert!(problems[1].starts_with("redis: poll: \"1\" is not a duration"));
    /// assert!(problems[2].starts_with("redis: db: \"x\""));
    /// ```
    pub fn problems(&self) -> Vec<tenure_core::Error> {
        let mut problems = self.raw.clone().problems();
        problems.extend(self.unreadable_files());
        problems
    }

    /// What was ignored, such as an unknown variable.
    ///
    /// ```
    /// for warning in tenure::Config::collect(None, Some("memory://")).warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// ```
    pub fn warnings(&self) -> &[String] {
        self.raw.warnings()
    }

    /// Overrides this configuration with an address, as for [`connect`](crate::connect).
    ///
    /// ```
    /// # fn main() -> tenure::Result<()> {
    /// let config = tenure::Config::from_toml("type = 'redis'\nnodes = 'cache-1'\nlease = '10s'")?;
    /// let config = config.url("zookeeper://zk-1,zk-2/app")?; // the lease stays
    /// assert_eq!(config.to_string().lines().count(), 4);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Config` when the address cannot be parsed or has an unknown option.
    pub fn url(self, address: &str) -> Result<Self> {
        Ok(Self { raw: self.raw.overridden_by(Address::parse(address)?.raw) })
    }

    /// Whether any key of the store is set, even if they are not sufficient to connect.
    pub fn has_store(&self) -> bool {
        self.raw.has_store()
    }

    /// Checks everything that can be checked without contacting the store: contradictions, values, TLS files, and
    /// features that were not compiled in.
    ///
    /// # Errors
    /// `Config` with the key and its origin.
    pub fn check(&self) -> Result<()> {
        self.raw.clone().validate(Settings::default())?;
        self.check_files()
    }

    /// Connects to the store.
    ///
    /// # Errors
    /// `Config` when something is wrong or missing; `Unsupported` when the store cannot do what is asked;
    /// `Unavailable` when it does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(&self) -> Result<Client> {
        let config = self.raw.clone().validate(Settings::default())?;
        self.check_files()?;
        config.connect().await
    }

    /// Checks how the store is configured, as [`Client::diagnose`]. Of a quorum, the nodes that answer are checked even if
    /// they are no majority.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// for finding in tenure::Config::from_toml("type = 'memory'")?.diagnose().await? {
    ///     println!("{finding}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Config::connect`] and [`Client::diagnose`].
    pub async fn diagnose(&self) -> Result<Vec<tenure_core::Finding>> {
        let config = self.raw.clone().validate(Settings::default())?;
        self.check_files()?;
        let client = config.connect_to_any().await?;
        let findings = client.diagnose().await;
        // Nothing is held, so a failed close leaves nothing behind.
        let _ = client.close().await;
        findings
    }

    fn check_files(&self) -> Result<()> {
        self.unreadable_files().next().map_or(Ok(()), Err)
    }

    /// The errors of configured files that cannot be read, except those of the store, which are created if they do not
    /// exist.
    fn unreadable_files(&self) -> impl Iterator<Item = tenure_core::Error> {
        let created = ["path", "socket"];
        let is_needed =
            move |s: &&Setting| s.key.value_type == ValueType::Path && !created.contains(&s.key.name);
        self.raw.iter().filter(is_needed).filter_map(|file| {
            let error = std::fs::File::open(&file.value).err()?;
            Some(file.error(format!("{}: {error}", file.value)))
        })
    }
}
