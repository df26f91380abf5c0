//! Curator, in a Java process of its own.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use crate::driver::java;
use crate::{Peer, Result, jvm};

/// What is not given stays as Curator has it.
#[derive(Clone, Debug, Default)]
pub struct CuratorOptions {
    /// How long a session lives without a sign of life.
    pub session: Option<Duration>,
    /// Where the numbers are that are counted on, in files.
    pub numbers: Option<PathBuf>,
    /// Compile the code as it deserves instead of starting fast: for measuring.
    pub optimised: bool,
}

/// A Java process with a Curator client in it. Dropping it kills it.
#[derive(Debug)]
pub struct Curator(Peer);

impl Curator {
    /// Starts one, connected to `servers`: `HOST:PORT`, several of them separated by commas, and perhaps a path behind
    /// them. Builds the driver first if need be.
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
