//! Rows of a SQLite file that another program has written into, or that are damaged.

use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use tenure_core::backend::Backend;
use tenure_sqlite::Options;
use tokio::runtime::Runtime;

use super::{ledger, work};
use crate::Target;

pub(super) struct Rows {
    runtime: Runtime,
    store: Arc<dyn Backend>,
    /// The connection of the other program.
    other: Connection,
    _folder: tempfile::TempDir,
}

impl Rows {
    pub(super) fn new() -> Self {
        // In memory where that is possible: nothing here is about a disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let path = folder.path().join("locks.db");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let store = tenure_sqlite::open(&path, Options::default()).expect("a store");
        let other = Connection::open(&path).expect("a connection");
        Self { runtime, store: Arc::new(store), other, _folder: folder }
    }
}

impl Target for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn tokens(&self) -> &'static [&'static str] {
        ledger::TOKENS
    }

    /// As for `ledger`, and SQLite's own pages.
    fn most_memory(&self, length: usize) -> usize {
        (8 << 20) + 400 * length
    }

    /// The first line is the work, the second the fence, the rest the body: text if it is UTF-8.
    fn read(&mut self, input: &[u8]) {
        let mut parts = input.splitn(3, |byte| *byte == b'\n');
        let mut part = || parts.next().unwrap_or_default();
        let (what, fence, body) =
            (String::from_utf8_lossy(part()).into_owned(), value(part()), value(part()));
        let _ = self.other.execute_batch("BEGIN; DELETE FROM ledgers");
        for name in ["1", "2", "3", "5", "7", "9", "11", "count"] {
            let name = format!("orders/{name}");
            // A fence that is no number is refused by the file itself.
            let row = params![name, fence, body];
            let _ = self.other.execute("INSERT INTO ledgers (name, fence, body) VALUES (?1, ?2, ?3)", row);
        }
        self.other.execute_batch("COMMIT").expect("a commit");
        self.runtime.block_on(work::work(&what, self.store.clone()));
    }
}

fn value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok("") => Value::Null,
        Ok(text) => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer),
        Err(_) => Value::Blob(bytes.to_vec()),
    }
}
