//! Chaos: random workloads of real processes on real stores, under faults that are drawn from a seed, judged by the
//! history checker.

mod beat;
mod cell;
mod clock;
mod deploy;
mod fault;
mod inject;
mod kinds;
mod log;
mod login;
mod options;
mod plan;
mod plant;
mod progress;
mod queue;
mod register;
mod report;
mod result;
mod table;
mod wall;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use cell::Cell;
use checker::Store;
use options::{Options, USAGE};
use progress::Progress;
use result::Outcome;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("-h" | "--help") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some("--worker") => return worker::main(&words[1]),
        Some("--report") => {
            let page = words.get(1).map_or_else(reliability, PathBuf::from);
            return match report::write(&page) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => fail(&why),
            };
        }
        _ => {}
    }
    match Options::parse(words.into_iter()) {
        Ok(options) => run(&options),
        Err(why) => {
            eprintln!("chaos: {why}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn reliability() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md")
}

fn fail(why: &str) -> ExitCode {
    eprintln!("chaos: {why}");
    ExitCode::FAILURE
}

/// Runs all stores, some at a time, and judges each when it has ended.
fn run(options: &Options) -> ExitCode {
    println!("seed {}", options.seed);
    let progress = Progress::start();
    let todo = Mutex::new(options.stores.iter().copied());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let Some(store) = todo.lock().expect("no panic").next() else { return };
                    let outcome = one(store, options, &progress);
                    done.lock().expect("no panic").push((store, outcome));
                }
            });
        }
    });
    drop(progress);
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(store, _)| Store::ALL.iter().position(|other| other == store));
    let mut outcomes = Vec::new();
    let mut good = true;
    for (store, outcome) in done {
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(why) => {
                println!("{store} could not be run: {why}");
                good = false;
            }
        }
    }
    println!("{}", table::table(&outcomes));
    good &= outcomes.iter().all(|outcome| outcome.broken.is_empty());
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(store: Store, options: &Options, progress: &Progress) -> Result<Outcome, String> {
    if options.resume
        && let Some(before) = Outcome::of(store, options)
    {
        return Ok(before);
    }
    let status = progress.of(store);
    let ran = Cell::run(store, options, &status)?;
    status.say("is judged");
    let outcome = Outcome::judge(store, options, &ran);
    status.end();
    outcome
}
