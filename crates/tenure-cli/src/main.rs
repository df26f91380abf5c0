//! The `tenure` command: run commands under distributed locks, and see who holds what.
//!
//! Everything runs on the main thread, because the command is killed when the thread that started it ends, and the main
//! thread lives as long as the process.

mod acquire;
mod args;
mod config;
mod doctor;
mod elect;
mod exit;
mod format;
mod guardian;
mod hint;
mod inspect;
mod job;
mod nested;
mod release;
mod report;
mod resize;
mod run;
mod screen;
mod signals;
mod supervise;
mod table;
mod terminal;
mod termination;
mod times;
mod top;

use std::time::Instant;

use clap::{CommandFactory, Parser};
use tenure::{Client, Error, Result};

use crate::acquire::{store_backoff, wait_to_retry};
use crate::args::{Cli, Command, Completions, Global};
use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::job::reap_orphans;
use crate::report::Report;
use crate::signals::Signals;

/// Exit code for wrong usage, URL or option.
const USAGE: u8 = 2;
/// Exit code for a store that cannot be reached, unless `--unavailable-code` overrides it.
const UNAVAILABLE: u8 = 69;
/// Exit code for a command that cannot be run.
const CANNOT_RUN: u8 = 126;

fn main() {
    if std::env::args_os().len() < 2 {
        let _ = Cli::command().print_help();
        std::process::exit(i32::from(USAGE));
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| report_usage_error(hint::explain(error)));
    let report = Report { json: cli.global.json, quiet: cli.global.quiet };
    run(&cli, report).exit_process()
}

/// Reports a wrong command line, as JSON if `--json` was given, and exits.
fn report_usage_error(error: clap::Error) -> ! {
    let json = std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if !json || !error.use_stderr() {
        error.exit();
    }
    Report { json, quiet: false }.error(error.render().to_string().trim_start_matches("error: ").trim_end());
    std::process::exit(error.exit_code())
}

fn run(cli: &Cli, report: Report) -> Exit {
    // Forks, so it must come before any other thread is started.
    let mut guardian = match cli.command {
        Command::Run(_) | Command::Elect(_) => match Guardian::start() {
            Ok(guardian) => Some(guardian),
            Err(error) => {
                report.error(format!("cannot start the guardian process: {error}"));
                return Exit::code(CANNOT_RUN);
            }
        },
        _ => None,
    };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(dispatch(cli, guardian.as_mut(), report));
            // Do not wait for tasks that are still running.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            report.error(error);
            Exit::code(UNAVAILABLE)
        }
    }
}

async fn dispatch(cli: &Cli, guardian: Option<&mut Guardian>, report: Report) -> Exit {
    let code = |code| Ok(Exit::code(code));
    let (result, unavailable) = match (&cli.command, guardian) {
        (Command::Run(run), Some(guardian)) => {
            let until = run.wait.and_then(|wait| Instant::now().checked_add(wait));
            let work = async |c: &Client, guardian: &mut Guardian, signals: &mut Signals| {
                run::run(c, run, until, guardian, report, signals).await
            };
            (with_guardian(cli, report, until, guardian, work).await, run.unavailable_code)
        }
        (Command::Elect(elect), Some(guardian)) => {
            let work = async |c: &Client, guardian: &mut Guardian, signals: &mut Signals| {
                elect::elect(c, elect, guardian, report, signals).await
            };
            (with_guardian(cli, report, None, guardian, work).await, elect.unavailable_code)
        }
        (Command::Run(_) | Command::Elect(_), None) => unreachable!("it is started for these"),
        (command, _) => {
            let result = match command {
                Command::Config(command) => config::config(&cli.global, *command, report),
                Command::Completions(completions) => complete(completions),
                Command::Doctor(_) => doctor::doctor(&cli.global, report).await,
                query_command => match connect(&cli.global, report, None).await {
                    Ok(client) => query(&client, query_command, report).await,
                    Err(error) => Err(error),
                },
            };
            (result.and_then(code), UNAVAILABLE)
        }
    };
    result.unwrap_or_else(|error| {
        report.error(&error);
        Exit::code(match error {
            Error::Unavailable { .. } | Error::Unknown { .. } => unavailable,
            _ => USAGE,
        })
    })
}

/// Runs a command that only queries the store, releases a hold or resizes a semaphore, and ends.
async fn query(client: &Client, command: &Command, report: Report) -> Result<u8> {
    let result = match command {
        Command::Ls(ls) => inspect::ls(client, ls, report).await,
        Command::Show(show) => inspect::show(client, show, report).await,
        Command::Top(top) => top::top(client, top, report).await,
        Command::Release(release) => release::release(client, release, report).await,
        Command::Resize(resize) => resize::resize(client, resize, report).await,
        Command::Run(_)
        | Command::Elect(_)
        | Command::Doctor(_)
        | Command::Config(_)
        | Command::Completions(_) => unreachable!("these do not only ask"),
    };
    // Nothing is held, so a failed close leaves nothing behind.
    let _ = client.close().await;
    result
}

/// Runs `work` with a connected client. While connecting it already handles signals and reaps orphans, as PID 1 of a
/// container must.
async fn with_guardian(
    cli: &Cli,
    report: Report,
    until: Option<Instant>,
    guardian: &mut Guardian,
    work: impl AsyncFnOnce(&Client, &mut Guardian, &mut Signals) -> Result<Exit>,
) -> Result<Exit> {
    let failed = |e| Error::Config(format!("cannot install signal handlers: {e}"));
    let mut signals = Signals::listen().map_err(failed)?;
    let client = tokio::select! {
        biased;
        client = connect(&cli.global, report, until) => client?,
        signal = signals.next_end() => return Ok(Exit::from_signal(signal)),
        () = reap_orphans(guardian) => unreachable!("it goes on for ever"),
    };
    work(&client, guardian, &mut signals).await
}

fn complete(completions: &Completions) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "tenure", &mut script);
    output(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Connects to the store; retries until `until` if one is given.
async fn connect(global: &Global, report: Report, until: Option<Instant>) -> Result<Client> {
    let config = global.config()?;
    config.warnings().iter().for_each(|warning| report.warn(warning));
    let (mut backoff, mut warned) = (store_backoff(), false);
    loop {
        match config.connect().await {
            Err(error) if error.is_transient() && until.is_some() => {
                if !std::mem::replace(&mut warned, true) {
                    report.warn(format!("waiting: {error}"));
                }
                if !wait_to_retry(&mut backoff, until).await {
                    return Err(error);
                }
            }
            connected => return connected,
        }
    }
}

/// Writes a result to standard output.
fn output(text: &str) -> Result<()> {
    table::print(text).map_err(|e| Error::Config(format!("cannot write to standard output: {e}")))
}
