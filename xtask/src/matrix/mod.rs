//! `cargo xtask matrix`: the conformance suite and the peers on other versions of servers and libraries than the tests
//! use every day. Each version's result is kept in cargo's target folder; the page has all that are kept.

mod fetch;
mod page;
mod result;
mod rows;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::binaries::Binary;
use crate::check::{done, target};
use crate::packages;
use crate::run::{Ended, Show, run};
use crate::summary::Counts;
use crate::{FAILED, MISSING, cargo, verdict};
use fetch::{Version, fetch};
use result::{Part, Result as Outcome};
use rows::{From, ROWS, Row, What};

const LIMIT: Duration = Duration::from_secs(3600);

pub(crate) fn matrix(only: Option<&str>, list: bool) -> ExitCode {
    let wanted = |row: &&Row| only.is_none_or(|only| only.split(',').any(|part| row.name.contains(part)));
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    if list {
        rows.iter().for_each(|row| println!("{:<16} {}", row.name, row.from));
        return ExitCode::SUCCESS;
    }
    if rows.is_empty() {
        return done(page::write(&folder()));
    }
    if let Err(why) = packages::provide(packages::ALL) {
        eprintln!("{why}");
        return MISSING.into();
    }
    let binaries = match build() {
        Ok(binaries) => binaries,
        Err(why) => {
            eprintln!("{why}");
            return FAILED.into();
        }
    };
    let mut good = true;
    for row in rows {
        println!("=== {}", row.name);
        match test(row, &binaries) {
            Ok(outcome) => {
                println!("{outcome}");
                good &= outcome.unexplained(row.name).is_empty();
            }
            Err(why) => {
                println!("{why}");
                good = false;
            }
        }
    }
    if let Err(why) = page::write(&folder()) {
        println!("{why}");
        good = false;
    }
    verdict(good)
}

fn folder() -> PathBuf {
    target().join("matrix")
}

fn build() -> Result<Vec<Binary>, String> {
    let mut binaries = Vec::new();
    for words in [["--package=conformance", "--test=matrix"], ["--package=interop", "--test=it"]] {
        let mut command = cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
        command.args(words);
        let found = Arc::new(Mutex::new(Vec::new()));
        let to = found.clone();
        let ended =
            run(command, LIMIT, Show::Never, move |line| to.lock().unwrap().extend(Binary::of_line(line)));
        if let Ended::Badly(why) = ended {
            return Err(why);
        }
        binaries.append(&mut found.lock().unwrap());
    }
    Ok(binaries)
}

/// Gets a version, and runs all of its tests.
fn test(row: &Row, binaries: &[Binary]) -> Result<Outcome, String> {
    let version = fetch(row, &folder().join(row.name))?;
    let mut parts = Vec::new();
    for binary in binaries {
        let mut command = binary.command();
        let name = match &*binary.krate {
            "conformance" if row.stores().is_empty() => continue,
            "conformance" => {
                // What happens on the way to a server does not depend on its version.
                command.args(["--skip", "+faults"]).env("TENURE_STORES", row.stores());
                "conformance"
            }
            _ => {
                command.args(row.left_out().into_iter().flat_map(|text| ["--skip", text]));
                command.env("TENURE_PEERS", row.peers());
                "interop"
            }
        };
        command.envs(version.variables.iter().map(|(name, value)| (name, value)));
        parts.push(part(name, command));
    }
    let outcome = Outcome { name: row.name.to_owned(), version: named(row, &version)?, parts };
    outcome.keep(&folder())?;
    Ok(outcome)
}

fn part(name: &str, command: Command) -> Part {
    let begun = Instant::now();
    let said = Arc::new(Mutex::new((Counts::default(), Vec::new())));
    let to = said.clone();
    let ended = run(command, LIMIT, Show::Later, move |line| {
        let (counts, failed) = &mut *to.lock().unwrap();
        if let Some(more) = Counts::of_line(line) {
            *counts += more;
        }
        let result = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix("FAILED"));
        failed.extend(result.and_then(|rest| rest.split_whitespace().next()).map(str::to_owned));
        // The full text of a failure is for whoever looks at this run.
        if !line.starts_with("test ") && !line.is_empty() {
            println!("    {line}");
        }
    });
    let (counts, mut failed) = std::mem::take(&mut *said.lock().unwrap());
    if let Ended::Badly(why) = ended
        && failed.is_empty()
    {
        failed.push(format!("{name}: {why}"));
    }
    failed.sort();
    Part { name: name.to_owned(), counts, failed, seconds: begun.elapsed().as_secs() }
}

/// The name and version of what was tested, as it says itself.
fn named(row: &Row, version: &Version) -> Result<String, String> {
    let of =
        |name: &str| version.variables.iter().find(|(other, _)| *other == name).map(|(_, value)| &**value);
    match row.what {
        What::Redis => {
            let path =
                of("PATH").map(str::to_owned).unwrap_or_else(|| std::env::var("PATH").unwrap_or_default());
            // Looked for in that path, not in this process's.
            let said =
                fetch::said(Command::new("sh").args(["-c", "redis-server --version"]).env("PATH", path))?;
            let number = said.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
            let is_valkey = said.contains("alkey") || row.name.starts_with("valkey");
            Ok(format!("{} {number}", if is_valkey { "Valkey" } else { "Redis" }))
        }
        What::ZooKeeper => Ok(match row.from {
            From::Maven(version) => format!("ZooKeeper {version}"),
            _ => {
                let said =
                    fetch::said(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "zookeeper"]))?;
                format!("ZooKeeper {}", said.split('-').next().unwrap_or_default())
            }
        }),
        What::Redisson => Ok(format!("Redisson {}", library(row, "redisson.xml"))),
        What::Curator => Ok(format!("Curator {}", library(row, "curator.xml"))),
    }
}

/// The version of a library: that of the row, or the one in its project file.
fn library(row: &Row, project: &str) -> String {
    if let From::Maven(version) = row.from {
        return version.to_owned();
    }
    let text =
        std::fs::read_to_string(crate::root().join("tests/interop/java").join(project)).unwrap_or_default();
    let (_, rest) = text.split_once("<peer.version>").unwrap_or_default();
    rest.split_once('<').map(|(version, _)| version.to_owned()).unwrap_or_default()
}
