//! Transactions on the file: inline in the caller's task, with retries while another process holds it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use tenure_core::backend::{Background, Info};
use tenure_core::ledger::{Ledger, Now, Watched};
use tenure_core::{Environment, Name, wall_micros};

use crate::busy_retry::BusyRetry;
use crate::database::{Database, beside};
use crate::fault::{Fault, Phase, SCHEME, classify};
use crate::ledgers::{RowError, Tx};
use crate::notify::Notifications;

use crate::subscriber::Subscribers;
use crate::wake_folder::{Users, WakeFolder};
use crate::{Clock, Options, Result, path, wake};

/// State that a store and its watches share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    pub(crate) info: Info,
    boot: u128,
    database: Mutex<Database>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) subscribers: Subscribers,
    pub(crate) background: Background,
}

/// Identifies the clock: the boot id of the kernel, and the offset of a time namespace. Zero where the system does not
/// tell.
fn clock_id() -> u128 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let boot = read("/proc/sys/kernel/random/boot_id").trim().replace('-', "");
    let shift = boottime_shift(&read("/proc/self/timens_offsets"));
    u128::from_str_radix(&boot, 16).unwrap_or(0).wrapping_add(shift as u128)
}

/// The offset in nanoseconds, from a line such as `boottime 86400 0`.
fn boottime_shift(offsets: &str) -> i128 {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("boottime"));
    let mut numbers = line.unwrap_or_default().split_whitespace().map(|n| n.parse().unwrap_or(0));
    numbers.next().unwrap_or(0) * 1_000_000_000 + numbers.next().unwrap_or(0)
}

/// The users of an existing store.
pub(crate) fn users_of(path: &Path) -> Users {
    rustix::fs::stat(path).map_or(Users::CREATOR, |file| Users::of_file(&file))
}

impl Shared {
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self> {
        let path = path::resolve(path, &options)?;
        let mut retry = BusyRetry::new(options.busy_limit());
        let database = loop {
            match Database::connect(&path, &options) {
                Err(Fault::Busy | Fault::Unfinished(_)) if retry.wait_blocking() => {}
                other => break other.map_err(|fault| fault.into_error(&path, "open"))?,
            }
        };
        let folder = beside(&path, "-wake");
        if let Ok(found) = WakeFolder::open(&path) {
            if let Err(error) = found.grant_access(&path, users_of(&path)) {
                tracing::debug!(folder = %folder.display(), %error, "its permissions cannot be set");
            }
            wake::remove_dead_fifos(&found);
        }
        let watched = Arc::<Watched>::default();
        let clock = options.clock.clone().unwrap_or_else(Clock::boot);
        let mut info = Info::new(SCHEME, Environment::with_clock(clock));
        info.fenced = true;
        info.poll = Duration::from_secs(2);
        info.address = path.display().to_string();
        Ok(Self {
            subscribers: Subscribers::new(&path, watched.clone()),
            boot: options.boot_id.unwrap_or_else(clock_id),
            database: Mutex::new(database),
            background: Background::new("tenure-sqlite"),
            path,
            folder,
            options,
            info,
            watched,
        })
    }

    pub(crate) fn now(&self) -> Now {
        Now { clock: self.boot, tick: self.info.clock().now().as_nanos() / 1000, wall: wall_micros() }
    }

    pub(crate) fn classify(&self, error: RowError) -> Fault {
        match error {
            RowError::Sqlite(error) => classify(&self.path, Phase::Running, &error),
            RowError::Body(name, error) => Fault::Config(format!(
                "{}: the ledger of {name} cannot be read ({error}): if the name is not in use, delete its row from the \
                 table ledgers",
                self.path.display()
            )),
        }
    }

    /// Runs `job` on the file, retrying while another process holds it.
    pub(crate) async fn run<T>(
        &self,
        what: impl Fn() -> String,
        job: impl FnMut(&Database) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.run_for(self.options.busy_limit(), what, job).await
    }

    /// Runs `job` on the file, retrying for at most `limit`.
    pub(crate) async fn run_for<T>(
        &self,
        limit: Duration,
        what: impl Fn() -> String,
        mut job: impl FnMut(&Database) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        let mut retry = BusyRetry::new(limit);
        loop {
            let fault = match self.run_once(&mut job) {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            let retryable = matches!(fault, Fault::Busy | Fault::Replaced);
            if !retryable || !retry.wait(&self.background).await {
                return Err(fault.into_error(&self.path, what()));
            }
        }
    }

    /// Runs `job` once, or once more after reopening a file that was replaced.
    fn run_once<T>(
        &self,
        job: &mut impl FnMut(&Database) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        let mut database = self.database.lock().unwrap_or_else(|e| e.into_inner());
        let done = job(&database);
        let Err(Fault::Replaced) = done else { return done };
        let opened = self.reconnect()?;
        let replaced = !opened.is_same_file(&database);
        *database = opened;
        let done = job(&database);
        // Raising a suspicion calls wakers, which are foreign code and may use the file again.
        drop(database);
        if replaced {
            self.info.suspicion.raise();
        }
        done
    }

    fn reconnect(&self) -> std::result::Result<Database, Fault> {
        tracing::warn!(path = %self.path.display(), "the file was removed or replaced; opening it again");
        Database::connect(&self.path, &self.options).map_err(|fault| match fault {
            Fault::Config(why) => {
                let why = format!("the file was removed or replaced, and cannot be opened again: {why}");
                Fault::Unavailable(why.into())
            }
            Fault::Unfinished(_) => Fault::Busy,
            other => other,
        })
    }

    /// Begins a transaction, after checking that the open file is the one that others use.
    pub(crate) fn begin<'a>(&self, database: &'a Database) -> std::result::Result<Tx<'a>, Fault> {
        // A transaction that could not be rolled back is abandoned with its connection.
        if !database.conn.is_autocommit() {
            return Err(Fault::Replaced);
        }
        let tx = Tx::begin(&database.conn, &database.cache).map_err(|e| self.classify(e))?;
        // Checked after the lock is taken: until the commit, others wait for it, unless they lock another file.
        if database.is_current(&self.path) { Ok(tx) } else { Err(Fault::Replaced) }
    }

    pub(crate) fn change<R>(
        &self,
        tx: &Tx<'_>,
        name: &Name,
        change: impl FnOnce(&mut Ledger, Now) -> R,
        sweep: &mut bool,
    ) -> std::result::Result<(R, Notifications), RowError> {
        let now = self.now();
        let (mut ledger, has_row) = tx.read(name)?;
        let result = change(&mut ledger, now);
        let effects = std::mem::take(&mut ledger.effects);
        let mut watchers = Vec::new();
        if effects.dirty {
            self.subscribe_new_waiter(&ledger);
            if effects.count || effects.holder {
                watchers = ledger.watchers.iter().map(|w| w.client).collect();
            }
            tx.write(name, ledger, has_row)?;
            *sweep |= !has_row && now.wall.is_multiple_of(self.options.sweep_every());
        }
        Ok((result, Notifications { effects, watchers }))
    }

    /// Applies a change to an empty ledger in place of one that cannot be read, so that the other changes of a batch do
    /// not fail with it. Returns the error if the change would write.
    pub(crate) fn change_unreadable<R>(
        &self,
        error: RowError,
        change: impl FnOnce(&mut Ledger, Now) -> R,
    ) -> std::result::Result<(R, Notifications), RowError> {
        let RowError::Body(name, _) = &error else { return Err(error) };
        let mut empty = Ledger::default();
        let result = change(&mut empty, self.now());
        if empty.effects.dirty {
            return Err(error);
        }
        tracing::warn!(path = %self.path.display(), %name, ?error, "unreadable row, its holds are lost");
        Ok((result, Notifications { effects: empty.effects, watchers: Vec::new() }))
    }

    /// Runs `job` on the rows, after checking that the open file is the one that others use.
    pub(crate) async fn read<T>(
        &self,
        what: impl Fn() -> String,
        mut job: impl FnMut(&Connection) -> std::result::Result<T, RowError>,
    ) -> Result<T> {
        let job = |database: &Database| match database.is_current(&self.path) {
            true => job(&database.conn).map_err(|e| self.classify(e)),
            false => Err(Fault::Replaced),
        };
        self.run(what, job).await
    }

    pub(crate) async fn update<R>(
        &self,
        name: &Name,
        mut change: impl FnMut(&mut Ledger, Now) -> R,
    ) -> Result<(R, Notifications)> {
        let job = |database: &Database| {
            let mut sweep = false;
            let tx = self.begin(database)?;
            let done = self.change(&tx, name, &mut change, &mut sweep).map_err(|e| self.classify(e))?;
            tx.commit().map_err(|e| self.classify(e))?;
            self.sweep_if(sweep, database);
            Ok(done)
        };
        self.run(|| format!("change {name}"), job).await
    }

    /// Checks that the file can be written, by an empty transaction.
    pub(crate) async fn check_writable(&self) -> Result<()> {
        let job = |database: &Database| self.begin(database)?.commit().map_err(|e| self.classify(e));
        self.run(|| "check that the file can be written".to_owned(), job).await
    }

    /// Removes idle rows if a sweep is due. Best effort: a later new name triggers the next sweep.
    pub(crate) fn sweep_if(&self, due: bool, database: &Database) {
        let sweep = || {
            let tx = Tx::begin(&database.conn, &database.cache)?;
            tx.sweep(self.now())?;
            tx.commit()
        };
        if due && let Err(error) = sweep() {
            tracing::debug!(path = %self.path.display(), ?error, "idle rows were not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_clock_is_another_clock() {
        assert_eq!(
            boottime_shift("monotonic           0         0\nboottime        86400       500\n"),
            86_400_000_000_500
        );
        assert_eq!(boottime_shift("monotonic  0  0\nboottime  -5  0\n"), -5_000_000_000);
        assert_eq!(boottime_shift(""), 0);
    }
}
