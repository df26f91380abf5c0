//! The database file: created once, identified by its header, and checked for having been replaced.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::Options;
use crate::aliases::check_single_path;
use crate::fault::{Fault, Phase, classify, describe_unwritable};
use crate::ledgers::LedgerCache;
use crate::wake_folder::{self, CREATE_LOCK, NEW_FILE, Users, WakeFolder};

/// "Tenr", in the header of every store.
const APPLICATION_ID: i64 = 0x5465_6E72;
/// The layout that this version supports.
const LAYOUT: i64 = 1;
/// How often the path is checked, at most.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// A WAL of which each program that opens the file may read the whole, in bytes.
const SHORT_WAL: u64 = 256 * 1024;
const SCHEMA: &str = include_str!("../sql/schema.sql");

/// An open database file.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) conn: Connection,
    pub(crate) cache: LedgerCache,
    file_id: FileId,
    checked: Cell<Instant>,
}

/// The identity of a file, independent of its path. It is not reused while the file is open.
type FileId = (u64, u64);

/// By path only: closing any descriptor of the file would drop the locks that SQLite has on it in this process.
fn file_id(path: &Path) -> Option<FileId> {
    rustix::fs::stat(path).ok().map(|found| wake_folder::file_id(&found))
}

/// The path of a file beside the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The last connection that is closed moves what is in the WAL to the file, and waits for the disk meanwhile: for programs
/// that open the store, lock, release and end, that is the most expensive step. So a short WAL is left to the next one
/// that opens the file, which reads it faster than this one could write it.
impl Drop for Database {
    fn drop(&mut self) {
        let wal = self.conn.path().map(|path| fs::metadata(beside(Path::new(path), "-wal")));
        if wal.is_some_and(|wal| wal.is_ok_and(|wal| wal.len() < SHORT_WAL)) {
            // Failing to ask for it costs time only.
            let _ = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

impl Database {
    /// Opens the file, and creates it if it does not exist. Makes one attempt: the caller retries on `Busy`.
    pub(crate) fn connect(path: &Path, options: &Options) -> Result<Self, Fault> {
        if file_id(path).is_none() {
            create(path, options)?;
        }
        let Some(id) = file_id(path) else { return Err(Fault::Busy) };
        check_single_path(path).map_err(|why| Fault::Config(why.to_string()))?;
        let conn = open_connection(path, options)?;
        // Replaced while it was opened: it is unknown which of the two files this is.
        if file_id(path) != Some(id) {
            return Err(Fault::Busy);
        }
        Ok(Self { conn, cache: LedgerCache::default(), file_id: id, checked: Cell::new(Instant::now()) })
    }

    /// Whether both have the same file open.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.file_id == other.file_id
    }

    /// Whether it is still the file at its path, where other processes lock. Checked only now and then, which is
    /// enough: what was granted in a removed file is lost in any case.
    pub(crate) fn is_current(&self, path: &Path) -> bool {
        if self.checked.get().elapsed() < CHECK_EVERY {
            return true;
        }
        let current = file_id(path) == Some(self.file_id);
        if current {
            self.checked.set(Instant::now());
        }
        current
    }
}

/// Creates the file. Leftovers beside the path (`-wal`, `-shm`) of an earlier file would be used for the new one, by
/// SQLite and by processes that still have the earlier one open. They are removed before the file exists, while no
/// other process can create it.
fn create(path: &Path, options: &Options) -> Result<(), Fault> {
    let cannot = |step: &str, e: io::Error| {
        let path = path.display();
        Fault::Config(match e.kind() {
            // Errors of the wake-up folder come with their own advice.
            io::ErrorKind::Other => format!("{path} cannot be created: {e}"),
            _ => format!("{path} cannot be created ({step}: {e}): is its folder missing or read-only?"),
        })
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let parent = rustix::fs::stat(parent).map_err(|e| cannot("reading its folder", e.into()))?;
    let users = match options.mode {
        Some(mode) => Users::of_mode(mode),
        None => Users::of_folder(&parent),
    };
    let folder = WakeFolder::open_or_create(path, users).map_err(|e| {
        match cannot("creating its wake-up folder", e) {
            // Another user just created the folder, and has not set its mode or created the file yet.
            Fault::Config(why) if WakeFolder::is_new(path) => Fault::Unfinished(why),
            other => other,
        }
    })?;
    let Some(_lock) = CreateLock::try_lock(&folder, users).map_err(|e| cannot("locking", e))? else {
        return Err(Fault::Busy);
    };
    if file_id(path).is_some() {
        return Ok(());
    }
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(beside(path, suffix)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(cannot(&format!("removing an old {suffix} file"), e));
            }
            _ => {}
        }
    }
    // Closed before another process can find it: closing a descriptor of the store's file drops the locks that SQLite
    // has on it.
    folder.remove(NEW_FILE);
    let new = folder.open_file(NEW_FILE, FileType::RegularFile, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
    let new = new.map_err(|e| cannot("creating the file", e.into()))?;
    users.grant_access(&new, users.file_mode()).map_err(|e| cannot("setting its permissions", e))?;
    drop(new);
    match folder.move_out(NEW_FILE, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(Fault::Busy),
        other => other.map_err(|e| cannot("renaming", e))?,
    }
    // Opened and closed once, so that the header is in the file itself and not only in its WAL.
    open_connection(path, &Options::default()).map(drop)
}

/// The lock for creating the file. Only users of the store can hold it, since only they can open the lock file.
struct CreateLock<'a> {
    folder: &'a WakeFolder,
    _lock: OwnedFd,
}

impl<'a> CreateLock<'a> {
    /// Returns `None` when another process is creating the file.
    fn try_lock(folder: &'a WakeFolder, users: Users) -> io::Result<Option<Self>> {
        let open = |flags| folder.open_file(CREATE_LOCK, FileType::RegularFile, OFlags::RDWR | flags);
        let lock = match open(OFlags::empty()) {
            Err(Errno::NOENT) => match open(OFlags::CREATE | OFlags::EXCL) {
                Ok(lock) => {
                    users.grant_access(&lock, users.file_mode())?;
                    lock
                }
                Err(Errno::EXIST) => return Ok(None),
                Err(other) => return Err(other.into()),
            },
            // Another user has just created it.
            Err(Errno::ACCESS) => return Ok(None),
            other => other?,
        };
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            other => other?,
        }
        // If its last holder removed the file meanwhile, this lock excludes nobody.
        let locked = wake_folder::file_id(&rustix::fs::fstat(&lock)?);
        let found = folder.stat(CREATE_LOCK).is_some_and(|found| wake_folder::file_id(&found) == locked);
        Ok(found.then_some(Self { folder, _lock: lock }))
    }
}

impl Drop for CreateLock<'_> {
    fn drop(&mut self) {
        self.folder.remove(CREATE_LOCK);
    }
}

/// What a file contains.
enum Contents {
    Store,
    Empty,
}

/// Opens the file, and creates the tables if it is empty.
fn open_connection(path: &Path, options: &Options) -> Result<Connection, Fault> {
    let classify = |e: rusqlite::Error| classify(path, Phase::Opening, &e);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(path, flags).map_err(classify)?;
    conn.busy_timeout(Duration::ZERO).map_err(classify)?;
    if conn.is_readonly("main").map_err(classify)? {
        return Err(Fault::Config(describe_unwritable(path, "it is read-only")));
    }
    let contents = in_transaction(&conn, "BEGIN", || identify(&conn, path).map_err(TxError::Fault))
        .map_err(|e| e.classify_with(classify))?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(classify)?;
    if mode != "wal" {
        let path = path.display();
        return Err(Fault::Config(format!(
            "{path}: this file system does not support SQLite's shared memory (journal mode {mode} instead of wal): \
             use a file on a local disk"
        )));
    }
    conn.pragma_update(None, "synchronous", "normal").map_err(classify)?;
    if let Contents::Empty = contents {
        in_transaction(&conn, "BEGIN IMMEDIATE", || {
            // Another process may have created the schema meanwhile.
            if let Contents::Empty = identify(&conn, path).map_err(TxError::Fault)? {
                conn.execute_batch(SCHEMA)?;
                conn.pragma_update(None, "application_id", APPLICATION_ID)?;
                conn.pragma_update(None, "user_version", LAYOUT)?;
            }
            Ok(())
        })
        .map_err(|e| e.classify_with(classify))?;
    }
    if let Some(pages) = options.max_pages {
        conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).map_err(classify)?;
    }
    Ok(conn)
}

/// An error inside a transaction, classified or not.
enum TxError {
    Fault(Fault),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for TxError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl TxError {
    fn classify_with(self, classify: impl Fn(rusqlite::Error) -> Fault) -> Fault {
        match self {
            Self::Fault(fault) => fault,
            Self::Sqlite(error) => classify(error),
        }
    }
}

fn in_transaction<T>(
    conn: &Connection,
    begin: &str,
    job: impl FnOnce() -> Result<T, TxError>,
) -> Result<T, TxError> {
    conn.execute_batch(begin)?;
    let done = job().and_then(|done| conn.execute_batch("COMMIT").map(|()| done).map_err(TxError::Sqlite));
    if !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    done
}

/// Identifies the file before anything in it is changed. Runs in a transaction: another process may be creating it.
fn identify(conn: &Connection, path: &Path) -> Result<Contents, Fault> {
    let classify = |e: rusqlite::Error| classify(path, Phase::Opening, &e);
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(classify);
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let application = number("PRAGMA application_id")?;
    let layout = number("PRAGMA user_version")?;
    let path = path.display();
    match (application, layout) {
        (APPLICATION_ID, LAYOUT) => Ok(Contents::Store),
        (APPLICATION_ID, other) => Err(Fault::Config(format!(
            "{path} has layout {other}, and this version of Tenure supports layout {LAYOUT}: use the version that \
             created it, or another path"
        ))),
        (0, 0) if tables == 0 => Ok(Contents::Empty),
        (other, _) => {
            let found = format!("application id {other:#010x}");
            Err(Fault::Config(format!("{path} is not a Tenure store ({found}): use another path")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_folder_that_another_user_made_just_now_is_waited_for() {
        let tmp = tempfile::tempdir().unwrap();
        let (path, wake) = (tmp.path().join("locks.db"), tmp.path().join("locks.db-wake"));
        fs::create_dir(&wake).unwrap();
        let fault = || Database::connect(&path, &Options::default()).unwrap_err();
        // Each attempt makes the folder new again: the machine may stall between the two steps.
        testbed::wait_until("taken for unfinished", || {
            match rustix::process::geteuid().is_root() {
                true => chown(&wake, Some(65534), None).unwrap(),
                false => fs::set_permissions(&wake, fs::Permissions::from_mode(0o000)).unwrap(),
            }
            matches!(fault(), Fault::Unfinished(why) if why.contains("locks.db")).then_some(())
        });
        testbed::wait_until("refused when it stays so", || matches!(fault(), Fault::Config(_)).then_some(()));
        assert!(!path.exists());
    }

    #[test]
    fn a_short_wal_is_left_to_the_next_one_and_a_long_one_is_not() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("locks.db");
        let open = || Database::connect(&path, &Options::default()).unwrap();
        let wal = || fs::metadata(beside(&path, "-wal")).map_or(0, |wal| wal.len());
        let write = |rows: std::ops::Range<u32>| {
            let database = open();
            for n in rows {
                let row = (format!("n{n}"), "x".repeat(4000));
                database.conn.execute("INSERT INTO meta (key, value) VALUES (?1, ?2)", row).unwrap();
            }
        };
        let rows = || {
            let count = "SELECT count(*) FROM meta WHERE key LIKE 'n%'";
            open().conn.query_row(count, [], |row| row.get::<_, u32>(0)).unwrap()
        };
        write(0..3);
        assert!((1..SHORT_WAL).contains(&wal()), "{} bytes", wal());
        assert_eq!(rows(), 3);
        write(3..103);
        assert_eq!((wal(), rows()), (0, 103));
    }
}
