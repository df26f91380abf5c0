//! Runs seeds, or one of them again.

use std::process::ExitCode;

use simulation::{Plant, run, search};

const USAGE: &str = "usage: simulation [--seeds N] [--seed FIRST] [--plant]
       simulation --replay SEED [--plant] [--history]

  --seeds N      how many seeds are run; 10000
  --seed FIRST   the first of them; 0
  --replay SEED  runs a seed twice, compares the two histories, and shows what it breaks
  --plant        with a planted mistake
  --history      prints the history";

#[derive(Default)]
struct Wanted {
    seeds: Option<u64>,
    first: u64,
    replay: Option<u64>,
    plant: Option<Plant>,
    history: bool,
}

fn parse(words: impl Iterator<Item = String>) -> Option<Wanted> {
    let mut wanted = Wanted::default();
    let words: Vec<String> =
        words.flat_map(|word| word.split('=').map(str::to_owned).collect::<Vec<_>>()).collect();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match word.as_str() {
            "--seeds" => wanted.seeds = Some(number()?),
            "--seed" => wanted.first = number()?,
            "--replay" => wanted.replay = Some(number()?),
            "--plant" => wanted.plant = Some(Plant),
            "--history" => wanted.history = true,
            _ => return None,
        }
    }
    Some(wanted)
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(wanted) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match wanted.replay {
        Some(seed) => replay(seed, &wanted),
        None => run_all(&wanted),
    }
}

fn run_all(wanted: &Wanted) -> ExitCode {
    let seeds = wanted.first..wanted.first + wanted.seeds.unwrap_or(10_000);
    let searched = search(seeds, wanted.plant, 20);
    for found in &searched.found {
        println!("seed {}: {}", found.seed, found.words.join("; "));
        let plant = wanted.plant.map_or("", |Plant| " --plant");
        println!("    cargo run -p simulation -- --replay {}{plant}", found.seed);
    }
    println!("{}", searched.summary());
    if searched.found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, wanted: &Wanted) -> ExitCode {
    let outcome = run(seed, wanted.plant);
    let history = outcome.to_text();
    if wanted.history {
        print!("{history}");
    }
    println!("seed {seed}: {}", outcome.plan);
    println!("{} events, {} grants", outcome.report.events, outcome.report.grants);
    if run(seed, wanted.plant).to_text() != history {
        println!("the second run has another history");
        return ExitCode::FAILURE;
    }
    println!("the second run has the same history");
    if outcome.is_good() {
        return ExitCode::SUCCESS;
    }
    println!("{}", outcome.explain());
    ExitCode::FAILURE
}
