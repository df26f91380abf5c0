//! The rows of the database: one ledger per name, read and written in the transaction that changes it.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use tenure_core::Name;
use tenure_core::ledger::{Holder, Ledger, Now};

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";
const READ: &str = statement(include_str!("../sql/read.sql"));
const UPDATE: &str = statement(include_str!("../sql/update.sql"));
const INSERT: &str = statement(include_str!("../sql/insert.sql"));
const DELETE: &str = statement(include_str!("../sql/delete.sql"));
const WALK: &str = statement(include_str!("../sql/walk.sql"));
const SET_META: &str = statement(include_str!("../sql/set_meta.sql"));
const GET_META: &str = statement(include_str!("../sql/get_meta.sql"));

/// Strips the comment in the first line, because cached statements are looked up by their text.
const fn statement(file: &str) -> &str {
    let bytes = file.as_bytes();
    let mut at = 0;
    while bytes[at] != b'\n' {
        at += 1;
    }
    file.split_at(at + 1).1.trim_ascii()
}

/// Rows checked in one sweep, so that it takes milliseconds however many rows there are.
const SWEEP_ROWS: usize = 1024;
/// The highest fence of all deleted rows: new ledgers start above it.
const FLOOR: &str = "floor";
/// Where the next sweep begins.
const CURSOR: &str = "cursor";

/// Why a row cannot be used.
#[derive(Debug)]
pub(crate) enum RowError {
    Sqlite(rusqlite::Error),
    /// The body of this name is not a valid ledger.
    Body(Name, serde_json::Error),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

type Result<T> = std::result::Result<T, RowError>;

/// A cache of the ledgers that this process wrote, each with its body. If the row still has that body it need not be
/// parsed, which takes as long as everything else outside of SQLite.
#[derive(Debug, Default)]
pub(crate) struct LedgerCache(RefCell<HashMap<Name, (String, Ledger)>>);

impl LedgerCache {
    const CAPACITY: usize = 128;

    fn take(&self, name: &Name, body: &[u8]) -> Option<Ledger> {
        let (written, ledger) = self.0.borrow_mut().remove(name)?;
        (written.as_bytes() == body).then_some(ledger)
    }

    fn insert(&self, name: &Name, body: String, ledger: Ledger) {
        let mut cached = self.0.borrow_mut();
        if cached.len() >= Self::CAPACITY {
            cached.clear();
        }
        cached.insert(name.clone(), (body, ledger));
    }
}

/// A write transaction, rolled back if it is dropped without a commit.
pub(crate) struct Tx<'a> {
    conn: &'a Connection,
    cache: &'a LedgerCache,
}

impl<'a> Tx<'a> {
    pub(crate) fn begin(conn: &'a Connection, cache: &'a LedgerCache) -> Result<Self> {
        conn.prepare_cached(BEGIN)?.execute([])?;
        Ok(Self { conn, cache })
    }

    pub(crate) fn commit(self) -> Result<()> {
        self.conn.prepare_cached(COMMIT)?.execute([])?;
        Ok(())
    }

    /// Reads the ledger of `name`, and returns whether it has a row.
    pub(crate) fn read(&self, name: &Name) -> Result<(Ledger, bool)> {
        let mut read = self.conn.prepare_cached(READ)?;
        let mut rows = read.query([name.as_str()])?;
        let Some(row) = rows.next()? else { return Ok((Ledger::above(self.floor()?), false)) };
        let (fence, body) = (row.get_ref(0)?, row.get_ref(1)?);
        if let ValueRef::Text(body) = body
            && let Some(ledger) = self.cache.take(name, body)
        {
            return Ok((ledger, true));
        }
        Ok((parse(name, fence, body)?, true))
    }

    pub(crate) fn write(&self, name: &Name, ledger: Ledger, has_row: bool) -> Result<()> {
        let sql = if has_row { UPDATE } else { INSERT };
        let body = match ledger.is_idle() {
            true => None,
            false => Some(serde_json::to_string(&ledger).map_err(|e| RowError::Body(name.clone(), e))?),
        };
        self.conn.prepare_cached(sql)?.execute(params![name.as_str(), signed(ledger.fence), body])?;
        if let Some(body) = body {
            self.cache.insert(name, body, ledger);
        }
        Ok(())
    }

    fn floor(&self) -> Result<u64> {
        let mut get = self.conn.prepare_cached(GET_META)?;
        let floor: Option<i64> = get.query_row([FLOOR], |row| row.get(0)).optional()?;
        Ok(floor.map_or(0, unsigned))
    }

    /// Deletes rows that contain only a fence, or nothing that is still valid, continuing where the last sweep ended.
    pub(crate) fn sweep(&self, now: Now) -> Result<()> {
        let from: Option<String> =
            self.conn.prepare_cached(GET_META)?.query_row([CURSOR], |row| row.get(0)).optional()?;
        let (mut idle, mut changed) = (Vec::new(), Vec::new());
        let (mut seen, mut floor) = (0, self.floor()?);
        let mut next = String::new();
        walk(self.conn, from.as_deref().unwrap_or(""), |name, ledger| {
            if seen == SWEEP_ROWS {
                next = name.as_str().to_owned();
                return false;
            }
            seen += 1;
            // An unreadable row is kept for inspection; it blocks nothing.
            let Ok(mut ledger) = ledger else { return true };
            ledger.prune(now);
            if ledger.is_idle() {
                floor = floor.max(ledger.fence);
                idle.push(name);
            } else if std::mem::take(&mut ledger.effects).dirty {
                // Entries stamped by another clock get one full term from now, which must be stored.
                changed.push((name, ledger));
            }
            true
        })?;
        for (name, ledger) in changed {
            self.write(&name, ledger, true)?;
        }
        for name in &idle {
            self.conn.prepare_cached(DELETE)?.execute([name.as_str()])?;
        }
        self.conn.prepare_cached(SET_META)?.execute(params![FLOOR, signed(floor)])?;
        self.conn.prepare_cached(SET_META)?.execute(params![CURSOR, next])?;
        Ok(())
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if !self.conn.is_autocommit() {
            let _ = self.conn.prepare_cached(ROLLBACK).and_then(|mut s| s.execute([]));
        }
    }
}

/// Reads the ledger of `name`, if it has a row.
pub(crate) fn read_ledger(conn: &Connection, name: &Name) -> Result<Option<Ledger>> {
    let mut read = conn.prepare_cached(READ)?;
    let mut rows = read.query([name.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    parse(name, row.get_ref(0)?, row.get_ref(1)?).map(Some)
}

/// Reads the holders of `name`. Skips the queue, which may be long.
pub(crate) fn read_holders(conn: &Connection, name: &Name) -> Result<Option<Ledger>> {
    #[derive(Deserialize)]
    struct Holders {
        fence: u64,
        size: Option<u32>,
        #[serde(default)]
        holders: Vec<Holder>,
    }
    let mut read = conn.prepare_cached(READ)?;
    let mut rows = read.query([name.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let ValueRef::Text(body) = row.get_ref(1)? else { return Ok(None) };
    let parsed: Holders = serde_json::from_slice(body).map_err(|e| RowError::Body(name.clone(), e))?;
    let Holders { fence, size, holders } = parsed;
    Ok(Some(Ledger { fence, size, holders: holders.into(), ..Ledger::default() }))
}

/// Passes the ledgers whose names begin with `prefix` to `read`, sorted, except idle ones, until it has found `limit`
/// results. An unreadable one is skipped; reading it by name returns the error.
pub(crate) fn scan<R>(
    conn: &Connection,
    prefix: &str,
    limit: usize,
    mut read: impl FnMut(&Name, Ledger) -> Option<R>,
) -> Result<Vec<R>> {
    let mut found = Vec::new();
    walk(conn, prefix, |name, ledger| {
        let more = found.len() < limit && name.as_str().starts_with(prefix);
        match ledger {
            Ok(ledger) if more && !ledger.is_idle() => found.extend(read(&name, ledger)),
            Err(error) if more => tracing::warn!(%name, ?error, "the row cannot be read and is not listed"),
            _ => {}
        }
        more
    })?;
    Ok(found)
}

/// Visits the ledgers in order, starting at `first`, until `visit` returns `false`.
fn walk(conn: &Connection, first: &str, mut visit: impl FnMut(Name, Result<Ledger>) -> bool) -> Result<()> {
    let mut walk = conn.prepare_cached(WALK)?;
    let mut rows = walk.query([first])?;
    while let Some(row) = rows.next()? {
        // Invalid names were not written by this library.
        let Ok(name) = Name::new(row.get_ref(0)?.as_str().unwrap_or_default()) else { continue };
        let ledger = parse(&name, row.get_ref(1)?, row.get_ref(2)?);
        if !visit(name, ledger) {
            break;
        }
    }
    Ok(())
}

fn parse(name: &Name, fence: ValueRef<'_>, body: ValueRef<'_>) -> Result<Ledger> {
    match body {
        ValueRef::Text(json) => serde_json::from_slice(json).map_err(|e| RowError::Body(name.clone(), e)),
        _ => Ok(Ledger::above(fence.as_i64().map_or(0, unsigned))),
    }
}

fn signed(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}

fn unsigned(fence: i64) -> u64 {
    u64::try_from(fence).unwrap_or(0)
}
