//! Messages of `tenure` on standard error: text for people or JSON for programs. Standard output belongs to the
//! command.

use std::io::{IsTerminal, Write, stderr};

use serde::Serialize;
use tenure::{Fence, HoldId, Holder};

use crate::format::{self, printable};
use crate::times::human;

/// An event of a `run`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    Waiting { name: &'a str, holders: &'a [Holder] },
    Acquired { name: &'a str, fence: Option<Fence>, hold: HoldId, waited_ms: u64 },
    Busy { name: &'a str, waited_ms: u64, holders: &'a [Holder] },
    Lost { name: &'a str, reason: &'a str },
    Released { name: &'a str, code: u8 },
    Warning { message: &'a str },
    Error { message: &'a str },
}

impl Event<'_> {
    /// Whether it is reported despite `--quiet`.
    fn is_problem(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Warning { .. } | Self::Error { .. })
    }

    /// The message as text; `None` if the event is reported in JSON only.
    fn text(&self) -> Option<String> {
        Some(match self {
            Self::Acquired { .. } | Self::Released { .. } => return None,
            Self::Waiting { name, holders: [] } => format!("waiting for {}", printable(name)),
            Self::Waiting { name, holders } => {
                format!("waiting for {}, held by {}", printable(name), format::describe_holders(holders))
            }
            Self::Busy { name, waited_ms, holders } => {
                let still = match waited_ms {
                    0..10 => "busy".into(),
                    ms => format!("still busy after {}", human(std::time::Duration::from_millis(*ms))),
                };
                let held = match holders {
                    [] => String::new(),
                    holders => format!(", held by {}", format::describe_holders(holders)),
                };
                format!("{} is {still}{held}", printable(name))
            }
            Self::Lost { name, reason } => format!("{} is lost: {reason}", printable(name)),
            Self::Warning { message } | Self::Error { message } => (*message).to_owned(),
        })
    }
}

/// Output format and verbosity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl Report {
    /// Whether to show live progress: standard error is a terminal, without `--json` and `--quiet`.
    pub(crate) fn is_interactive(self) -> bool {
        !self.json && !self.quiet && stderr().is_terminal()
    }

    pub(crate) fn event(self, event: &Event<'_>) {
        if self.quiet && !event.is_problem() {
            return;
        }
        // One write per line, so that lines of several processes do not mix. Errors are ignored: nobody reads the
        // message.
        let line = if self.json {
            serde_json::to_string(event).ok().map(|json| json + "\n")
        } else {
            event.text().map(|words| format!("tenure: {words}\n"))
        };
        if let Some(line) = line {
            let _ = stderr().write_all(line.as_bytes());
        }
    }

    pub(crate) fn warn(self, message: impl ToString) {
        self.event(&Event::Warning { message: &message.to_string() });
    }

    pub(crate) fn error(self, message: impl ToString) {
        self.event(&Event::Error { message: &message.to_string() });
    }
}

/// A status line on the terminal that is redrawn in place, and erased on drop.
#[derive(Debug, Default)]
pub(crate) struct StatusLine {
    drawn: bool,
}

impl StatusLine {
    pub(crate) fn draw(&mut self, words: &str) {
        // Some terminals report a width of 0.
        let width = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
        let text = fit(&format!("tenure: {words}"), if width == 0 { 80 } else { width });
        let _ = stderr().write_all(format!("\r{text}\x1b[K").as_bytes());
        self.drawn = true;
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.drawn {
            let _ = stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// Truncates the text to leave one column free: a full line would wrap, and could not be redrawn in place.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() < width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(2)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_fills_the_terminal() {
        assert_eq!(fit("123456789", 10), "123456789");
        assert_eq!(fit("1234567890", 10), "12345678…");
    }

    #[test]
    fn busy_says_how_long() {
        let words = |ms| Event::Busy { name: "n", waited_ms: ms, holders: &[] }.text().unwrap();
        assert_eq!(words(0), "n is busy");
        assert_eq!(words(3000), "n is still busy after 3 s");
    }
}
