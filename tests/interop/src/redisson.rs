//! Redisson in a separate Java process.

use std::ops::Deref;

use crate::driver::java;
use crate::{Address, Options, Peer, Result, jvm};

/// A Java process with a Redisson client. Killed on drop.
#[derive(Debug)]
pub struct Jvm(Peer);

impl Jvm {
    /// Starts a process, connected to the servers at `address`. Builds the driver first if necessary.
    ///
    /// # Errors
    /// `Build` and `Io` when that fails; `Thrown` when it cannot connect.
    pub async fn start(address: &Address, options: &Options) -> Result<Self> {
        let words = options.words(address);
        jvm::start(&java::REDISSON, "interop.redisson.Main", options.optimised, words).await.map(Self)
    }
}

impl Deref for Jvm {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.0
    }
}

impl From<Jvm> for Peer {
    fn from(process: Jvm) -> Self {
        process.0
    }
}
