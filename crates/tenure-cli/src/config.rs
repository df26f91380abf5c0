//! `tenure config`: shows or checks the configuration merged from file, environment and URL.

use serde::Serialize;
use tenure::{Entry, Result};

use crate::args::{ConfigCommand, Global};
use crate::format::printable;
use crate::inspect::json;
use crate::report::Report;
use crate::{USAGE, output};

/// A configuration entry as printed with `--json`.
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

/// Runs the command and returns its exit code. What is wrong is reported all at once.
pub(crate) fn config(global: &Global, command: ConfigCommand, report: Report) -> Result<u8> {
    let config = global.collect();
    config.warnings().iter().for_each(|warning| report.warn(warning));
    let problems = config.problems();
    // Printed first: an error is easier to understand beside the entries it is about.
    if matches!(command, ConfigCommand::Show) {
        if report.json {
            output(&json(&config.entries().into_iter().map(Line::from).collect::<Vec<_>>()))?;
        } else {
            output(&config.to_string().lines().map(|line| printable(line) + "\n").collect::<String>())?;
        }
    }
    if !problems.is_empty() {
        problems.iter().for_each(|problem| report.error(problem));
        return Ok(USAGE);
    }
    if matches!(command, ConfigCommand::Check) {
        if report.json {
            output(&json(&serde_json::json!({ "right": true })))?;
        } else if !report.quiet {
            output("the configuration is valid\n")?;
        }
    }
    Ok(0)
}
