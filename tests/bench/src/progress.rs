//! How far a run is: a bar on a terminal, a line for each workload elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Characters of the bar.
const WIDTH: usize = 30;

pub(crate) struct Progress {
    begin: Instant,
    planned: Duration,
    done: Duration,
    /// What the last line said, elsewhere than on a terminal.
    said: String,
    terminal: bool,
}

impl Progress {
    /// Of a run whose rounds take so long together.
    pub(crate) fn new(planned: Duration) -> Self {
        let (terminal, said) = (stderr().is_terminal(), String::new());
        Self { begin: Instant::now(), planned, done: Duration::ZERO, said, terminal }
    }

    /// Says what begins now.
    pub(crate) fn at(&mut self, workload: &str, detail: &str) {
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
        } else if self.said != workload {
            self.said = workload.to_owned();
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
    fn times_read_as_on_a_clock() {
        assert_eq!(minutes(Duration::from_secs(605)), "10:05");
    }
}
