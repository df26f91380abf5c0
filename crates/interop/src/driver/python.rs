//! The driver around redis-py: its sources, with the packages beside them.

use std::path::Path;
use std::process::Command;

use super::{Recipe, copy, run};
use crate::Result;

/// The command that starts it.
pub(crate) const COMMAND: Recipe<Command> = Recipe { name: "redis-py", folder: "python", build, kept };

fn kept(built: &Path) -> Option<Command> {
    let mut command = Command::new("python3");
    command.arg(built.join("driver.py"));
    built.join("redis").is_dir().then_some(command)
}

/// What runs is in the first folder that Python looks into, so no environment is needed. The module that makes those
/// is not there everywhere.
fn build(sources: &Path, into: &Path) -> Result<()> {
    copy(sources, into)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]);
    pip.args(["--root-user-action=ignore", "-r"]).arg(sources.join("requirements.txt"));
    run(pip.arg("--target").arg(into))
}
