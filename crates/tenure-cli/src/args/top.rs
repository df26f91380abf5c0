//! Arguments of `tenure top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::positive_duration;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Top {
    /// Only names that begin so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Print one frame and exit; needs no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// By what to sort at first
    #[arg(long, value_name = "COLUMN", default_value = "name")]
    pub(crate) sort: Column,
    /// How often to look
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = positive_duration)]
    pub(crate) every: Duration,
    /// At most N names
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
}

/// CommandArgs rows can be sorted by.
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
One line for each holder. LEFT is the time until the hold ends unless it is renewed, `session` where it ends with its \
holder's session, and `never` where nothing ends it. A holder of another library is `foreign`.

Keys: n name, k kind, p place, h held, l left, w waiters, f fence: sort by that; again: the other way round. q quits.

With --json, which needs --once, the same as data on standard output.";
