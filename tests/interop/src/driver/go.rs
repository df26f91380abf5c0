//! Drivers in Go: one compiled program each.

use std::path::Path;
use std::process::Command;

use super::{Recipe, offline_first, run};
use crate::Result;

/// The command that starts the one around redsync.
pub(crate) const COMMAND: Recipe<Command> = Recipe {
    name: "redsync",
    folder: "go",
    version: "",
    build: |sources, into| build(sources, ".", into),
    kept,
};

/// The command that starts a finished build.
pub fn kept(built: &Path) -> Option<Command> {
    let program = built.join("driver");
    program.is_file().then(|| Command::new(program))
}

/// Builds this package of the sources.
///
/// # Errors
/// What the compiler says.
pub fn build(sources: &Path, package: &str, into: &Path) -> Result<()> {
    offline_first(|offline| {
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(into.join("driver")).arg(package);
        go.envs(offline.then_some(("GOPROXY", "off")));
        run(go.current_dir(sources))
    })
}
