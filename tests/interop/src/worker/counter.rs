//! A number that only the lock under test protects.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use testbed::Resp;

use super::Wrong;

/// Where the unprotected counters are stored.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// On the Redis server at this port or, in a cluster, on the node that it redirects to.
    Redis(u16),
    /// In files in this folder.
    Folder(PathBuf),
}

impl Numbers {
    /// Parses the output of [`Numbers::to_string`].
    pub(super) fn parse(word: &str) -> Self {
        word.parse().map_or_else(|_| Self::Folder(word.into()), Self::Redis)
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numbers::Redis(port) => port.fmt(f),
            Numbers::Folder(folder) => folder.display().fmt(f),
        }
    }
}

pub(super) enum Counter {
    Key { server: Box<Resp>, key: String },
    File(PathBuf),
}

impl Counter {
    pub(super) fn open(numbers: &Numbers, key: &str) -> Result<Self, Wrong> {
        let port = match numbers {
            Numbers::Redis(port) => *port,
            Numbers::Folder(folder) => return Ok(Self::File(folder.join(key))),
        };
        let mut server = Resp::connect(port)?;
        if let Err(testbed::Error::Reply(said)) = server.cmd(&["GET", key])
            && let Some(moved) = said.strip_prefix("MOVED ")
        {
            let port = moved.rsplit(':').next().and_then(|port| port.parse().ok());
            server = Resp::connect(port.ok_or_else(|| Wrong("Moved".into(), said.clone()))?)?;
        }
        Ok(Self::Key { server: Box::new(server), key: key.to_owned() })
    }

    /// Adds 1 by reading and writing, which is not atomic.
    pub(super) async fn add_one(&mut self) -> Result<(), Wrong> {
        match self {
            Self::Key { server, key } => {
                let before = server.cmd(&["GET", key])?.int().unwrap_or(0);
                server.cmd(&["SET", key, &(before + 1).to_string()])?;
            }
            Self::File(file) => {
                let before = match fs::read_to_string(&file) {
                    Err(e) if e.kind() == ErrorKind::NotFound => 0,
                    text => text?.parse::<u64>().map_err(|e| Wrong("NoNumber".into(), e.to_string()))?,
                };
                // Gives another client the chance to interfere, if it got in wrongly.
                tokio::time::sleep(Duration::from_millis(1)).await;
                fs::write(file, (before + 1).to_string())?;
            }
        }
        Ok(())
    }
}

impl From<testbed::Error> for Wrong {
    fn from(error: testbed::Error) -> Self {
        Wrong("Server".into(), error.to_string())
    }
}

impl From<std::io::Error> for Wrong {
    fn from(error: std::io::Error) -> Self {
        Wrong("Io".into(), error.to_string())
    }
}
