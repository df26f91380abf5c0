//! How far a run is: a bar on a terminal, a line for each workload elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Characters of the bar.
const WIDTH: usize = 30;

pub(crate) struct Progress {
    begin: Instant,
    planned: Duration,
    done: Duration,
    now: String,
    /// How long what runs now is planned to take, if it does not count its rounds.
    pending: Duration,
    terminal: bool,
}

/// Seconds of what does not count its rounds, on a machine of two cores.
pub(crate) const PARTS: &[(&str, u64)] = &[
    ("W4 renewal", 34),
    ("W5 10 waiters", 25),
    ("W5 1000 waiters", 80),
    ("W5 10000 waiters", 25),
    ("W5b 1000 fair waiters", 35),
    ("W6 10000 held", 110),
    ("W6 10000 held after 5000 pairs", 35),
    ("W6 100000 held", 50),
    ("W10 names", 45),
    ("W10 waiters", 10),
    ("W10 holders", 3),
    ("W10 processes", 10),
    ("embedded memory", 6),
    ("embedded sqlite", 6),
    ("embedded hand-over", 25),
    ("embedded waiting", 20),
    ("embedded start", 30),
    ("telemetry", 130),
];

impl Progress {
    /// Of a run whose rounds take so long together, and of the other parts that are wanted.
    pub(crate) fn new(rounds: Duration, wants: impl Fn(&str) -> bool) -> Self {
        let parts = PARTS.iter().filter(|(name, _)| wants(name)).map(|(_, seconds)| seconds);
        Self {
            begin: Instant::now(),
            planned: rounds + Duration::from_secs(parts.sum()),
            done: Duration::ZERO,
            now: String::new(),
            pending: Duration::ZERO,
            terminal: stderr().is_terminal(),
        }
    }

    /// Says what begins now.
    pub(crate) fn at(&mut self, workload: &str, detail: &str) {
        let is_new = self.now != workload;
        if is_new {
            self.now = workload.to_owned();
            let seconds = PARTS.iter().find(|(name, _)| *name == workload).map_or(0, |(_, seconds)| *seconds);
            self.done += std::mem::replace(&mut self.pending, Duration::from_secs(seconds));
        }
        if self.terminal {
            let part = (self.done.as_secs_f64() / self.planned.as_secs_f64().max(1e-9)).min(1.0);
            let full = (part * WIDTH as f64) as usize;
            let bar = "█".repeat(full) + &"·".repeat(WIDTH - full);
            let left = match self.done.as_secs() {
                0..5 => String::new(),
                _ => format!("{} left  ", minutes(self.begin.elapsed().mul_f64(1.0 / part - 1.0))),
            };
            let _ = write!(stderr(), "\r\x1b[2K{bar} {:3.0} %  {left}{workload}  {detail}", part * 100.0);
            let _ = stderr().flush();
        } else if is_new {
            eprintln!("{:>6}  {workload}", minutes(self.begin.elapsed()));
        }
    }

    /// Counts what was planned to take so long.
    pub(crate) fn add(&mut self, planned: Duration) {
        self.done += planned;
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

fn minutes(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_when_the_next_begins() {
        let mut progress = Progress::new(Duration::from_secs(10), |name| name == "W10 holders");
        assert_eq!(progress.planned, Duration::from_secs(13));
        progress.at("W10 holders", "a");
        progress.at("W10 holders", "b");
        assert_eq!(progress.done, Duration::ZERO);
        progress.at("W1", "");
        progress.add(Duration::from_secs(1));
        assert_eq!(progress.done, Duration::from_secs(4));
    }

    #[test]
    fn times_read_as_on_a_clock() {
        assert_eq!(minutes(Duration::from_secs(605)), "10:05");
    }
}
