//! The parts of a test run: what is built and run, for how long at most, and what it needs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::args::{STORES, Wanted};
use crate::packages::{FLOCK, Need};
use crate::{cargo, root};

/// One line of the summary.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) needs: &'static [Need],
    pub(crate) steps: Vec<Step>,
}

/// One command.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) command: Command,
    pub(crate) limit: Duration,
    pub(crate) counts: Count,
}

/// What a step adds to the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Count {
    /// Nothing: it only must end well.
    None,
    /// What the tests in it say.
    Tests,
    /// One.
    One,
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// All that was asked for. `bin` is where the programs of the workspace are built to.
pub(crate) fn parts(wanted: &Wanted, bin: &Path) -> Vec<Part> {
    let filter = &wanted.filter;
    let stores = STORES.iter().filter(|s| wanted.backend.as_ref().is_none_or(|b| b == *s));
    let conformance = stores.map(|store| conformance(store, filter));
    if wanted.backend.is_some() {
        return [build(false)].into_iter().chain(conformance).collect();
    }
    let mut parts = vec![build(true), unit(filter), doc(filter)];
    // A filter names tests, and these have no names.
    let all = filter.is_empty();
    if all {
        parts.push(examples(bin));
    }
    parts.extend(conformance);
    if all && !wanted.quick {
        parts.push(bench(bin));
    }
    parts
}

fn part(name: &str, steps: Vec<Step>) -> Part {
    Part { name: name.to_owned(), needs: &[], steps }
}

/// Builds what the other parts run, so that their seconds are theirs. Always for the whole workspace: with fewer
/// crates the features of dependencies would differ, and all would be built twice.
fn build(all: bool) -> Part {
    let limit = seconds(3600);
    let tests = if all { "--tests" } else { "--test=matrix" };
    let step = |words: &[&str]| Step { command: cargo(words), limit, counts: Count::None };
    let mut steps = vec![step(&["test", "--workspace", "--no-run", tests])];
    if all {
        steps.push(step(&["build", "--workspace", "--bins", "--examples"]));
    }
    part("build", steps)
}

fn tests(words: &[&str], filter: &[String], limit: Duration) -> Step {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.args(words).arg("--").args(filter);
    Step { command, limit, counts: Count::Tests }
}

fn unit(filter: &[String]) -> Part {
    let mut words = vec!["--lib".to_owned(), "--bins".to_owned()];
    words.extend(integration_tests(&root()).iter().map(|name| format!("--test={name}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    part("unit", vec![tests(&words, filter, seconds(900))])
}

/// All of `crates/*/tests`, except the conformance suite, which has parts of its own.
fn integration_tests(root: &Path) -> Vec<String> {
    let files = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path()).collect::<Vec<_>>()
    };
    let mut names = Vec::new();
    for file in files(root.join("crates")).into_iter().flat_map(|krate| files(krate.join("tests"))) {
        let is_test = file.extension().is_some_and(|e| e == "rs") || file.join("main.rs").is_file();
        if let Some(name) = file.file_stem().filter(|name| is_test && *name != "matrix") {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

fn doc(filter: &[String]) -> Part {
    part("doc", vec![tests(&["--doc"], filter, seconds(900))])
}

/// Each on the memory store, which needs nothing.
fn examples(bin: &Path) -> Part {
    let step = |name: &String| {
        let mut command = Command::new(bin.join("examples").join(name));
        command.arg("memory:").current_dir(root());
        Step { command, limit: seconds(20), counts: Count::One }
    };
    part("examples", example_names(&root()).iter().map(step).collect())
}

fn example_names(root: &Path) -> Vec<String> {
    let files = std::fs::read_dir(root.join("examples")).into_iter().flatten().flatten();
    let names = files.filter_map(|f| f.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn conformance(store: &str, filter: &[String]) -> Part {
    let mut step = tests(&["--test=matrix"], filter, seconds(1200));
    step.command.env("TENURE_STORES", store);
    part(&format!("conformance {store}"), vec![step])
}

/// Not optimised, and so without meaning as a measurement: it shows that the benchmarks work.
fn bench(bin: &Path) -> Part {
    let mut command = Command::new(bin.join("bench"));
    command.arg("--quick").current_dir(root());
    Part { needs: &[FLOCK], ..part("bench", vec![Step { command, limit: seconds(180), counts: Count::One }]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &Wanted) -> Vec<String> {
        parts(wanted, Path::new("bin")).into_iter().map(|p| p.name).collect()
    }

    #[test]
    fn what_is_asked_for_is_run() {
        let all = ["build", "unit", "doc", "examples", "conformance memory", "conformance sqlite", "bench"];
        assert_eq!(names(&Wanted::default()), all);
        assert_eq!(names(&Wanted { quick: true, ..Wanted::default() }), all[..6]);
        let backend = Some("memory".to_owned());
        assert_eq!(names(&Wanted { backend, ..Wanted::default() }), ["build", "conformance memory"]);
        let filter = vec!["fair".to_owned()];
        let filtered = ["build", "unit", "doc", "conformance memory", "conformance sqlite"];
        assert_eq!(names(&Wanted { filter, ..Wanted::default() }), filtered);
    }

    #[test]
    fn only_the_benchmarks_need_a_package() {
        for part in parts(&Wanted::default(), Path::new("bin")) {
            assert_eq!(!part.needs.is_empty(), part.name == "bench");
        }
    }

    #[test]
    fn no_store_of_the_suite_is_left_out() {
        let source = std::fs::read_to_string(root().join("crates/conformance/src/stores.rs")).unwrap();
        let mut lines = source.lines();
        let mut named = Vec::new();
        while lines.any(|line| line.contains("fn name(&self) -> &'static str {")) {
            named.extend(lines.next().map(|line| line.trim().trim_matches('"').to_owned()));
        }
        assert_eq!(named, STORES);
    }

    #[test]
    fn the_suite_over_all_stores_is_no_unit_test() {
        assert!(!integration_tests(&root()).contains(&"matrix".to_owned()));
        assert!(example_names(&root()).contains(&"lock".to_owned()));
    }
}
