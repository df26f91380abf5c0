//! `cargo run -p fuzz`: everything that reads what others wrote, for as long as is wanted.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fuzz::{Limit, NAMES, named, record, replay, run};

const USAGE: &str = "\
cargo run -p fuzz [-- OPTION…]   mutated inputs for everything that reads what others wrote
    --target T,…                 only these; all by default
    --seconds N                  how long each target; 20
    --seed X                     what everything is drawn from; a fresh one by default
    --input FILE                 only this input, for the one target
    --record                     writes what real servers say into the corpus
    --list                       the targets
";

struct Options {
    targets: Vec<String>,
    seconds: u64,
    seed: u64,
    input: Option<PathBuf>,
    record: bool,
    list: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        targets: NAMES.iter().map(ToString::to_string).collect(),
        seconds: 20,
        seed: fastrand::u64(..),
        input: None,
        record: false,
        list: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match &*word {
            "--target" => options.targets = value()?.split(',').map(str::to_owned).collect(),
            "--seconds" => options.seconds = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--input" => options.input = Some(value()?.into()),
            "--record" => options.record = true,
            "--list" => options.list = true,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    match options.targets.iter().find(|name| !NAMES.contains(&name.as_str())) {
        Some(unknown) => Err(format!("there is no target {unknown}, only {}", NAMES.join(", "))),
        None => Ok(options),
    }
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("fuzz: {why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.list {
        println!("{}", NAMES.join("\n"));
        return ExitCode::SUCCESS;
    }
    if options.record {
        record();
        return ExitCode::SUCCESS;
    }
    if options.input.is_none() {
        println!("seed {}", options.seed);
    }
    let mut code = ExitCode::SUCCESS;
    for name in &options.targets {
        let mut target = named(name);
        let limit = Limit { inputs: u64::MAX, time: Duration::from_secs(options.seconds) };
        let outcome = match &options.input {
            Some(file) => replay(&mut *target, file).map(|memory| format!("good, {memory} bytes")),
            None => {
                run(&mut *target, options.seed, limit).map_err(|failure| failure.to_string()).map(|done| {
                    let seconds = done.time.as_secs_f64();
                    format!(
                        "{} kept and {} new inputs in {seconds:.1} s, {} bytes at most",
                        done.kept, done.new, done.memory
                    )
                })
            }
        };
        match outcome {
            Ok(said) => println!("{name}: {said}"),
            Err(why) => {
                println!("{name}: FAILED\n{why}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
