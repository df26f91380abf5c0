//! `cargo xtask chaos`: random work on real stores under faults.

use std::process::ExitCode;

use crate::packages::{self, ALL, Need, REDIS};
use crate::{FAILED, MISSING, cargo};

pub(crate) fn chaos(words: &[String]) -> ExitCode {
    let stores = words.windows(2).find(|pair| pair[0] == "--store").map(|pair| &pair[1]);
    let is_all = |starts: &[&str]| {
        stores.is_some_and(|stores| {
            stores.split(',').all(|store| starts.iter().any(|start| store.starts_with(start)))
        })
    };
    let needs: &[Need] = match () {
        () if words.iter().any(|word| word == "--report") || is_all(&["memory", "sqlite"]) => &[],
        () if is_all(&["memory", "sqlite", "redlock", "redis-sentinel", "redis-cluster"]) => REDIS,
        // With the libraries that work beside ours.
        () => ALL,
    };
    if let Err(why) = packages::provide(needs) {
        eprintln!("{why}");
        return MISSING.into();
    }
    // No time limit: each phase of the program has one of its own.
    let mut run = cargo(&["run", "--quiet", "--package", "chaos", "--"]);
    let code = run.args(words).status().ok().and_then(|status| status.code());
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED).into()
}
