//! Curator in a separate Java process.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use crate::driver::java;
use crate::{Peer, Result, jvm};

/// Options of a Curator client; what is not set keeps Curator's default.
#[derive(Clone, Debug, Default)]
pub struct CuratorOptions {
    /// The session timeout.
    pub session: Option<Duration>,
    /// The folder with the files of unprotected counters.
    pub numbers: Option<PathBuf>,
    /// Enables the optimizing JIT compiler, at the cost of a slower start: for benchmarks.
    pub optimised: bool,
}

/// A Java process with a Curator client. Killed on drop.
#[derive(Debug)]
pub struct Curator(Peer);

impl Curator {
    /// Starts a process, connected to `servers`: `HOST:PORT`, several of them separated by commas, optionally followed
    /// by a chroot path. Builds the driver first if necessary.
    ///
    /// # Errors
    /// `Build` and `Io` when that fails; `Thrown` when it cannot connect.
    pub async fn start(servers: &str, options: &CuratorOptions) -> Result<Self> {
        let mut words = vec!["servers".to_owned(), servers.to_owned()];
        if let Some(session) = options.session {
            words.extend(["session".to_owned(), session.as_millis().to_string()]);
        }
        if let Some(folder) = &options.numbers {
            words.extend(["numbers".to_owned(), folder.display().to_string()]);
        }
        jvm::start(&java::CURATOR, "interop.curator.Main", options.optimised, words).await.map(Self)
    }
}

impl Deref for Curator {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.0
    }
}

impl From<Curator> for Peer {
    fn from(process: Curator) -> Self {
        process.0
    }
}
