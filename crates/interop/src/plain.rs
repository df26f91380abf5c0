//! Libraries that keep a lock as one key with a token in it, each in a process of its own.

use std::ops::Deref;
use std::process::Command;

use crate::driver::{self, Recipe};
use crate::{Error, Peer, Result};

/// A process with a client of such a library in it. Dropping it kills it.
#[derive(Debug)]
pub struct Plain(Peer);

impl Plain {
    /// redsync. The servers are `HOST:PORT` each; of several it wants the majority.
    ///
    /// # Errors
    /// `Build` and `Io` when it does not start; `Thrown` when it cannot connect.
    pub async fn redsync(servers: &[String]) -> Result<Self> {
        Self::start(&driver::go::COMMAND, servers).await
    }

    /// node-redlock. The servers are `HOST:PORT` each; of several it wants the majority.
    ///
    /// # Errors
    /// As [`Plain::redsync`].
    pub async fn node_redlock(servers: &[String]) -> Result<Self> {
        Self::start(&driver::node::COMMAND, servers).await
    }

    /// redis-py, which knows only locks of one server, `HOST:PORT`.
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
