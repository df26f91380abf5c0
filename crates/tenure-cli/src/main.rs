//! The `tenure` command: run commands under distributed locks, and see who holds what.
//!
//! Everything runs on the main thread, which lives as long as the process: the command that is run dies with the
//! thread that started it.

mod args;
mod config;
mod doctor;
mod elect;
mod ending;
mod inspect;
mod job;
mod people;
mod release;
mod report;
mod run;
mod screen;
mod signals;
mod table;
mod terminal;
mod times;
mod top;
mod wait;
mod work;

use clap::{CommandFactory, Parser};
use tenure::{Client, Error, Result};

use crate::args::{Cli, Command, Completions, Global};
use crate::report::Report;

/// Wrong usage, address or option.
const USAGE: u8 = 2;
/// The store cannot be reached, unless `--unavailable-code` says otherwise.
const UNAVAILABLE: u8 = 69;

fn main() {
    if std::env::args_os().len() < 2 {
        let _ = Cli::command().print_help();
        std::process::exit(i32::from(USAGE));
    }
    let cli = Cli::parse();
    let report = Report { json: cli.global.json, quiet: cli.global.quiet };
    let code = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(dispatch(&cli, report));
            // Nothing that is still under way is worth waiting for.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            report.error(error);
            UNAVAILABLE
        }
    };
    std::process::exit(i32::from(code));
}

async fn dispatch(cli: &Cli, report: Report) -> u8 {
    let (result, unavailable) = match &cli.command {
        Command::Run(run) => {
            (with(cli, report, async |c| run::run(c, run, report).await).await, run.unavailable_code)
        }
        Command::Elect(elect) => {
            (with(cli, report, async |c| elect::elect(c, elect, report).await).await, elect.unavailable_code)
        }
        Command::Ls(ls) => (with(cli, report, async |c| inspect::ls(c, ls, report).await).await, UNAVAILABLE),
        Command::Show(show) => {
            (with(cli, report, async |c| inspect::show(c, show, report).await).await, UNAVAILABLE)
        }
        Command::Top(top) => (with(cli, report, async |c| top::top(c, top, report).await).await, UNAVAILABLE),
        Command::Release(release) => {
            (with(cli, report, async |c| release::release(c, release, report).await).await, UNAVAILABLE)
        }
        Command::Config(command) => (config::config(&cli.global, *command, report), UNAVAILABLE),
        Command::Doctor(doctor) => {
            (with(cli, report, async |c| doctor::doctor(c, doctor, report).await).await, UNAVAILABLE)
        }
        Command::Completions(completions) => (complete(completions), USAGE),
    };
    result.unwrap_or_else(|error| {
        report.error(&error);
        match error {
            Error::Unavailable { .. } | Error::Unknown { .. } => unavailable,
            _ => USAGE,
        }
    })
}

async fn with(cli: &Cli, report: Report, work: impl AsyncFnOnce(&Client) -> Result<u8>) -> Result<u8> {
    work(&connect(&cli.global, report).await?).await
}

fn complete(completions: &Completions) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "tenure", &mut script);
    output(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

async fn connect(global: &Global, report: Report) -> Result<Client> {
    let config = global.config()?;
    let entries = config.entries();
    let is_sqlite = entries.iter().any(|e| e.key == "type" && e.value == "sqlite");
    if is_sqlite && !entries.iter().any(|e| e.key == "path") {
        let default = tenure::sqlite::default_path();
        if default.fallback && !global.quiet {
            report.warn(format!("HOME is not set: using {}", default.path.display()));
        }
    }
    config.connect().await
}

/// Writes a result to standard output.
fn output(text: &str) -> Result<()> {
    table::print(text).map_err(|e| Error::Config(format!("cannot write to standard output: {e}")))
}
