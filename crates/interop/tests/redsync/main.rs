//! Locks shared with redsync.

#[path = "../plain/mod.rs"]
mod plain;

use std::process::ExitCode;

use interop::Plain;
use plain::Library;

fn main() -> ExitCode {
    let library = Library {
        name: "redsync",
        quorum: true,
        start: |servers| Box::pin(async move { Plain::redsync(&servers).await }),
    };
    plain::run(library, Vec::new())
}
