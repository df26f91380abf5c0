//! Libraries that store a lock as one key with a token, each in a separate process.

use std::ops::Deref;
use std::process::Command;

use crate::driver::{self, Recipe};
use crate::{Error, Peer, Result};

/// A process with a client of such a library. Killed on drop.
#[derive(Debug)]
pub struct Plain(Peer);

impl Plain {
    /// Starts redsync. Each server is `HOST:PORT`; with several it needs a majority.
    ///
    /// # Errors
    /// `Build` and `Io` when it does not start; `Thrown` when it cannot connect.
    pub async fn redsync(servers: &[String]) -> Result<Self> {
        Self::start(&driver::go::COMMAND, servers).await
    }

    /// Starts node-redlock. Each server is `HOST:PORT`; with several it needs a majority.
    ///
    /// # Errors
    /// As [`Plain::redsync`].
    pub async fn node_redlock(servers: &[String]) -> Result<Self> {
        Self::start(&driver::node::COMMAND, servers).await
    }

    /// Starts redis-py, which supports only locks on a single server, `HOST:PORT`.
    ///
    /// # Errors
    /// As [`Plain::redsync`].
    pub async fn redis_py(server: &str) -> Result<Self> {
        Self::start(&driver::python::COMMAND, &[server.to_owned()]).await
    }

    async fn start(recipe: &'static Recipe<Command>, servers: &[String]) -> Result<Self> {
        let made = tokio::task::spawn_blocking(|| recipe.made()).await;
        let mut command = made.map_err(|e| Error::Build(e.to_string()))??;
        command.args(servers);
        Peer::start(command.into()).await.map(Self)
    }
}

impl Deref for Plain {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.0
    }
}
