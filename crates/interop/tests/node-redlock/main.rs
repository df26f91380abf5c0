//! Locks shared with node-redlock.

#[path = "../plain/mod.rs"]
mod plain;

use std::process::ExitCode;

use interop::Plain;
use plain::Library;

fn main() -> ExitCode {
    let library = Library {
        name: "node-redlock",
        quorum: true,
        start: |servers| Box::pin(async move { Plain::node_redlock(&servers).await }),
    };
    plain::run(library, Vec::new())
}
