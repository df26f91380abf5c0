//! The redsync driver: one compiled program.

use std::path::Path;
use std::process::Command;

use super::{Recipe, offline_first, run};
use crate::Result;

/// The command that starts it.
pub(crate) const COMMAND: Recipe<Command> =
    Recipe { name: "redsync", folder: "go", version: "", build, kept };

fn kept(built: &Path) -> Option<Command> {
    let program = built.join("driver");
    program.is_file().then(|| Command::new(program))
}

fn build(sources: &Path, into: &Path) -> Result<()> {
    offline_first(|offline| {
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(into.join("driver"));
        go.envs(offline.then_some(("GOPROXY", "off")));
        run(go.current_dir(sources))
    })
}
