//! The parts of a test run: what is built and run, for how long at most, and what it needs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::args::{PEERS, STORES, Wanted};
use crate::packages::{BENCH, CURATOR, KEEPER, NODE_REDLOCK, Need, REDIS, REDIS_PY, REDISSON, REDSYNC, UNIT};
use crate::{cargo, examples, root};

/// The crates whose own tests start servers: all that use the testbed, and the testbed. `--quick` leaves them out.
const WITH_SERVERS: &[&str] = &["interop", "tenure-macros", "tenure-redis", "tenure-zookeeper", "testbed"];

/// Tests of other crates that do: crate and file. `--quick` leaves these out, too.
const SERVER_TESTS: &[(&str, &str)] = &[
    ("tenure-cli", "redis"),
    ("tenure-cli", "zookeeper"),
    ("tenure", "config"),
    ("tenure", "redlock"),
    ("tenure", "multi"),
];

/// One line of the summary.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) needs: &'static [Need],
    /// Whether no other runs at the same time.
    pub(crate) alone: bool,
    pub(crate) steps: Vec<Step>,
}

/// One command.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) command: Command,
    pub(crate) limit: Duration,
    pub(crate) counts: Count,
    /// Lines that it must print, where `…` stands for anything.
    pub(crate) prints: Vec<String>,
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

/// What the conformance suite needs for this store. Nothing means that it is embedded.
fn needs_of(store: &str) -> &'static [Need] {
    match store {
        _ if store.starts_with("red") => REDIS,
        _ if store.starts_with("zookeeper") => KEEPER,
        _ => &[],
    }
}

/// All that was asked for. `bin` is where the programs of the workspace are built to.
pub(crate) fn parts(wanted: &Wanted, bin: &Path) -> Vec<Part> {
    let filter = &wanted.filter;
    let quick = wanted.quick;
    if let Some(peer) = &wanted.peer {
        return vec![build(&[&format!("--test={peer}")], quick), interop(peer, filter)];
    }
    let stores = STORES.iter().filter(|s| match &wanted.backend {
        Some(backend) => backend == *s,
        None => !quick || needs_of(s).is_empty(),
    });
    let conformance = stores.map(|store| conformance(store, quick, filter));
    if wanted.backend.is_some() {
        return [build(&["--test=matrix"], quick)].into_iter().chain(conformance).collect();
    }
    let mut parts = vec![build(&[], quick), unit(quick, filter), doc(quick, filter)];
    // A filter names tests, and these have no names.
    let all = filter.is_empty();
    if all {
        parts.push(examples::part(bin, quick));
    }
    parts.extend(conformance);
    if !quick {
        parts.extend(PEERS.iter().map(|peer| interop(peer, filter)));
    }
    if all && !quick {
        parts.push(bench(bin));
    }
    parts
}

/// The crates that a step is about. The same for all steps of a run: with others the features of dependencies would
/// differ, and all would be built twice.
fn crates(quick: bool) -> Vec<String> {
    let left_out = WITH_SERVERS.iter().filter(|_| quick).map(|name| format!("--exclude={name}"));
    std::iter::once("--workspace".to_owned()).chain(left_out).collect()
}

fn part(name: &str, steps: Vec<Step>) -> Part {
    Part { name: name.to_owned(), needs: &[], alone: false, steps }
}

/// Builds what the other parts run, so that their seconds are theirs: `only` these tests, or everything.
fn build(only: &[&str], quick: bool) -> Part {
    let limit = seconds(3600);
    let step = |verb: &str, words: &[&str]| {
        let mut command = cargo(&[verb]);
        command.args(crates(quick)).args(words);
        Step { command, limit, counts: Count::None, prints: Vec::new() }
    };
    let steps = match only {
        [] => vec![step("test", &["--no-run", "--tests"]), step("build", &["--bins", "--examples"])],
        _ => vec![step("test", &[&["--no-run"], only].concat())],
    };
    Part { alone: true, ..part("build", steps) }
}

fn tests(words: &[&str], quick: bool, filter: &[String], limit: Duration) -> Step {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(crates(quick)).args(words).arg("--").args(filter);
    Step { command, limit, counts: Count::Tests, prints: Vec::new() }
}

fn unit(quick: bool, filter: &[String]) -> Part {
    let mut words = vec!["--lib".to_owned(), "--bins".to_owned()];
    words.extend(integration_tests(&root(), quick).iter().map(|name| format!("--test={name}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let needs = if quick { &[] } else { UNIT };
    Part { needs, ..part("unit", vec![tests(&words, quick, filter, seconds(900))]) }
}

/// All of `crates/*/tests`, except the conformance suite and those about peers, which have parts of their own.
fn integration_tests(root: &Path, quick: bool) -> Vec<String> {
    let mut names = Vec::new();
    let crates = files(&root.join("crates"));
    let apart = |name: &std::ffi::OsStr| name == "matrix" || PEERS.iter().any(|peer| name == *peer);
    let starts_servers = |file: &PathBuf| {
        WITH_SERVERS.iter().any(|krate| file.ancestors().any(|at| at.ends_with(krate)))
            || SERVER_TESTS.iter().any(|(krate, test)| file.ends_with(format!("{krate}/tests/{test}.rs")))
    };
    let all = crates.iter().flat_map(|krate| files(&krate.join("tests")));
    for file in all.filter(|file| !quick || !starts_servers(file)) {
        let is_test = file.extension().is_some_and(|e| e == "rs") || file.join("main.rs").is_file();
        if let Some(name) = file.file_stem().filter(|name| is_test && !apart(name)) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|e| e.path()).collect()
}

fn doc(quick: bool, filter: &[String]) -> Part {
    part("doc", vec![tests(&["--doc"], quick, filter, seconds(900))])
}

fn conformance(store: &str, quick: bool, filter: &[String]) -> Part {
    let mut step = tests(&["--test=matrix"], quick, filter, seconds(1200));
    step.command.env("TENURE_STORES", store);
    Part { needs: needs_of(store), ..part(&format!("conformance {store}"), vec![step]) }
}

fn interop(peer: &str, filter: &[String]) -> Part {
    let step = tests(&[&format!("--test={peer}")], false, filter, seconds(1200));
    Part { needs: needs_of_peer(peer), ..part(&format!("interop {peer}"), vec![step]) }
}

fn needs_of_peer(peer: &str) -> &'static [Need] {
    match peer {
        "redsync" => REDSYNC,
        "node-redlock" => NODE_REDLOCK,
        "redis-py" => REDIS_PY,
        "curator" => CURATOR,
        _ => REDISSON,
    }
}

/// Not optimised, and so without meaning as a measurement: it shows that the benchmarks work.
fn bench(bin: &Path) -> Part {
    let mut command = Command::new(bin.join("bench"));
    command.arg("--quick").current_dir(root());
    Part {
        needs: BENCH,
        alone: true,
        ..part("bench", vec![Step { command, limit: seconds(300), counts: Count::One, prints: Vec::new() }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &Wanted) -> Vec<String> {
        parts(wanted, Path::new("bin")).into_iter().map(|p| p.name).collect()
    }

    #[test]
    fn what_is_asked_for_is_run() {
        let stores: Vec<_> = STORES.iter().map(|store| format!("conformance {store}")).collect();
        let quick = ["build", "unit", "doc", "examples", "conformance memory", "conformance sqlite"];
        assert_eq!(names(&Wanted { quick: true, ..Wanted::default() }), quick);
        let all = [&["build", "unit", "doc", "examples"].map(String::from)[..], &stores].concat();
        let peers: Vec<_> = PEERS.iter().map(|peer| format!("interop {peer}")).collect();
        let all = [&all[..], &peers, &["bench".to_owned()]].concat();
        assert_eq!(names(&Wanted::default()), all);
        let filter = vec!["fair".to_owned()];
        let unnamed = |name: &String| name == "examples" || name == "bench";
        let filtered: Vec<_> = all.into_iter().filter(|name| !unnamed(name)).collect();
        assert_eq!(names(&Wanted { filter, ..Wanted::default() }), filtered);
        let backend = Some("redis".to_owned());
        assert_eq!(names(&Wanted { backend, ..Wanted::default() }), ["build", "conformance redis"]);
        let peer = Some("redisson".to_owned());
        assert_eq!(names(&Wanted { peer, ..Wanted::default() }), ["build", "interop redisson"]);
    }

    #[test]
    fn what_is_quick_needs_no_package() {
        let quick = Wanted { quick: true, ..Wanted::default() };
        assert!(parts(&quick, Path::new("bin")).iter().all(|part| part.needs.is_empty()));
        let all = parts(&Wanted::default(), Path::new("bin"));
        let served = |name: &str| name == "unit" || name.contains("redis") || name.starts_with("interop");
        for served in all.iter().filter(|part| served(&part.name)) {
            let needs = if served.name == "interop curator" { CURATOR } else { REDIS };
            assert!(needs.iter().all(|need| served.needs.contains(need)), "{served:?}");
        }
    }

    #[test]
    fn who_uses_the_testbed_is_not_quick() {
        for krate in files(&root().join("crates")) {
            let name = krate.file_name().unwrap().to_str().unwrap();
            let manifest = std::fs::read_to_string(krate.join("Cargo.toml")).unwrap();
            let uses = name == "testbed" || manifest.lines().any(|line| line.starts_with("testbed"));
            // Only some of its tests.
            if SERVER_TESTS.iter().any(|(krate, _)| *krate == name) {
                for test in files(&krate.join("tests")).iter().filter(|file| file.is_file()) {
                    let stem = test.file_stem().unwrap().to_str().unwrap();
                    let uses = std::fs::read_to_string(test).unwrap().contains("testbed::");
                    assert_eq!(uses, SERVER_TESTS.contains(&(name, stem)), "{}", test.display());
                }
                continue;
            }
            // Of these, what starts servers has parts of its own.
            if uses && !["conformance", "bench"].contains(&name) {
                assert!(WITH_SERVERS.contains(&name), "{name}");
            }
        }
        let tests = |quick| integration_tests(&root(), quick);
        assert!(tests(false).contains(&"proxy".to_owned()) && !tests(true).contains(&"proxy".to_owned()));
        assert!(tests(true).contains(&"leases".to_owned()));
        assert!(tests(false).contains(&"redis".to_owned()) && !tests(true).contains(&"redis".to_owned()));
    }

    #[test]
    fn no_store_of_the_suite_is_left_out() {
        let source = std::fs::read_to_string(root().join("crates/conformance/src/stores.rs")).unwrap();
        let list =
            source.split_once("pub const NAMES").and_then(|(_, rest)| rest.split_once("];")).unwrap().0;
        let named: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(named, STORES);
    }

    #[test]
    fn what_has_a_part_of_its_own_is_no_unit_test() {
        let unit = integration_tests(&root(), false);
        assert!(!unit.contains(&"matrix".to_owned()));
        assert!(PEERS.iter().all(|peer| !unit.contains(&(*peer).to_owned())));
        assert!(PEERS.iter().all(|peer| root().join("crates/interop/tests").join(peer).exists()));
    }
}
