//! The start of the command: `tenure run x -- true` on SQLite, beside `flock FILE true`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Result;
use crate::bars::START;
use crate::run::Run;
use crate::sides::{COMMAND, FLOCK};

const ROUNDS: usize = 31;

pub(crate) async fn of_the_command(run: &mut Run) -> Result<()> {
    const WORKLOAD: &str = "embedded start";
    run.progress.at(WORKLOAD, "building the command");
    let program = build()?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let mut ours = Command::new(program);
    ours.args(["run", "--url", &url, "x", "--", "true"]);
    let mut flock = Command::new("flock");
    flock.arg(folder.path().join("file")).arg("true");
    for round in 0..=ROUNDS {
        let times = [took(&mut ours)?, took(&mut flock)?];
        // The first round is a warm-up.
        if round > 0 {
            run.samples.push(WORKLOAD, START, COMMAND.name, times[0]);
            run.samples.push(WORKLOAD, START, FLOCK.name, times[1]);
        }
    }
    Ok(())
}

/// Milliseconds.
fn took(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Builds the command as this program was built.
fn build() -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let folder = me.parent().ok_or("no target folder")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", "measure", "--package", "tenure-cli", "--target-dir"]);
    if !cargo.arg(folder.parent().unwrap_or(Path::new("target"))).status()?.success() {
        return Err("the command was not built".into());
    }
    Ok(folder.join("tenure"))
}
