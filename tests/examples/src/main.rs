//! All examples in one program, so that the tests link one and not twenty. What it is called by, the last part of its
//! `argv[0]`, says which one it is.

use std::path::Path;
use std::process::{ExitCode, Termination};

macro_rules! examples {
    ($($name:ident = $path:literal,)*) => {
        $(#[path = $path] mod $name;)*

        fn run(name: &str) -> Option<ExitCode> {
            match name {
                $(stringify!($name) => Some($name::main().report()),)*
                _ => None,
            }
        }
    };
}

examples! {
    attribute = "../../../examples/attribute.rs",
    axum_service = "../../../examples/axum_service.rs",
    blocking = "../../../examples/blocking.rs",
    config = "../../../examples/config.rs",
    counting_semaphore = "../../../examples/counting_semaphore.rs",
    election = "../../../examples/election.rs",
    exporter = "../../../examples/exporter.rs",
    fair = "../../../examples/fair.rs",
    fencing = "../../../examples/fencing.rs",
    handwritten = "../../../examples/handwritten.rs",
    hung_holder = "../../../examples/hung_holder.rs",
    latch = "../../../examples/latch.rs",
    leader = "../../../examples/leader.rs",
    lock = "../../../examples/lock.rs",
    lost = "../../../examples/lost.rs",
    multi_lock = "../../../examples/multi_lock.rs",
    once = "../../../examples/once.rs",
    opentelemetry = "../../../examples/opentelemetry.rs",
    reentrant = "../../../examples/reentrant.rs",
    rwlock = "../../../examples/rwlock.rs",
    semaphore = "../../../examples/semaphore.rs",
    stock = "../../../examples/stock.rs",
    two_functions = "../../../examples/two_functions.rs",
}

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    run(name).unwrap_or_else(|| {
        eprintln!("no example is called {name:?}");
        ExitCode::FAILURE
    })
}
