//! `cargo xtask check` and `docs`: format, lints, documentation, public surface, packages, tidiness.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::run::{Ended, Show, run};
use crate::{api, cargo, examples, mutants, publishable, root, shown, tidy, verdict};

const LIMIT: Duration = Duration::from_secs(3600);

pub(crate) fn check() -> ExitCode {
    all(CHECKS)
}

/// Runs all of them, and tells which failed.
pub(crate) fn all(checks: &[(&str, Check)]) -> ExitCode {
    let mut good = true;
    for (name, check) in checks {
        println!("=== {name}");
        let begin = Instant::now();
        let found = check();
        let word = if found.is_ok() { "good" } else { "FAILED" };
        if let Err(why) = found {
            good = false;
            println!("{why}");
        }
        println!("{name}: {word}, {:.1} s\n", begin.elapsed().as_secs_f64());
    }
    println!("{}", if good { "all good" } else { "not good, see above" });
    verdict(good)
}

pub(crate) type Check = fn() -> Result<(), String>;

const CHECKS: &[(&str, Check)] = &[
    ("format", || ran(cargo(&["fmt", "--all", "--check"]))),
    ("lints", || ran(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("documentation and public surface", api::check),
    ("packages", publishable::check),
    ("nothing for tests in a release", nothing_for_tests),
    ("tidiness", tidiness),
];

/// The site with all of its links checked, the Rust blocks of its pages compiled, and the API documentation.
pub(crate) fn docs() -> ExitCode {
    let site = target().join("site");
    let mut build = cargo(&["run", "--quiet", "--package=site", "--"]);
    build.arg(&site);
    let blocks = cargo(&["check", "--quiet", "--package=examples", "--lib"]);
    let documented = ran(build).and_then(|()| ran(blocks)).and_then(|()| ran(documentation()));
    if documented.is_ok() {
        println!("{}", site.join("index.html").display());
        println!("{}", target().join("doc/tenure/index.html").display());
    }
    done(documented)
}

/// Prints what failed.
pub(crate) fn done(outcome: Result<(), String>) -> ExitCode {
    if let Err(why) = &outcome {
        println!("{why}");
    }
    verdict(outcome.is_ok())
}

/// Cargo's target folder.
pub(crate) fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |set| root().join(set))
}

/// Libraries only: the pages of the binary `tenure` would overwrite those of the library.
pub(crate) fn documentation() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--lib"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

pub(crate) fn ran(command: Command) -> Result<(), String> {
    match run(command, LIMIT, Show::Now, |_| ()) {
        Ended::Well => Ok(()),
        Ended::Badly(why) => Err(why),
    }
}

/// Faults and parsers for tests are behind the feature `testing`, which no build has that does not ask for it.
fn nothing_for_tests() -> Result<(), String> {
    const TESTING: &str = "testing";
    let has_testing = |words: &[&str]| {
        let tree =
            cargo(&["tree", "--offline", "--edges=normal,build", "--format={p} {f}"]).args(words).output();
        let tree = tree.ok().filter(|tree| tree.status.success()).ok_or("cargo tree fails")?;
        let is_it =
            |line: &str| line.contains("tenure") && line.split([' ', ',']).any(|word| word == TESTING);
        Ok::<bool, String>(String::from_utf8_lossy(&tree.stdout).lines().any(is_it))
    };
    for name in ["tenure", "tenure-cli"] {
        if has_testing(&["--package", name])? {
            return Err(format!("{name} is built with the feature {TESTING}"));
        }
    }
    // If this has none, the check looks for the wrong text.
    match has_testing(&["--package=tenure", "--features=testing"])? {
        true => Ok(()),
        false => Err(format!("no feature {TESTING} where it is asked for")),
    }
}

fn tidiness() -> Result<(), String> {
    let mut faults = tidy::faults(&root())?;
    faults.extend(examples::faults(&root())?);
    faults.extend(mutants::faults(&root()));
    faults.extend(shown::faults(&root())?);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_build_that_does_not_ask_has_nothing_for_tests() {
        assert_eq!(super::nothing_for_tests(), Ok(()));
    }
}
