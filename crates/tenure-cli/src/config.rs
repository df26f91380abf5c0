//! `tenure config`: what file, environment and address say together, and whether it is right.

use serde::Serialize;
use tenure::{Entry, Result};

use crate::args::{ConfigCommand, Global};
use crate::inspect::json;
use crate::output;
use crate::people::printable;
use crate::report::Report;

/// As programs are told.
#[derive(Serialize)]
struct Line {
    key: &'static str,
    value: String,
    from: String,
}

impl From<Entry> for Line {
    fn from(entry: Entry) -> Self {
        Self { key: entry.key, value: entry.value, from: entry.from }
    }
}

/// The exit code: 0, since all else is an error.
pub(crate) fn config(global: &Global, command: ConfigCommand, report: Report) -> Result<u8> {
    let config = global.config()?;
    match command {
        ConfigCommand::Check => {
            config.check()?;
            if report.json {
                output(&json(&serde_json::json!({ "right": true })))?;
            } else if !report.quiet {
                output("the configuration is right\n")?;
            }
        }
        ConfigCommand::Show => {
            if report.json {
                output(&json(&config.entries().into_iter().map(Line::from).collect::<Vec<_>>()))?;
            } else {
                output(&config.to_string().lines().map(|line| printable(line) + "\n").collect::<String>())?;
            }
            // What is wrong is best understood beside all that was said.
            config.check()?;
        }
    }
    Ok(0)
}
