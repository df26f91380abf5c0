//! Parses the command line.

/// The stores of the conformance suite, by their names there.
pub(crate) const STORES: &[&str] = &[
    "memory",
    "sqlite",
    "redis",
    "redis-sentinel",
    "redis-cluster",
    "redis-plain",
    "redlock",
    "redlock-3",
    "zookeeper",
    "zookeeper-ensemble",
];

/// Other libraries that share locks. Each has a test in the crate `interop`.
pub(crate) const PEERS: &[&str] = &["redisson", "redsync", "node-redlock", "redis-py", "curator"];

pub(crate) const HELP: &str = "\
cargo xtask check                    format, lints, documentation, public surface, packages, tidiness
cargo xtask api                      writes the public surface of the crates into docs/api
cargo xtask test                     all tests
    --quick                          only crates and stores that need no servers
    --stress                         while other processes keep all cores busy
    --backend STORE                  only the conformance suite on this store
    -- FILTER                        only tests whose name contains FILTER
cargo xtask interop PEER             only the locks shared with PEER: redisson, redsync, node-redlock, redis-py or
                                     curator
    -- FILTER                        only tests whose name contains FILTER
cargo xtask bench                    benchmarks, each beside its peers, which are installed; fails if a bar is missed
    --only W3b,W4                    only these: W1 to W10, embedded, telemetry
    --quick                          one tiny round of each, which fails on errors only
    --json FILE                      writes what was measured into FILE
    --report FILE                    writes docs/benchmarks.md and its plots from such a FILE
cargo xtask outage                   how long each call takes to fail while Redis or ZooKeeper is down: the table of
                                     docs/production.md
cargo xtask chaos                    random work on real stores under faults, drawn from a seed, judged by the history checker
    --store STORE,…                  only these; a deployment each of memory, sqlite, redis, redis-plain, redis-sentinel,
                                     redis-cluster, redlock and zookeeper
    --kinds KIND,…                   only these: lock, fair, rwlock, permits, leader, latch
    --seconds N                      how long each store works; 60
    --seed X                         what everything is drawn from
    --jobs N                         how many stores at a time; 2
    --plant                          with a bug that must be found
    --report                         writes the results so far into docs/reliability.md
cargo xtask load                     thousands of waiters, names and clients, with a bound on what each may cost
    --store STORE,…                  only these: memory, sqlite, redis, zookeeper
    --scenario SCENARIO,…            only these: waiters, fair, names, connects, clients
    --seconds N                      how long clients connect, 200 a second; 60
    --scale PERCENT                  of how many there are; 100
cargo xtask matrix                   conformance and peers on other versions of Redis, Valkey, ZooKeeper, Redisson and
                                     Curator, got from registries; writes the tables of docs/compatibility.md
    --only TEXT,…                    only versions with one of these in their name; with none, it only writes the page
    --list                           says which there are, and runs nothing
cargo xtask mutants                  puts known bugs back, one at a time, and expects a test to fail for each
    --only TEXT,…                    only mutants with one of these in their name, file or test
    --list                           says which there are, and runs nothing
cargo xtask newcomer                 does what README.md tells a newcomer, outside of the workspace, and tells the seconds
                                     from `cargo add` to the first lock
    --warm                           with what earlier runs have built, and without the clock; a part of `test`
cargo xtask release                  all that must hold before the crates are published: packages, each feature alone,
                                     Rust versions, licences; uploads nothing
cargo xtask docs                     the site and the API documentation: builds them, checks links and Rust blocks, says
                                     where they are
cargo xtask queries                  runs every query of docs/metrics.md on a Prometheus that scrapes two processes, and
                                     tests the alert rules; installs Prometheus
    --write                          only writes the rules and the dashboard into docs/monitoring, from that page
cargo xtask screenshots              takes the pictures of `tenure top` into docs/images, from a real screen
cargo xtask help                     this

Exit codes: 0 good, 1 something failed, 2 wrong usage, 3 a package is missing and cannot be installed.
";

#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Check,
    Test(Wanted),
    Bench(Vec<String>),
    Outage,
    Chaos(Vec<String>),
    Load(Vec<String>),
    Matrix { only: Option<String>, list: bool },
    Mutants { only: Option<String>, list: bool },
    Api,
    Docs,
    Queries { write: bool },
    Screenshots,
    Newcomer { warm: bool },
    Release,
    Help,
}

/// Which tests to run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) quick: bool,
    pub(crate) stress: bool,
    pub(crate) backend: Option<String>,
    pub(crate) peer: Option<String>,
    /// Passed to the test programs unchanged.
    pub(crate) filter: Vec<String>,
}

impl Wanted {
    /// Whether other libraries take part.
    pub(crate) fn has_peers(&self) -> bool {
        self.backend.is_none() && !self.quick
    }
}

pub(crate) fn parse(words: &[String]) -> Result<Task, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["help" | "--help" | "-h", ..] | [_, "--help" | "-h", ..] => Ok(Task::Help),
        ["check"] => Ok(Task::Check),
        ["api"] => Ok(Task::Api),
        ["docs"] => Ok(Task::Docs),
        ["queries"] => Ok(Task::Queries { write: false }),
        ["queries", "--write"] => Ok(Task::Queries { write: true }),
        ["screenshots"] => Ok(Task::Screenshots),
        ["newcomer"] => Ok(Task::Newcomer { warm: false }),
        ["newcomer", "--warm"] => Ok(Task::Newcomer { warm: true }),
        ["release"] => Ok(Task::Release),
        ["outage"] => Ok(Task::Outage),
        [
            "check" | "api" | "docs" | "queries" | "screenshots" | "newcomer" | "release" | "outage",
            extra,
            ..,
        ] => Err(format!("`{}` takes no `{extra}`", words[0])),
        ["test", ref rest @ ..] => test(rest).map(Task::Test),
        ["interop", ref rest @ ..] => interop(rest).map(Task::Test),
        // Their programs know their words, and report a wrong one before anything is started.
        ["bench", ref rest @ ..] => Ok(Task::Bench(rest.iter().map(ToString::to_string).collect())),
        ["chaos", ref rest @ ..] => Ok(Task::Chaos(rest.iter().map(ToString::to_string).collect())),
        ["load", ref rest @ ..] => Ok(Task::Load(rest.iter().map(ToString::to_string).collect())),
        ["mutants", ref rest @ ..] => some("mutants", rest).map(|(only, list)| Task::Mutants { only, list }),
        ["matrix", ref rest @ ..] => some("matrix", rest).map(|(only, list)| Task::Matrix { only, list }),
        [other, ..] => Err(format!("there is no command `{other}`")),
    }
}

fn test(words: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value))) {
            ("--quick", None) => wanted.quick = true,
            ("--stress", None) => wanted.stress = true,
            ("--backend", value) => {
                let store = value.or_else(|| words.next().copied());
                wanted.backend = Some(known(store, STORES, "--backend")?);
            }
            ("--", None) => wanted.filter.extend(words.by_ref().map(ToString::to_string)),
            _ => return Err(format!("`test` takes no `{word}`; a filter comes after `--`")),
        }
    }
    Ok(wanted)
}

fn interop(words: &[&str]) -> Result<Wanted, String> {
    let peer = Some(known(words.first().copied(), PEERS, "interop")?);
    match words[1..] {
        [] => Ok(Wanted { peer, ..Wanted::default() }),
        ["--", ref filter @ ..] => {
            let filter = filter.iter().map(ToString::to_string).collect();
            Ok(Wanted { peer, filter, ..Wanted::default() })
        }
        [extra, ..] => Err(format!("`interop` takes no `{extra}`; a filter comes after `--`")),
    }
}

/// Parses the options of a command that works on some of a list.
fn some(command: &str, words: &[&str]) -> Result<(Option<String>, bool), String> {
    let (mut only, mut list) = (None, false);
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value))) {
            ("--list", None) => list = true,
            ("--only", value) => {
                let name = value.or_else(|| words.next().copied());
                only = Some(name.ok_or("--only needs a part of a name")?.to_owned());
            }
            _ => return Err(format!("`{command}` takes no `{word}`")),
        }
    }
    Ok((only, list))
}

fn known(value: Option<&str>, all: &[&str], option: &str) -> Result<String, String> {
    let all_of_them = all.join(", ");
    match value {
        Some(value) if all.contains(&value) => Ok(value.to_owned()),
        Some(value) => Err(format!("{option} knows no `{value}`, only {all_of_them}")),
        None => Err(format!("{option} needs one of {all_of_them}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands() {
        assert_eq!(parsed(""), Ok(Task::Help));
        assert_eq!(parsed("test --help"), Ok(Task::Help));
        assert_eq!(parsed("check"), Ok(Task::Check));
        assert_eq!(parsed("api"), Ok(Task::Api));
        assert_eq!(parsed("screenshots"), Ok(Task::Screenshots));
        assert_eq!(parsed("queries --write"), Ok(Task::Queries { write: true }));
        assert_eq!(parsed("newcomer --warm"), Ok(Task::Newcomer { warm: true }));
        assert_eq!(parsed("test"), Ok(Task::Test(Wanted::default())));
        let words = ["--only", "embedded", "--quick"].map(String::from).into();
        assert_eq!(parsed("bench --only embedded --quick"), Ok(Task::Bench(words)));
        assert_eq!(parsed("outage"), Ok(Task::Outage));
        let words = ["--store", "redis", "--seed", "7"].map(String::from).into();
        assert_eq!(parsed("chaos --store redis --seed 7"), Ok(Task::Chaos(words)));
        let words = ["--store", "redis", "--scale", "2"].map(String::from).into();
        assert_eq!(parsed("load --store redis --scale 2"), Ok(Task::Load(words)));
        assert_eq!(parsed("mutants"), Ok(Task::Mutants { only: None, list: false }));
        assert_eq!(parsed("matrix --list"), Ok(Task::Matrix { only: None, list: true }));
        let one = Task::Mutants { only: Some("fence".into()), list: true };
        assert_eq!(parsed("mutants --only fence --list"), Ok(one));
    }

    #[test]
    fn tests_are_picked() {
        let wanted = Wanted {
            quick: true,
            backend: Some("memory".into()),
            filter: vec!["fair".into(), "--exact".into()],
            ..Wanted::default()
        };
        assert_eq!(parsed("test --quick --backend memory -- fair --exact"), Ok(Task::Test(wanted)));
        let wanted = Wanted { backend: Some("sqlite".into()), ..Wanted::default() };
        assert_eq!(parsed("test --backend=sqlite"), Ok(Task::Test(wanted)));
        let peer = Some("redisson".into());
        let wanted = Wanted { peer, filter: vec!["fair".into()], ..Wanted::default() };
        assert_eq!(parsed("interop redisson -- fair"), Ok(Task::Test(wanted)));
        for peer in PEERS {
            let wanted = Wanted { peer: Some((*peer).into()), ..Wanted::default() };
            assert_eq!(parsed(&format!("interop {peer}")), Ok(Task::Test(wanted)));
            assert!(HELP.contains(peer), "{peer}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, says) in [
            ("tset", "no command `tset`"),
            ("check --fast", "takes no `--fast`"),
            ("newcomer --cold", "takes no `--cold`"),
            ("test --fast", "takes no `--fast`"),
            ("test fair", "after `--`"),
            ("test --quick=yes", "takes no `--quick=yes`"),
            ("test --backend", "needs one of memory"),
            ("test --backend mysql", "knows no `mysql`"),
            ("interop", "needs one of redisson"),
            ("interop jedis", "knows no `jedis`"),
            ("interop redisson fair", "after `--`"),
            ("mutants fence", "takes no `fence`"),
            ("mutants --only", "needs a part of a name"),
        ] {
            let wrong = parsed(line).unwrap_err();
            assert!(wrong.contains(says), "{line}: {wrong}");
        }
    }
}
