//! Locks shared with other libraries: client processes of both sides, controlled from here with the same requests.

mod curator;
pub mod driver;
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

/// Errors of a peer process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An exception in the peer.
    #[error("{class}: {message}")]
    Thrown {
        /// Its class, without the package.
        class: String,
        /// Its message.
        message: String,
    },
    /// No answer in time. The peer continues with the request.
    #[error("{request}: no answer within {:?}", testbed::PATIENCE)]
    Late {
        /// The request.
        request: String,
    },
    /// The process has ended.
    #[error("{request}: the process has ended")]
    Ended {
        /// The request.
        request: String,
    },
    /// The driver cannot be built.
    #[error("the driver does not build: {0}")]
    Build(String),
    /// A process does not start.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// The result of a request to a peer.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The class of the peer's exception, if it is one.
    pub fn class(&self) -> Option<&str> {
        match self {
            Error::Thrown { class, .. } => Some(class),
            _ => None,
        }
    }
}
