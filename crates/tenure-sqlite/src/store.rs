//! The SQLite implementation of the core's `LedgerStore`.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tenure_core::backend::{Info, Interest, Watch};
use tenure_core::ledger::{Ledger, LedgerStore, Now};
use tenure_core::{ClientId, Finding, Name};

use crate::aliases::check_single_path;
use crate::database::Database;
use crate::ledgers::{read_holders, read_ledger, scan};
use crate::network::network_fs;
use crate::shared::Shared;
use crate::watch::SqliteWatch;
use crate::{Options, Result};

/// The ledgers of a [`Sqlite`](crate::Sqlite).
#[derive(Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

impl SqliteStore {
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self> {
        Ok(Self { shared: Arc::new(Shared::open(path, options)?) })
    }
}

impl LedgerStore for SqliteStore {
    fn info(&self) -> &Info {
        &self.shared.info
    }

    async fn update<R: Send + 'static>(
        &self,
        name: &Name,
        change: impl FnMut(&mut Ledger, Now) -> R + Send,
    ) -> Result<R> {
        let (result, notifications) = self.shared.update(name, change).await?;
        self.shared.notify(name, notifications).await;
        Ok(result)
    }

    async fn update_many<R: Send + 'static>(
        &self,
        names: &[&Name],
        mut change: impl FnMut(usize, &mut Ledger, Now) -> R + Send,
    ) -> Result<Vec<R>> {
        let shared = &self.shared;
        let job = |database: &Database| {
            let mut sweep = false;
            let tx = shared.begin(database)?;
            let each = names.iter().enumerate().map(|(i, name)| {
                let mut change = |ledger: &mut Ledger, now| change(i, ledger, now);
                let done = shared.change(&tx, name, &mut change, &mut sweep);
                done.or_else(|error| shared.change_unreadable(error, change))
            });
            let done = each.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| shared.classify(e))?;
            tx.commit().map_err(|e| shared.classify(e))?;
            shared.sweep_if(sweep, database);
            Ok(done)
        };
        let done = shared.run(|| format!("change {} names", names.len()), job).await?;
        // Wake all before waiting for anything.
        let unreached = names.iter().zip(&done).filter_map(|(name, (_, notifications))| {
            shared.wake_affected(name, notifications).in_queue_of(name)
        });
        shared.skip_unreached(unreached.collect()).await;
        Ok(done.into_iter().map(|(result, _)| result).collect())
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        Ok(Box::new(SqliteWatch::new(&self.shared, name, interest).await?))
    }

    async fn peek(&self, name: &Name) -> Result<Option<(Ledger, Now)>> {
        let shared = &self.shared;
        let found = shared.read(|| format!("read {name}"), |conn| read_ledger(conn, name)).await?;
        Ok(found.filter(|ledger| !ledger.is_idle()).map(|ledger| (ledger, shared.now())))
    }

    async fn inside(&self, name: &Name) -> Result<Option<(Ledger, Now)>> {
        let shared = &self.shared;
        let found = shared.read(|| format!("read {name}"), |conn| read_holders(conn, name)).await?;
        Ok(found.map(|ledger| (ledger, shared.now())))
    }

    async fn scan<R: Send>(
        &self,
        prefix: &str,
        limit: usize,
        mut read: impl FnMut(&Name, Ledger, Now) -> Option<R> + Send,
    ) -> Result<Vec<R>> {
        let shared = &self.shared;
        let list = |conn: &Connection| {
            let now = shared.now();
            scan(conn, prefix, limit, |name, ledger| read(name, ledger, now))
        };
        shared.read(|| format!("list {prefix:?}"), list).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let shared = &self.shared;
        shared.check_writable().await?;
        Ok([check_reach(shared), check_wake_ups(shared)].into_iter().chain(check_sharing(shared)).collect())
    }
}

/// Which processes can share the file.
fn check_reach(shared: &Shared) -> Finding {
    let path = shared.path.display();
    if let Err(aliased) = check_single_path(&shared.path) {
        return Finding::error("reach", aliased.what, aliased.advice);
    }
    match network_fs(&shared.path) {
        Some(kind) => Finding::warning(
            "reach",
            format!(
                "{path} is on a network file system ({kind}), where file locks do not work between machines"
            ),
            "use a file on a local disk; for several machines use a server, as with redis://",
        ),
        None => Finding::ok(
            "reach",
            format!("{path} can be written, and is shared by the processes of this machine"),
        ),
    }
}

/// Whether other processes can wake this one.
fn check_wake_ups(shared: &Shared) -> Finding {
    match shared.subscribers.open(ClientId::new(), &shared.background) {
        Ok(_) => Finding::ok("wake-ups", "waiters are woken by other processes at once"),
        Err(error) => Finding::warning(
            "wake-ups",
            format!("waiters cannot be woken by other processes and have to poll: {error}"),
            format!("make sure that {} is a folder that this user may write to", shared.folder.display()),
        ),
    }
}

/// Whether several users can keep sharing the file, if its permissions let them.
fn check_sharing(shared: &Shared) -> Option<Finding> {
    let (file, parent) =
        (rustix::fs::stat(&shared.path).ok()?, rustix::fs::stat(shared.path.parent()?).ok()?);
    let (shared_by_group, inherits) = (file.st_mode & 0o020 != 0, parent.st_mode & 0o2000 != 0);
    let folder = shared.path.parent()?.display();
    (shared_by_group && !inherits && file.st_mode & 0o002 == 0).then(|| {
        Finding::warning(
            "sharing",
            format!(
                "group {} may use the file, but files that other users create beside it in {folder} get another group",
                file.st_gid
            ),
            format!("chmod g+s {folder}"),
        )
    })
}
