//! A cell: a scenario on a store. This side has the server, starts the child, answers its questions, and judges.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::options::{Options, Scenario};
use crate::question::Line;
use crate::scenario::{Figure, Order};
use crate::store::{Server, Store};
use crate::{CHILD, bounds};

/// What a cell has shown.
pub(crate) struct Cell {
    pub(crate) scenario: Scenario,
    pub(crate) store: Store,
    pub(crate) number: u64,
    pub(crate) figures: Vec<Figure>,
    seconds: f64,
}

impl Cell {
    /// Runs it.
    ///
    /// # Errors
    /// Why it could not be run to its end.
    pub(crate) fn run(scenario: Scenario, store: Store, options: &Options) -> Result<Self, String> {
        let begin = Instant::now();
        let server = Server::start(store).map_err(|e| e.to_string())?;
        let number = options.number_of(scenario, store);
        let lease = options.time.min(std::time::Duration::from_secs(30));
        let url = server.url(lease.as_secs());
        let order = Order { scenario, store, url, number, lease };
        let figures = talk(&server, &order)?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Self { scenario, store, number, figures, seconds })
    }

    /// Says that it is done and which figures are too large, and returns whether none is.
    pub(crate) fn print(&self) -> bool {
        println!("{} on {}: {}, {:.0} s", self.scenario, self.store, self.number, self.seconds);
        let mut good = true;
        for figure in &self.figures {
            let Some(bound) = self.bound(&figure.what).filter(|bound| figure.value > *bound) else {
                continue;
            };
            println!("TOO MUCH: {} {}, at most {}", number(figure.value), figure.what, number(bound));
            good = false;
        }
        good
    }

    pub(crate) fn bound(&self, what: &str) -> Option<f64> {
        bounds::of(self.scenario, self.store, what, self.number)
    }
}

/// As many digits as tell something.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Runs the child, and answers it until it tells its figures.
fn talk(server: &Server, order: &Order) -> Result<Vec<Figure>, String> {
    let words = serde_json::to_string(order).expect("an order is JSON");
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(this);
    command.args([CHILD, &words]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut to = child.stdin.take().expect("a pipe");
    let from = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut figures = None;
    for line in from.lines() {
        let line = line.map_err(|e| e.to_string())?;
        let line: Line = serde_json::from_str(&line).map_err(|e| format!("{line}: {e}"))?;
        let answer = match line {
            Line::Connections => server.connections().map(|n| n.to_string()),
            Line::Sessions => server.sessions().map(|n| n.to_string()),
            Line::Left => server.left().map(|left| serde_json::to_string(&left).expect("JSON")),
            Line::Figures(all) => {
                figures = Some(all);
                continue;
            }
        };
        writeln!(to, "{}", answer.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    }
    let ended = child.wait().map_err(|e| e.to_string())?;
    figures.filter(|_| ended.success()).ok_or_else(|| format!("the process ended with {ended}"))
}
