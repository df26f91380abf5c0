//! `cargo xtask bench`: the benchmarks, optimised. `cargo xtask outage`: what each call does while its store is down.

use std::process::ExitCode;

use crate::packages::{self, BENCH, FLOCK, Need, OUTAGE};
use crate::{FAILED, MISSING, cargo};

pub(crate) fn bench(words: &[String]) -> ExitCode {
    let has = |option: &str, value: &str| words.windows(2).any(|pair| pair == [option, value]);
    let needs: &[Need] = match () {
        () if has("--only", "embedded") => &[FLOCK],
        () if has("--only", "telemetry") || words.iter().any(|word| word == "--report") => &[],
        () => BENCH,
    };
    run(needs, &["--profile", "measure", "--features", "rslock"], words)
}

/// Calls that take seconds need no optimisation.
pub(crate) fn outage() -> ExitCode {
    run(OUTAGE, &[], &["--outage".to_owned()])
}

fn run(needs: &[Need], build: &[&str], words: &[String]) -> ExitCode {
    if let Err(why) = packages::provide(needs) {
        eprintln!("{why}");
        return MISSING.into();
    }
    // No time limit: the phases of the program have limits of their own.
    let mut run = cargo(&["run", "--quiet", "--package", "bench"]);
    let status = run.args(build).arg("--").args(words).status();
    let code = status.ok().and_then(|s| s.code()).and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(FAILED).into()
}
