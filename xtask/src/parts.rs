//! The parts of a test run: what is built and run, with which time limit, and what it needs.

use std::process::Command;
use std::time::Duration;

use crate::args::{PEERS, STORES, Wanted};
use crate::binaries::Binary;
use crate::packages::{ALL, CURATOR, KEEPER, NODE_REDLOCK, Need, REDIS, REDIS_PY, REDISSON, REDSYNC};
use crate::{cargo, cores};

/// Crates whose tests all need servers. `--quick` skips them.
const WITH_SERVERS: &[&str] =
    &["bench", "chaos", "interop", "load", "tenure-redis", "tenure-zookeeper", "testbed"];

/// Test modules of other crates that start servers: crate and module. `--quick` skips these, too.
const SERVER_TESTS: &[(&str, &str)] = &[
    ("examples", "config"),
    ("examples", "pages"),
    ("examples", "server"),
    ("tenure", "attribute"),
    ("tenure", "blocking::servers"),
    ("tenure", "config"),
    ("tenure", "inherited"),
    ("tenure", "multi"),
    ("tenure", "redlock"),
    ("tenure-cli", "connect"),
    ("tenure-cli", "nested"),
    ("tenure-cli", "redis"),
    ("tenure-cli", "redlock"),
    ("tenure-cli", "resize"),
    ("tenure-cli", "zookeeper"),
];

/// The command that is also a part.
const NEWCOMER: &str = "newcomer";

/// The longest parts, longest first. They are started first, so that none of them runs alone at the end.
const LONGEST: &[&str] = &[
    "conformance",
    "interop",
    NEWCOMER,
    "chaos",
    "tenure-redis it",
    "tenure-zookeeper it",
    "tenure it",
    "load",
];

/// Tests detect hangs themselves; this limit is for the processes that they start.
const LIMIT: Duration = Duration::from_secs(3600);

/// Tests mostly wait for servers and leases.
const TESTS_PER_CORE: usize = 4;

/// One line of the summary.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) step: Step,
}

/// A command with a time limit.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) command: Command,
    pub(crate) limit: Duration,
}

/// The programs that the conformance suite needs for this store; none for embedded stores.
fn needs_of(store: &str) -> &'static [Need] {
    match store {
        _ if store.starts_with("red") => REDIS,
        _ if store.starts_with("zookeeper") => KEEPER,
        _ => &[],
    }
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

/// The programs that the requested tests need.
pub(crate) fn needs(wanted: &Wanted) -> &'static [Need] {
    match (&wanted.backend, &wanted.peer) {
        (Some(store), _) => needs_of(store),
        (_, Some(peer)) => needs_of_peer(peer),
        _ if wanted.quick => &[],
        _ => ALL,
    }
}

/// Builds all test programs of the parts, and reports each in cargo's JSON messages.
pub(crate) fn build(wanted: &Wanted) -> Step {
    let mut command = cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    match (&wanted.backend, &wanted.peer) {
        (Some(_), _) => command.args(["--package=conformance", "--test=matrix"]),
        (_, Some(_)) => command.args(["--package=interop", "--test=it"]),
        _ => command.args(["--workspace", "--tests"]).args(left_out(wanted)),
    };
    Step { command, limit: LIMIT }
}

fn left_out(wanted: &Wanted) -> impl Iterator<Item = String> + use<> {
    let quick = wanted.quick;
    WITH_SERVERS.iter().filter(move |_| quick).map(|name| format!("--exclude={name}"))
}

/// The requested parts, from the programs that were built.
pub(crate) fn parts(wanted: &Wanted, binaries: &[Binary]) -> Vec<Part> {
    let mut parts: Vec<Part> = binaries.iter().map(|binary| part(wanted, binary)).collect();
    if wanted.backend.is_none() && wanted.peer.is_none() {
        // `--doc` would run them in spite of the crate's `doctest = false`.
        let mut command = cargo(&["test", "--doc", "--workspace", "--exclude=tenure-macros"]);
        command.args(left_out(wanted)).arg("--").args(&wanted.filter);
        parts.push(Part { name: "doc".into(), step: Step { command, limit: LIMIT } });
        parts.extend(newcomer(wanted));
    }
    let place = |part: &Part| LONGEST.iter().position(|name| *name == part.name).unwrap_or(LONGEST.len());
    parts.sort_by_key(place);
    parts
}

/// Compiles nothing of the other parts, and waits for nothing: begun early, it uses the time in which they wait.
fn newcomer(wanted: &Wanted) -> Option<Part> {
    let is_wanted =
        wanted.filter.is_empty() || wanted.filter.iter().any(|part| NEWCOMER.contains(part.as_str()));
    if wanted.quick || !is_wanted {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args([NEWCOMER, "--warm"]);
    Some(Part { name: NEWCOMER.into(), step: Step { command, limit: LIMIT } })
}

fn part(wanted: &Wanted, binary: &Binary) -> Part {
    let mut command = binary.command();
    command.args(&wanted.filter).env("RUST_TEST_THREADS", (cores() * TESTS_PER_CORE).to_string());
    let name = match (&*binary.krate, &*binary.target) {
        ("conformance", "matrix") => {
            let embedded = STORES.iter().filter(|store| !wanted.quick || needs_of(store).is_empty());
            let stores: Vec<&str> = match &wanted.backend {
                Some(store) => vec![store],
                None => embedded.copied().collect(),
            };
            command.env("TENURE_STORES", stores.join(","));
            command.env_remove("RUST_TEST_THREADS");
            "conformance".to_owned()
        }
        ("interop", "it") => {
            command.env("TENURE_PEERS", wanted.peer.clone().unwrap_or_else(|| PEERS.join(",")));
            command.env_remove("RUST_TEST_THREADS");
            "interop".to_owned()
        }
        ("chaos" | "load", "it") => binary.krate.clone(),
        (krate, target) => {
            // Only for integration tests: unit tests may have modules with the same names.
            let started =
                SERVER_TESTS.iter().filter(|(of, _)| wanted.quick && target == "it" && *of == krate);
            command.args(started.map(|(_, module)| format!("--skip={module}::")));
            format!("{krate} {target}")
        }
    };
    Part { name, step: Step { command, limit: LIMIT } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;
    use std::path::{Path, PathBuf};

    fn binary(krate: &str, kind: &str, name: &str) -> Binary {
        let line = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/p/{krate}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":true}},"executable":"/p/{name}"}}"#
        );
        Binary::of_line(&line).unwrap()
    }

    fn names(wanted: &Wanted, binaries: &[Binary]) -> Vec<String> {
        parts(wanted, binaries).into_iter().map(|p| p.name).collect()
    }

    fn variable<'a>(part: &'a Part, name: &str) -> Option<&'a str> {
        part.step.command.get_envs().find(|(n, _)| *n == name).and_then(|(_, value)| value?.to_str())
    }

    #[test]
    fn test_binaries_are_run_with_the_longest_first() {
        let built = [
            binary("tenure-core", "lib", "tenure_core"),
            binary("load", "test", "it"),
            binary("chaos", "test", "it"),
            binary("interop", "test", "it"),
            binary("conformance", "test", "matrix"),
        ];
        let all = ["conformance", "interop", "newcomer", "chaos", "load", "tenure-core lib", "doc"];
        assert_eq!(names(&Wanted::default(), &built), all);
        let one = Wanted { backend: Some("redis".into()), ..Wanted::default() };
        assert_eq!(names(&one, &built[4..]), ["conformance"]);
        let peer = Wanted { peer: Some("redsync".into()), ..Wanted::default() };
        assert_eq!(names(&peer, &built[3..4]), ["interop"]);
        assert_eq!(variable(&parts(&one, &built[4..])[0], "TENURE_STORES"), Some("redis"));
        assert_eq!(variable(&parts(&peer, &built[3..4])[0], "TENURE_PEERS"), Some("redsync"));
    }

    #[test]
    fn quick_parts_need_no_package_and_no_server() {
        let quick = Wanted { quick: true, ..Wanted::default() };
        assert!(needs(&quick).is_empty());
        let conformance = &parts(&quick, &[binary("conformance", "test", "matrix")])[0];
        assert_eq!(variable(conformance, "TENURE_STORES"), Some("memory,sqlite"));
        for (krate, module) in SERVER_TESTS {
            let it = &parts(&quick, &[binary(krate, "test", "it")])[0];
            let skipped = format!("--skip={module}::");
            assert!(it.step.command.get_args().any(|word| *word == *skipped), "{it:?}");
        }
    }

    /// Collects the sources of a folder that start a server, as module paths of the test program.
    fn starting_servers(folder: &Path, at: &str, found: &mut Vec<String>) {
        for file in files(folder) {
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let module = if at.is_empty() { stem.to_owned() } else { format!("{at}::{stem}") };
            if file.is_dir() {
                starting_servers(&file, &module, found);
            } else if let Ok(text) = std::fs::read_to_string(&file)
                && SERVERS.iter().any(|server| text.contains(server))
            {
                found.push(module.trim_end_matches("::mod").to_owned());
            }
        }
    }

    const SERVERS: &[&str] =
        &["Redis::start", "Sentinels::start", "Cluster::start", "ZooKeeper::start", "Ensemble::start"];

    #[test]
    fn every_test_that_starts_a_server_is_known() {
        for krate in ["crates", "tests"].iter().flat_map(|folder| files(&root().join(folder))) {
            let name = krate.file_name().unwrap().to_str().unwrap();
            let mut found = Vec::new();
            starting_servers(&krate.join("tests/it"), "", &mut found);
            for module in found.iter().filter(|_| !WITH_SERVERS.contains(&name)) {
                let known = |listed: &str| *module == listed || module.starts_with(&format!("{listed}::"));
                assert!(
                    SERVER_TESTS.iter().any(|(krate, listed)| *krate == name && known(listed)),
                    "{name}: {module}"
                );
            }
        }
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path()).collect()
    }

    #[test]
    fn no_store_of_the_suite_is_left_out() {
        let source = std::fs::read_to_string(root().join("tests/conformance/src/stores.rs")).unwrap();
        let list =
            source.split_once("pub const NAMES").and_then(|(_, rest)| rest.split_once("];")).unwrap().0;
        let named: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(named, STORES);
    }
}
