//! Clients on a simulated store in simulated time: a seed decides everything, so each run can be repeated exactly.
//!
//! The engine, its gate and its keeper, and a quorum are those of the library. Each client process has a runtime of its
//! own with one thread and a paused clock; the servers are the ledgers of the memory store behind messages; the world
//! decides who runs next, and what happens to each message. The `checker` judges the history.

mod connection;
mod journal;
mod message;
mod plan;
mod process;
mod search;
mod server;
mod task;
mod world;

use checker::{Check, Event, Expectations, History, Report, Run, Store, What, check, shorten, text};
use fastrand::Rng;

pub use search::{Found, Searched, search};
pub use server::Plant;

use plan::Plan;
use world::World;

/// A run.
#[derive(Debug)]
pub struct Outcome {
    /// What there was, in words.
    pub plan: String,
    /// What happened.
    pub history: History,
    /// What the checker says.
    pub report: Report,
    /// What did not end.
    pub wrong: Vec<String>,
}

impl Outcome {
    /// Whether every promise was kept.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.report.is_good()
    }

    /// What is broken, in a few words.
    pub fn words(&self) -> Vec<String> {
        self.wrong.iter().cloned().chain(self.report.violations.iter().map(ToString::to_string)).collect()
    }

    /// The history as text, a line for each event.
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        self.history.write(&mut lines).expect("memory is written to");
        String::from_utf8_lossy(&lines).into_owned()
    }

    /// What is broken, with the shortest part of the history that shows it.
    pub fn explain(&self) -> String {
        let expected = expected(&self.history);
        let mut parts = self.wrong.clone();
        for violation in self.report.violations.iter().take(3) {
            parts.push(text(&shorten(&self.history, &expected, violation), violation));
        }
        parts.join("\n")
    }
}

fn expected(history: &History) -> Expectations {
    Expectations::of_run(history.run().expect("a history begins with what it is of"))
}

/// Runs a seed.
pub fn run(seed: u64, plant: Option<Plant>) -> Outcome {
    let mut rng = Rng::with_seed(seed);
    let plan = Plan::draw(&mut rng);
    let words = plan.to_string();
    let (events, wrong) = World::new(&plan, rng, plant).run();
    let store = if plan.nodes > 1 { Store::Redlock } else { Store::Redis };
    let run =
        Run { store, nodes: plan.nodes as u32, seed, plan: words.clone(), timing: world::timing(&plan) };
    let first = Event { at: 0, process: 0, what: What::Run(run) };
    let history = History::new(std::iter::once(first).chain(events).collect());
    let mut report = check(&history, &expected(&history));
    if plan.forgets() {
        // Nothing is promised of a number that the only server has forgotten, nor of what it has forgotten to remove.
        report.violations.retain(|one| !matches!(one.check, Check::Latch | Check::Leftover));
    }
    Outcome { plan: words, history, report, wrong }
}
