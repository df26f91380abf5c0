//! Arguments of `tenure top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::positive_duration;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Top {
    /// Only names that begin with this prefix
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Print the table once and exit; needs no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Initial sort column
    #[arg(long, value_name = "COLUMN", default_value = "name")]
    pub(crate) sort: Column,
    /// Refresh interval
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = positive_duration)]
    pub(crate) every: Duration,
    /// Maximum number of names
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
}

/// Columns that rows can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    Name,
    Kind,
    Place,
    Held,
    Left,
    Waiters,
    Fence,
}

const HELP: &str = "\
One row per holder. LEFT is the time until the hold ends unless it is renewed: `session` if it ends with the session of \
its holder, `never` if it does not expire. A holder that belongs to another library is `foreign`.

Keys: up and down select a row, Enter shows everything about its name, Esc returns. n name, k kind, p place, h held, \
l left, w waiters, f fence select the sort column; the same key again reverses the order. ? shows this help, q quits.

With --once --json the table is printed as JSON.";
