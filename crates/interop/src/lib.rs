//! The same locks shared with other libraries: processes of both sides, steered from here in the same words.

mod curator;
mod driver;
mod jvm;
mod options;
mod peer;
mod plain;
mod redisson;
pub mod trials;
mod worker;

pub use curator::{Curator, CuratorOptions};
pub use options::{Address, Options};
pub use peer::{Peer, Pending};
pub use plain::Plain;
pub use redisson::Jvm;
pub use worker::{Numbers, Worker, serve};

/// What can go wrong with a peer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer's own exception.
    #[error("{class}: {message}")]
    Thrown {
        /// Its class, without the package.
        class: String,
        /// What it says.
        message: String,
    },
    /// No answer in time. The request goes on over there.
    #[error("{request}: no answer within {:?}", testbed::PATIENCE)]
    Late {
        /// What was asked.
        request: String,
    },
    /// The process is not there any more.
    #[error("{request}: the process has ended")]
    Ended {
        /// What was asked.
        request: String,
    },
    /// The driver cannot be built.
    #[error("the driver does not build: {0}")]
    Build(String),
    /// A process does not start.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// What a peer answered.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The class of the peer's exception.
    pub fn class(&self) -> Option<&str> {
        match self {
            Error::Thrown { class, .. } => Some(class),
            _ => None,
        }
    }
}
