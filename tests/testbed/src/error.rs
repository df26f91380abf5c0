//! Errors of this crate.

use std::{fmt, io};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
pub enum Error {
    /// The server answered with an error.
    Reply(String),
    /// The connection failed.
    Io(io::Error),
    /// Anything else, as text.
    Failed(String),
}

impl Error {
    /// The text of an error reply, if it is one.
    pub fn reply(&self) -> Option<&str> {
        match self {
            Self::Reply(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(text) => write!(f, "the server says: {text}"),
            Self::Io(e) => write!(f, "{e}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Prints the message: tests unwrap, and server logs have many lines.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// The kind of the I/O error that an error was caused by. Panics if there is none, or if the message does not say it.
pub fn io_cause(error: &(impl std::error::Error + 'static)) -> io::ErrorKind {
    let source = error.source().unwrap_or_else(|| panic!("without a cause: {error}"));
    let cause = source.downcast_ref::<io::Error>().unwrap_or_else(|| panic!("caused by {source:?}: {error}"));
    assert!(error.to_string().contains(&cause.to_string()), "{cause} in: {error}");
    cause.kind()
}
