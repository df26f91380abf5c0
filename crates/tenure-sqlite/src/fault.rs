//! Classifies errors: whether to retry, to reopen the file, to report an outage or a configuration error.

use std::fmt::Display;
use std::path::Path;

use rusqlite::ErrorCode;
use tenure_core::Error;
use tenure_core::backend::{Cause, Reason};

pub(crate) const SCHEME: &str = "sqlite";

/// Why a transaction failed. It never had an effect.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another process holds the file.
    Busy,
    /// Another process seems to be creating the file. If this persists, it is reported as a `Config` error with this
    /// text.
    Unfinished(String),
    /// The file at the path is not the one that is open: it was removed or replaced.
    Replaced,
    /// It may work later.
    Unavailable(Reason),
    /// It cannot work until something is changed.
    Config(String),
}

impl Fault {
    /// Converts it into an error of the call `what`.
    pub(crate) fn into_error(self, path: &Path, what: impl Display) -> Error {
        let path = path.display();
        let reason = match self {
            Self::Config(why) | Self::Unfinished(why) => return Error::Config(why),
            Self::Unavailable(reason) => return Error::unavailable(SCHEME, what, reason),
            Self::Busy => {
                format!("another process holds the file {path}: if this lasts, find that process with fuser")
            }
            Self::Replaced => {
                format!("{path} was removed or replaced while it was opened: find out what replaces it")
            }
        };
        Error::unavailable(SCHEME, what, reason)
    }
}

/// When it went wrong: a file that cannot be opened at first is a configuration error, later it is an outage.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Phase {
    Opening,
    Running,
}

/// The message for a file that cannot be written, with advice if it belongs to another user.
pub(crate) fn describe_unwritable(path: &Path, why: &str) -> String {
    let shown = path.display();
    let mut message = format!("{shown} cannot be opened for writing: {why}");
    let ours = rustix::process::geteuid().as_raw();
    if let Ok(found) = rustix::fs::stat(path)
        && found.st_uid != ours
    {
        let (owner, group, mode) = (found.st_uid, found.st_gid, found.st_mode & 0o7777);
        let folder = path.parent().unwrap_or(path).display();
        message += &format!(
            " (it belongs to user {owner} and group {group}, mode {mode:o}, and this is user {ours}). To share a store \
             between users, give its folder to their group: chgrp GROUP {folder}; chmod g+rwxs {folder}. Do so for \
             existing files, too: chgrp -R GROUP {shown}*; chmod -R g+rwX {shown}*"
        );
    }
    message
}

/// Classifies errors of SQLite. This is the only place that does.
pub(crate) fn classify(path: &Path, phase: Phase, error: &rusqlite::Error) -> Fault {
    let shown = path.display();
    let code = error.sqlite_error_code();
    let unavailable = |text: String| {
        let cause = error.sqlite_error().map(|error| Cause::from(*error));
        Fault::Unavailable(Reason { text, cause })
    };
    let by_phase = |why: String| match phase {
        Phase::Opening => Fault::Config(why),
        Phase::Running => unavailable(why),
    };
    match code {
        // The protocol error is a race between processes that open the file at the same time.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            Fault::Busy
        }
        Some(ErrorCode::NotADatabase) => {
            Fault::Config(format!("{shown} is not a SQLite database: use another path"))
        }
        Some(ErrorCode::DatabaseCorrupt) => Fault::Config(format!(
            "{shown} is damaged ({error}): move it away, and a new one will be created"
        )),
        Some(ErrorCode::ReadOnly) => {
            by_phase(describe_unwritable(path, &format!("it or its folder is read-only: {error}")))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            by_phase(describe_unwritable(path, &error.to_string()))
        }
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::SchemaChanged
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted,
        ) => unavailable(format!("{shown}: {error}")),
        // What remains are tables or columns that do not match the layout.
        _ => Fault::Config(format!("{shown} cannot be used as a Tenure store ({error}): use another path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn each_code_is_classified() {
        let path = Path::new("/x/locks.db");
        let running = |code| classify(path, Phase::Running, &sqlite(code));
        let opening = |code| classify(path, Phase::Opening, &sqlite(code));
        for busy in [5, 5 | (1 << 8), 6, 15] {
            assert!(matches!(running(busy), Fault::Busy), "{busy}");
        }
        let (full, io, read_only, cannot_open) = (13, 10 | (3 << 8), 8 | (3 << 8), 14);
        for outage in [full, io, read_only, cannot_open] {
            let fault = running(outage);
            assert!(
                matches!(&fault, Fault::Unavailable(why) if why.cause.is_some() && why.text.contains("/x/locks.db")),
                "{fault:?}"
            );
            let error = fault.into_error(path, "acquire x");
            assert!(std::error::Error::source(&error).is_some(), "{error}");
        }
        for misconfigured in [read_only, cannot_open, 26, 11] {
            let Fault::Config(why) = opening(misconfigured) else { panic!("{misconfigured}") };
            assert!(why.contains("/x/locks.db"), "{why}");
        }
        assert!(matches!(opening(full), Fault::Unavailable(..)), "a full disk is not a configuration error");
    }
}
