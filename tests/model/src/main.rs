//! Explores all worlds, and prints how many states there are; with `--scenarios` what breaks without each rule.

use std::process::ExitCode;

use model::{Case, World, explore, scenario};

const USAGE: &str = "usage: model [--world NAME] [--clients N] [--acquires N] [--in-flight N] [--faults N]
       model --scenarios

N is the most that there are, of all clients together. By default the worlds are explored as in the tests.";

/// What is explored, as far as it is not as in the tests.
#[derive(Default)]
struct Wanted {
    world: Option<String>,
    clients: Option<u8>,
    acquires: Option<u8>,
    in_flight: Option<u8>,
    faults: Option<u8>,
    scenarios: bool,
}

impl Wanted {
    fn from_args(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut wanted = Self::default();
        while let Some(word) = words.next() {
            let mut number = |most| words.next()?.parse().ok().filter(|n| (1..=most).contains(n));
            match word.as_str() {
                "--clients" => wanted.clients = Some(number(3)?),
                "--acquires" => wanted.acquires = Some(number(9)?),
                "--in-flight" => wanted.in_flight = Some(number(6)?),
                "--faults" => wanted.faults = Some(number(3)?),
                "--world" => wanted.world = Some(words.next()?),
                "--scenarios" => wanted.scenarios = true,
                _ => return None,
            }
        }
        Some(wanted)
    }

    fn bounds(&self, world: World) -> World {
        World {
            clients: self.clients.unwrap_or(world.clients),
            in_all: self.acquires.unwrap_or(world.in_all),
            in_flight: self.in_flight.map_or(world.in_flight, usize::from),
            faults: self.faults.unwrap_or(world.faults),
            ..world
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(wanted) = Wanted::from_args(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if wanted.scenarios {
        print_scenarios();
        return ExitCode::SUCCESS;
    }
    let mut good = true;
    for world in World::ALL.map(|world| wanted.bounds(world)) {
        if wanted.world.as_ref().is_none_or(|name| name == world.name) {
            let explored = explore(&world);
            println!("{}: {explored}", world.name);
            if let Some(run) = &explored.broken {
                good = false;
                println!("{}", scenario(&world, run));
            }
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints them as they are in `docs/model.md`.
fn print_scenarios() {
    for case in Case::all() {
        println!("**{}**\n", case.title());
        match case.run() {
            Some(run) => scenario(&case.world, &run).lines().for_each(|line| println!("    {line}")),
            None => println!("    nothing breaks"),
        }
        println!();
    }
}
