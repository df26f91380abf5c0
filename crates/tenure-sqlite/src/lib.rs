//! Tenure on SQLite: locks, semaphores, latches and elections shared by the processes of one machine, without a
//! server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("locks.db");
//! let store = tenure_sqlite::open(&path, tenure_sqlite::Options::default())?;
//! let client = tenure_core::Client::new(store);
//! let guard = client.lock("orders/42").acquire().await?;
//! guard.release().await?;
//! client.close().await
//! # }
//! ```
//!
//! A transaction runs inline in the calling task, and takes some tens of microseconds. While another process holds the
//! file, the task sleeps, not the thread. The caller's runtime needs no timers for that: the store has its own thread,
//! started when something has to wait.
//!
//! A process that is stopped inside a transaction keeps the file locked: it is unavailable for all others until that
//! process resumes or dies. A file on a network file system is refused, since neither its locks nor its shared memory
//! work between machines; a FUSE file system cannot be identified and is assumed to be local.

mod aliases;
mod busy_retry;
mod database;
mod fault;
mod ledgers;
mod network;
mod notify;
mod options;
mod path;
mod shared;
mod store;
mod subscriber;
mod wake;
mod wake_folder;
mod watch;

use std::path::Path;

use tenure_core::ledger::Ledgered;
use tenure_core::{Clock, Error, Result};

pub use options::Options;
pub use path::default_path;
pub use store::SqliteStore;

/// A store in a file.
pub type Sqlite = Ledgered<SqliteStore>;

/// Opens the store in the file `path`, and creates it if it does not exist. Its folder must exist, except that of the
/// [`default_path`].
///
/// # Errors
/// `Config` when the path cannot be a store: a folder, a missing or read-only folder, a network file system, a file of
/// another program or another version, a file with several hard links or mounted by itself, a file that this user may
/// not write; `Unavailable` when another process holds the file for too long, or the disk is full.
pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Sqlite> {
    SqliteStore::open(path.as_ref(), options).map(Ledgered::over)
}
