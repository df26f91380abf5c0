//! `cargo xtask newcomer`: does what a stranger does in an empty folder: a new project, the commands and the program of
//! the README as they stand, a Redis server. Tells the time from `cargo add` to the first lock.

mod readme;
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::check::{self, target};
use crate::packages::{self, NEWCOMER};
use crate::run::{Ended, Show, run};
use crate::scratch::Scratch;
use crate::{MISSING, root};
use readme::Lines;
use server::Server;

const LIMIT: Duration = Duration::from_secs(1800);

/// The features of stores; connecting to one that the README does not add is an error that names it.
const STORES: [(&str, &str); 3] =
    [("redis", "redis://127.0.0.1"), ("sqlite", "sqlite:locks.db"), ("zookeeper", "zookeeper://127.0.0.1")];

/// `warm`: with what earlier runs have built, and without the clock.
pub(crate) fn newcomer(warm: bool) -> ExitCode {
    if let Err(why) = packages::provide(NEWCOMER) {
        eprintln!("{why}");
        return MISSING.into();
    }
    let outcome = first_hour(warm);
    if warm {
        let (word, passed) = if outcome.is_ok() { ("ok", 1) } else { ("FAILED", 0) };
        println!("test result: {word}. {passed} passed; {} failed; 0 ignored", 1 - passed);
    }
    check::done(outcome)
}

fn first_hour(warm: bool) -> Result<(), String> {
    let readme = std::fs::read_to_string(root().join("README.md")).map_err(|e| format!("README.md: {e}"))?;
    let lines = Lines::of(&readme)?;
    let folder = Scratch::new("newcomer")?;
    let server = Server::start(folder.path())?;
    let watched = server.watch(&lines.lock)?;
    let project = Project { folder: folder.path().join("first-lock"), warm };
    project.create()?;

    let begin = Instant::now();
    for words in &lines.adds {
        project.add(words)?;
    }
    let source = project.folder.join("src");
    write(&source.join("main.rs"), &lines.program)?;
    let (program, compiled) = project.build("first-lock")?;
    let built = begin.elapsed();
    let ended = run(server.beside(&program), LIMIT, Show::Now, |_| ());
    if let Ended::Badly(why) = ended {
        return Err(format!("the program of the README: {why}"));
    }
    let Ok(locked) = watched.recv_timeout(Duration::from_secs(30)) else {
        return Err(format!("the program of the README did not lock {:?} on the server", lines.lock));
    };
    if !warm {
        println!(
            "first lock {:.1} s after `cargo add`; {compiled} crates were compiled, in {:.1} s",
            (locked - begin).as_secs_f64(),
            built.as_secs_f64()
        );
    }

    let forgotten: Vec<_> = STORES.into_iter().filter(|(feature, _)| !lines.has_feature(feature)).collect();
    std::fs::create_dir_all(source.join("bin")).map_err(|e| e.to_string())?;
    write(&source.join("bin/forgotten.rs"), &connecting(&forgotten))?;
    let (program, _) = project.build("forgotten")?;
    let said = Command::new(program).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    for (feature, address) in forgotten {
        let advice = format!("cargo add tenure --features {feature}");
        if !said.lines().any(|line| line.ends_with(&advice)) {
            return Err(format!(
                "connecting to {address} without the feature {feature} does not say so:\n{said}"
            ));
        }
    }
    Ok(())
}

/// A program that prints why it cannot connect.
fn connecting(stores: &[(&str, &str)]) -> String {
    let addresses: Vec<&str> = stores.iter().map(|(_, address)| *address).collect();
    format!(
        "fn main() {{
            for address in {addresses:?} {{
                println!(\"{{}}\", tenure::blocking::connect(address).unwrap_err());
            }}
        }}"
    )
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// The stranger's project.
struct Project {
    folder: PathBuf,
    warm: bool,
}

impl Project {
    fn create(&self) -> Result<(), String> {
        let mut new = self.cargo(&["new", "--quiet", "--vcs=none"]);
        ran(new.arg(&self.folder))?;
        if self.warm {
            // The versions that the other tests were built with: they are on this machine.
            let lock = std::fs::copy(root().join("Cargo.lock"), self.folder.join("Cargo.lock"));
            lock.map_err(|e| format!("Cargo.lock: {e}"))?;
        }
        Ok(())
    }

    /// Runs a `cargo add` of the README. Tenure itself comes from this workspace.
    fn add(&self, words: &[String]) -> Result<(), String> {
        let mut add = self.cargo(&["add", "--quiet"]);
        add.args(words).current_dir(&self.folder);
        if words.iter().any(|word| word == "tenure") {
            add.arg("--path").arg(root().join("crates/tenure"));
        }
        if self.warm {
            add.arg("--offline");
        }
        ran(&mut add)
    }

    /// Builds a program. Returns it and the number of crates that were compiled.
    fn build(&self, name: &str) -> Result<(PathBuf, u32), String> {
        let mut build = self.cargo(&["build", "--bin", name]);
        build.current_dir(&self.folder);
        if self.warm {
            build.arg("--offline");
        }
        let compiled = Arc::new(AtomicU32::new(0));
        let count = compiled.clone();
        let ended = run(build, LIMIT, Show::Later, move |line| {
            println!("{line}");
            count.fetch_add(line.trim_start().starts_with("Compiling ").into(), Relaxed);
        });
        match ended {
            Ended::Well => Ok((self.target().join("debug").join(name), compiled.load(Relaxed))),
            Ended::Badly(why) => Err(format!("cargo build: {why}")),
        }
    }

    /// The cargo that runs this program, with nothing of this workspace in its environment.
    fn cargo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(words).env("CARGO_TARGET_DIR", self.target());
        if self.warm {
            // Nobody debugs it.
            command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// Kept for the next run if warm.
    fn target(&self) -> PathBuf {
        if self.warm { target().join("newcomer") } else { self.folder.join("target") }
    }
}

fn ran(command: &mut Command) -> Result<(), String> {
    let said = command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("cargo {}: {}", words.join(" "), String::from_utf8_lossy(&said.stderr).trim())),
    }
}
