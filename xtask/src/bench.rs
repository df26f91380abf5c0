//! `cargo xtask bench`: the benchmarks, optimised. `cargo xtask outage`: what each call does while its store is down.

use std::process::ExitCode;

use crate::packages::{self, BENCH, FLOCK, Need, OUTAGE, REDIS};
use crate::{FAILED, MISSING, cargo};

pub(crate) fn bench(words: &[String]) -> ExitCode {
    let only = |part| words.windows(2).any(|pair| pair == ["--only", part]);
    let needs: &[Need] = match () {
        () if only("embedded") => &[FLOCK],
        () if only("telemetry") => &[],
        () if only("redis-rs") => REDIS,
        () => BENCH,
    };
    run(needs, &["--profile", "measure", "--features", "redis-rs"], words)
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
