//! Drivers in Python: their sources, with the packages beside them.

use std::path::Path;
use std::process::Command;

use super::{Recipe, copy, run};
use crate::Result;

/// The command that starts the one around redis-py.
pub(crate) const COMMAND: Recipe<Command> =
    Recipe { name: "redis-py", folder: "python", version: "", build, kept };

/// The command that starts a finished build.
pub fn kept(built: &Path) -> Option<Command> {
    let mut command = Command::new("python3");
    command.arg(built.join("driver.py"));
    built.join("redis").is_dir().then_some(command)
}

/// Installs the packages beside the script, which is where Python looks first, so no virtual environment is needed: the
/// `venv` module is not installed everywhere.
///
/// # Errors
/// What pip says.
pub fn build(sources: &Path, into: &Path) -> Result<()> {
    copy(sources, into)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]);
    pip.args(["--root-user-action=ignore", "-r"]).arg(sources.join("requirements.txt"));
    run(pip.arg("--target").arg(into))
}
