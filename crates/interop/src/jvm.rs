//! Redisson, in a Java process of its own.

use std::ops::Deref;

use tokio::process::Command;

use crate::driver::java;
use crate::{Address, Error, Options, Peer, Result};

/// A Java process with a Redisson client in it. Dropping it kills it.
#[derive(Debug)]
pub struct Jvm(Peer);

impl Jvm {
    /// Starts one, connected to the servers at `address`. Builds the driver first if need be.
    ///
    /// # Errors
    /// `Build` and `Io` when that fails; `Thrown` when it cannot connect.
    pub async fn start(address: &Address, options: &Options) -> Result<Self> {
        let class_path = tokio::task::spawn_blocking(|| java::REDISSON.made()).await;
        let class_path = class_path.map_err(|e| Error::Build(e.to_string()))??;
        let mut command = Command::new("java");
        command.args(options.machine());
        command.args(["-cp", &class_path, "interop.redisson.Main"]);
        command.args(options.words(address));
        Peer::start(command).await.map(Self)
    }
}

impl Deref for Jvm {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.0
    }
}
