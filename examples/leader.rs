//! A leader that writes to a database: each write carries the term, and the database refuses an older one. So a leader
//! that was paused, and does not know yet that another one was elected, does no harm.
//!
//!     cargo run -p tenure --example leader -- redis://localhost
//!
//! Prints:
//!     first leads and writes: 1 row changed
//!     second leads and writes: 1 row changed
//!     first wakes up and writes: 0 rows changed, a later leader has been here
//!     the plan is of second

use std::time::Duration;

use rusqlite::{Connection, params};
use tenure::Fence;

/// The plan that leaders write. The term is part of the condition: one statement, nothing comes in between.
struct Plan(Connection);

impl Plan {
    fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE plan (id INTEGER PRIMARY KEY, author TEXT, term INTEGER NOT NULL);
             INSERT INTO plan VALUES (1, 'nobody', 0);",
        )?;
        Ok(Self(database))
    }

    /// How many rows were changed: one, or none if a later leader has written.
    fn write(&self, author: &str, term: Fence) -> rusqlite::Result<usize> {
        let update = "UPDATE plan SET author = ?1, term = ?2 WHERE id = 1 AND term <= ?2";
        self.0.execute(update, params![author, term.0 as i64])
    }

    fn author(&self) -> rusqlite::Result<String> {
        self.0.query_row("SELECT author FROM plan", [], |row| row.get(0))
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let plan = Plan::new()?;

    // A short term that is not renewed stands for a leader whose process is paused.
    let election = client.election("examples/planner");
    let first = election.clone().note("first").lease(Duration::from_millis(300)).campaign().await?;
    let old_term = first.fence().ok_or("an election always has terms")?;
    let rows = plan.write("first", old_term)?;
    println!("first leads and writes: {rows} row changed");
    assert_eq!(rows, 1);

    let second = election.note("second").campaign().await?;
    let term = second.fence().ok_or("an election always has terms")?;
    assert!(term > old_term);
    let rows = plan.write("second", term)?;
    println!("second leads and writes: {rows} row changed");
    assert_eq!(rows, 1);

    let rows = plan.write("first", old_term)?;
    println!("first wakes up and writes: {rows} rows changed, a later leader has been here");
    assert_eq!(rows, 0);
    assert_eq!(plan.author()?, "second");
    println!("the plan is of {}", plan.author()?);

    assert!(first.release().await.is_err_and(|error| error.is_lost()));
    second.release().await?;
    client.close().await?;
    Ok(())
}
