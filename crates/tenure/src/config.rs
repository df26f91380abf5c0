//! Configuration: which store, from a file, the environment and an address, each stronger than the one before.

mod env;
mod file;
mod show;
#[cfg(test)]
mod tests;

use std::path::Path;

use tenure_core::{Client, Result, Settings};

pub use show::Entry;

use crate::address::Address;
use crate::given::Given;
use crate::keys::Form;

/// Which store, and how: what a program needs to know to [`connect`](Config::connect), and nothing that it needs to
/// change when it moves to another store.
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
/// The same program moves to Redis with `type = "redis"` and `nodes = "cache-1:6379"`, to ZooKeeper with
/// `type = "zookeeper"` and `nodes = ["zk-1", "zk-2", "zk-3"]`. Every key can also be a variable, `TENURE_NODES` say.
///
/// Keys of a stronger source replace those of a weaker one, one by one. An address names the whole store: all that a weaker
/// source says about the store is dropped, and only what is about the client stays (`lease`, `poll`, `call_timeout`,
/// `outage`, `close_timeout`, `durability`, `warn_held`, `deadlocks`), unless the address says otherwise.
///
/// What is unknown, contradicts itself, or means nothing to the type of store is an error that says where it stands.
/// Passwords are not shown, neither by `Debug` and `Display` nor in errors.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Config {
    given: Given,
}

impl Config {
    /// What a TOML file says. Relative paths in it begin at its folder.
    ///
    /// # Errors
    /// `Config` with the file, the line and the key, when the file cannot be read or says something wrong.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { given: file::read(path.as_ref())? })
    }

    /// What a TOML text says. Relative paths in it begin at the working directory.
    ///
    /// ```
    /// let wrong = tenure::Config::from_toml("type = 'sqlite'\nleese = '10s'").unwrap_err();
    /// assert_eq!(wrong.to_string(), "line 2: leese: unknown key; did you mean lease?");
    /// ```
    ///
    /// # Errors
    /// As [`Config::from_file`].
    pub fn from_toml(text: &str) -> Result<Self> {
        Ok(Self { given: file::parse(text, None)? })
    }

    /// What the environment says: `TENURE_TYPE`, `TENURE_NODES` and so on, one variable for each key, or `TENURE_URL`.
    /// An empty variable says nothing.
    ///
    /// # Errors
    /// `Config` with the name of the variable that says something wrong, or that begins with `TENURE_` and is unknown.
    pub fn from_env() -> Result<Self> {
        Self::default().env()
    }

    /// What the file says that `TENURE_CONFIG` names, if it does, and over it what the environment says.
    ///
    /// # Errors
    /// As [`Config::from_file`] and [`Config::from_env`].
    pub fn load() -> Result<Self> {
        match env::file() {
            Some(path) => Self::from_file(path)?.env(),
            None => Self::from_env(),
        }
    }

    /// The same with what the environment says over it.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn env(self) -> Result<Self> {
        Ok(Self { given: self.given.under(env::read(std::env::vars_os())?) })
    }

    /// The same with what an address says over it, as one for [`connect`](crate::connect).
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
    /// `Config` when the address is not understood or has an option that nobody knows.
    pub fn url(self, address: &str) -> Result<Self> {
        Ok(Self { given: self.given.under(Address::parse(address)?.given) })
    }

    /// Whether it says anything about the store, be it enough or not.
    pub fn has_store(&self) -> bool {
        self.given.has_store()
    }

    /// Looks for all that can be wrong without asking the store: contradictions, values, files for encryption, and
    /// features that were not compiled in.
    ///
    /// # Errors
    /// `Config` with the key, and where it stands.
    pub fn check(&self) -> Result<()> {
        self.given.clone().plan(Settings::default())?;
        self.readable()
    }

    /// A client of the store.
    ///
    /// # Errors
    /// `Config` when something is wrong or missing; `Unsupported` when the store is asked for more than it can;
    /// `Unavailable` when it does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(&self) -> Result<Client> {
        let plan = self.given.clone().plan(Settings::default())?;
        self.readable()?;
        plan.connect().await
    }

    /// Whether files that must be there can be read. The store itself is made if there is none.
    fn readable(&self) -> Result<()> {
        let made = ["path", "socket"];
        let needed = self.given.iter().filter(|s| s.key.form == Form::File && !made.contains(&s.key.name));
        for file in needed {
            std::fs::File::open(&file.text).map_err(|e| file.wrong(format!("{}: {e}", file.text)))?;
        }
        Ok(())
    }
}
