//! The SQLite store compared with the two bare transactions that a pair of acquire and release needs at least.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::{Scale, alternate, rate};
use crate::Result;
use crate::run::Run;
use crate::sides::{SQLITE, TRANSACTIONS};

const BATCH: u32 = 50;
const NAME: &str = "bench";

/// Acquire and release, uncontended, in one task and one process.
pub(crate) async fn pairs(run: &mut Run, scale: Scale) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let client = tenure::connect(&format!("sqlite:{}", path.display())).await?;
    let lock = client.lock(NAME);
    let guard = lock.acquire().await?;
    let body = body_of(&path)?;
    guard.release().await?;
    let bare = Bare::open(&folder.path().join("bare.db"), body)?;

    let ours = || {
        rate(scale.time, BATCH, || async {
            for _ in 0..BATCH {
                lock.acquire().await?.release().await?;
            }
            Ok(())
        })
    };
    let peer = || rate(scale.time, BATCH, || async { (0..BATCH).try_for_each(|_| bare.pair()) });
    let (ours, peer) = ((SQLITE.name, ours), (TRANSACTIONS.name, peer));
    alternate(run, "embedded sqlite", scale.rounds, ours, peer).await?;
    Ok(client.close().await?)
}

/// What our store writes for a held lock, so that the peer writes as much.
fn body_of(path: &Path) -> Result<String> {
    let conn = Connection::open(path)?;
    Ok(conn.query_row("SELECT body FROM ledgers WHERE name = ?1", [NAME], |row| row.get(0))?)
}

/// SQLite itself, configured as by our store.
struct Bare {
    conn: Connection,
    body: String,
}

impl Bare {
    fn open(path: &Path, body: String) -> Result<Self> {
        let conn = Connection::open(path)?;
        conn.busy_timeout(Duration::ZERO)?;
        conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        conn.pragma_update(None, "synchronous", "normal")?;
        conn.execute_batch(
            "CREATE TABLE ledgers (name TEXT PRIMARY KEY NOT NULL, fence INTEGER NOT NULL, body TEXT) WITHOUT ROWID",
        )?;
        conn.execute(
            "INSERT INTO ledgers VALUES (?1, ?2, NULL)",
            params![NAME, tenure::backend::wall_micros() as i64],
        )?;
        Ok(Self { conn, body })
    }

    /// One transaction that acquires, one that releases.
    fn pair(&self) -> Result<()> {
        self.change(Some(&self.body))?;
        self.change(None)
    }

    fn change(&self, body: Option<&str>) -> Result<()> {
        let conn = &self.conn;
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let (fence, _): (i64, Option<String>) = conn
            .prepare_cached("SELECT fence, body FROM ledgers WHERE name = ?1")?
            .query_row([NAME], |row| Ok((row.get(0)?, row.get(1)?)))?;
        conn.prepare_cached("UPDATE ledgers SET fence = ?2, body = ?3 WHERE name = ?1")?.execute(params![
            NAME,
            fence + 1,
            body
        ])?;
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}
