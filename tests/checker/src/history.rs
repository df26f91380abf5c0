//! A history: all events of a run, in the order of their times.

use std::fmt;
use std::io::{self, BufRead, Write};

use crate::event::{Event, What};
use crate::run::Run;

/// The events of a run.
///
/// ```
/// use checker::{Event, History, What};
///
/// let one = r#"{"at":20,"process":1,"what":"killed"}"#;
/// let other = r#"{"at":10,"process":1,"what":{"started":{"clients":["4f3c"]}}}"#;
/// let mut history = History::default();
/// history.read(one.as_bytes())?; // a file of each process
/// history.read(other.as_bytes())?;
/// assert_eq!(history.events()[1], Event { at: 20, process: 1, what: What::Killed });
///
/// let mut file = Vec::new();
/// history.write(&mut file)?;
/// assert_eq!(String::from_utf8_lossy(&file).lines().collect::<Vec<_>>(), [other, one]);
/// # Ok::<(), checker::ReadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// A history of these events. Events of the same time stay in the order in which they are given.
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        Self { events }
    }

    /// The events by their times.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What it is a history of, if it says so.
    pub fn run(&self) -> Option<&Run> {
        self.events.iter().find_map(|event| match &event.what {
            What::Run(run) => Some(run),
            _ => None,
        })
    }

    /// Adds the events of a file.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no event. A last line without an end is left out if it is no event: a
    /// process that was killed may leave half of one.
    pub fn read(&mut self, mut file: impl BufRead) -> Result<(), ReadError> {
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            if file.read_line(&mut text)? == 0 {
                break;
            }
            let is_whole = text.ends_with('\n');
            let trimmed = text.trim();
            if trimmed.is_empty() {
                continue;
            }
            match serde_json::from_str(trimmed) {
                Ok(event) => self.events.push(event),
                Err(_) if !is_whole => break,
                Err(error) => return Err(ReadError::Line { line, error }),
            }
        }
        self.events.sort_by_key(|event| event.at);
        Ok(())
    }

    /// Writes it, one event per line.
    ///
    /// # Errors
    /// When `to` fails.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        for event in &self.events {
            serde_json::to_writer(&mut to, event)?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }
}

/// Why a history could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file cannot be read.
    Io(io::Error),
    /// A line is no event.
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Line { line, error } => write!(f, "line {line} is no event: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
