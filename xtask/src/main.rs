//! The commands for people and CI; `cargo xtask help` lists them. Few dependencies, so that it compiles fast.

mod api;
mod args;
mod bench;
mod binaries;
mod burn;
mod chaos;
mod check;
mod examples;
mod layers;
mod licences;
mod load;
mod matrix;
mod metadata;
mod mutants;
mod newcomer;
mod packages;
mod parts;
mod peers;
mod publishable;
mod queries;
mod release;
mod run;
mod scratch;
mod screenshots;
mod shown;
mod summary;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use args::Task;

/// Exit code: something failed.
const FAILED: u8 = 1;
/// Exit code: wrong command line.
const USAGE: u8 = 2;
/// Exit code: missing packages could not be installed.
const MISSING: u8 = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let task = match args::parse(&words) {
        Ok(task) => task,
        Err(wrong) => {
            eprintln!("{wrong}\n`cargo xtask help` lists the commands.");
            return USAGE.into();
        }
    };
    match task {
        Task::Help => {
            print!("{}", args::HELP);
            ExitCode::SUCCESS
        }
        Task::Check => check::check(),
        Task::Api => check::done(api::write()),
        Task::Release => release::release(),
        Task::Newcomer { warm } => newcomer::newcomer(warm),
        Task::Docs => check::docs(),
        Task::Queries { write } => queries::queries(write),
        Task::Screenshots => screenshots::screenshots(),
        Task::Test(wanted) => test::test(&wanted),
        Task::Bench(words) => bench::bench(&words),
        Task::Outage => bench::outage(),
        Task::Chaos(words) => chaos::chaos(&words),
        Task::Load(words) => load::load(&words),
        Task::Matrix { only, list } => matrix::matrix(only.as_deref(), list),
        Task::Mutants { only, list } => mutants::mutants(only.as_deref(), list),
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The cargo that runs this program, in the folder of the workspace.
fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root());
    command
}

/// Number of available cores.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Converts success or failure into an exit code.
fn verdict(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { FAILED.into() }
}
