//! The SQLite store compared with the two bare transactions that a pair of acquire and release needs at least.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::report::{Row, per_second};
use crate::rounds::{alternate, rate};
use crate::{Result, Scale};

const BATCH: u32 = 50;
const BAR: f64 = 0.7;
const NAME: &str = "bench";

/// Acquire and release, uncontended, in one task and one process.
pub(crate) async fn pairs(scale: Scale) -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let client = tenure::connect(&format!("sqlite:{}", path.display())).await?;
    let lock = client.lock(NAME);
    let guard = lock.acquire().await?;
    let body = body_of(&path)?;
    guard.release().await?;
    let bare = Bare::open(&folder.path().join("bare.db"), body)?;

    let ours = || {
        rate(scale.sqlite, BATCH, || async {
            for _ in 0..BATCH {
                lock.acquire().await?.release().await?;
            }
            Ok(())
        })
    };
    let peer = || rate(scale.sqlite, BATCH, || async { (0..BATCH).try_for_each(|_| bare.pair()) });
    let rates = alternate(scale.rounds, ours, peer).await?;
    client.close().await?;
    Ok(Row {
        what: "sqlite: acquire + release".into(),
        ours: per_second(rates.ours),
        peer: format!("{} two bare transactions", per_second(rates.peer)),
        ratio: Some(rates.ratio),
        bar: "ratio ≥ 0.7".into(),
        met: rates.ratio.median >= BAR,
        values: vec![("ours_per_second", rates.ours), ("peer_per_second", rates.peer)],
    })
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
