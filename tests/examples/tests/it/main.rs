//! Runs every example and compares what it prints with what it says of itself at its head; and checks what the
//! documentation offers to copy.

mod config;
mod head;
mod metrics;
mod pages;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use head::{Example, Run, is_like};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let examples: Vec<Example> = files().iter().map(|file| head::read(file)).collect();
    let mut trials: Vec<Trial> = examples.iter().flat_map(trials).collect();
    trials.extend([
        Trial::test("heads_are_read", passes(head::heads_are_read)),
        Trial::test("lines_are_compared", passes(head::lines_are_compared)),
        Trial::test("all_examples_are_here_and_in_the_package", passes(all_are_listed)),
        Trial::test("all_toml_blocks_are_valid", passes(pages::all_toml_blocks_are_valid)),
        Trial::test(
            "metrics::the_exporter_serves_what_is_listed",
            passes(metrics::the_exporter_serves_what_is_listed),
        ),
        Trial::test(
            "metrics::every_query_is_about_what_is_listed",
            passes(metrics::every_query_is_about_what_is_listed),
        ),
        Trial::test(
            "metrics::what_a_query_asks_for_is_found",
            passes(metrics::what_a_query_asks_for_is_found),
        ),
        Trial::test(
            "server::the_access_rule_for_redis_is_enough",
            passes(pages::the_access_rule_for_redis_is_enough),
        ),
        Trial::test(
            "server::the_same_program_on_four_stores",
            passes(config::the_same_program_on_four_stores),
        ),
    ]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn passes(check: fn()) -> impl FnOnce() -> Result<(), Failed> + Send {
    move || {
        check();
        Ok(())
    }
}

/// The program, as the example of this name.
fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example"));
    command.arg0(name);
    command
}

/// One for each of its runs. Those that start a server of their own are called so.
fn trials(example: &Example) -> Vec<Trial> {
    let place = if example.needs_server { "server" } else { "memory" };
    let trial = |run: &Run| {
        let words = run.words.iter().map(|word| format!(" {word}")).collect::<String>();
        let mut command = program(&example.name);
        if !example.needs_server {
            command.arg("memory:");
        }
        command.args(&run.words);
        let prints = run.prints.clone();
        Trial::test(format!("{place}::{}{words}", example.name), move || prints_all(command, &prints))
    };
    example.runs.iter().map(trial).collect()
}

fn prints_all(mut command: Command, wanted: &[String]) -> Result<(), Failed> {
    if wanted.is_empty() {
        return Err("nothing that it prints is said at its head, after `//! Prints:`".into());
    }
    let done = testbed::with_deadline("the example", testbed::PATIENCE, move || command.output())??;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    match wanted.iter().find(|wanted| !said.lines().any(|line| is_like(line, wanted))) {
        _ if !done.status.success() => {
            Err(format!("{}: {said}{}", done.status, String::from_utf8_lossy(&done.stderr)).into())
        }
        Some(missing) => Err(format!("it did not print {missing:?}, but:\n{said}").into()),
        None => Ok(()),
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<_> =
        folder.read_dir().expect("the folder").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn all_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(files().len() > 10);
    for file in files() {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let path = format!("\"../../../examples/{name}\"");
        assert!(include_str!("../../src/main.rs").contains(&path), "{path} is not in the program");
        assert!(root.join("crates/tenure/examples").join(&name).exists(), "{name} is no example of tenure");
    }
}
