//! Load: thousands of waiters, names and clients on real stores. Each cell, a scenario on a store, runs in a process of
//! its own, so that its memory, threads and descriptors are its own; each figure is printed beside its bound.

mod allocated;
mod bounds;
mod cell;
mod gauges;
mod options;
mod question;
mod scenario;
mod store;
mod table;
mod usage;

use std::process::ExitCode;

use cell::Cell;
use options::{Options, USAGE};
use scenario::Order;

/// The hidden word of a child.
const CHILD: &str = "--child";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("-h" | "--help") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(CHILD) => {
            let order: Order = serde_json::from_str(&words[1]).expect("an order of the parent");
            return scenario::main(&order);
        }
        _ => {}
    }
    match Options::parse(words.into_iter()) {
        Ok(options) => run(&options),
        Err(why) => {
            eprintln!("load: {why}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs the cells one after the other: side by side they would slow each other down.
fn run(options: &Options) -> ExitCode {
    let mut done = Vec::new();
    let mut good = true;
    for scenario in &options.scenarios {
        for store in &options.stores {
            match Cell::run(*scenario, *store, options) {
                Ok(cell) => {
                    good &= cell.print();
                    done.push(cell);
                }
                Err(why) => {
                    println!("{scenario} on {store}: {why}");
                    good = false;
                }
            }
        }
    }
    print!("{}", table::tables(&done));
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
