//! The node-redlock driver: its sources, with the packages beside them.

use std::path::Path;
use std::process::Command;

use super::{Recipe, copy, offline_first, run};
use crate::Result;

/// The command that starts it.
pub(crate) const COMMAND: Recipe<Command> =
    Recipe { name: "node-redlock", folder: "node", version: "", build, kept };

fn kept(built: &Path) -> Option<Command> {
    let mut command = Command::new("node");
    command.arg(built.join("driver.js"));
    built.join("node_modules").is_dir().then_some(command)
}

fn build(sources: &Path, into: &Path) -> Result<()> {
    copy(sources, into)?;
    offline_first(|offline| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        npm.arg(if offline { "--offline" } else { "--prefer-offline" });
        run(npm.current_dir(into))
    })
}
