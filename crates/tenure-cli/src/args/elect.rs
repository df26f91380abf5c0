//! Arguments of `tenure elect`.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use tenure::Durability;

use super::{CommandArgs, positive_duration};

#[derive(Debug, Args)]
#[command(
    override_usage = "tenure elect [OPTIONS] <NAME> -- <CMD>...\n       tenure elect [OPTIONS] <NAME> -c <SCRIPT>",
    after_help = HELP,
    group = clap::ArgGroup::new("what").args(["cmd", "script"]).required(true),
)]
pub(crate) struct Elect {
    /// The election
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) what: CommandArgs,

    /// Do not stand again after leadership was lost: exit instead
    #[arg(long, help_heading = "Standing")]
    pub(crate) once: bool,
    /// CommandArgs the leader says of itself, an address say
    #[arg(long, value_name = "TEXT", help_heading = "Standing")]
    pub(crate) note: Option<String>,

    /// Lead for DUR at most at a time; CMD is ended before that, and started anew if elected again
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Leading")]
    pub(crate) max_hold: Option<Duration>,
    /// How long CMD has between TERM and KILL when leadership is lost, at most a third of the lease; and what it started,
    /// when a signal ended it
    #[arg(
        long,
        value_name = "DUR",
        value_parser = tenure::parse_duration,
        default_value = "5s",
        help_heading = "Leading"
    )]
    pub(crate) grace: Duration,
    /// How many copies of the store must know of the leader before CMD runs: master, or replicas:N [default: as the
    /// store's address says]
    #[arg(long, value_name = "COPIES", help_heading = "Leading")]
    pub(crate) durability: Option<Durability>,

    /// Exit code when leadership was lost and this process does not stand again
    #[arg(long, value_name = "CODE", default_value_t = 76, help_heading = "Exit codes")]
    pub(crate) lost_code: u8,
    /// Exit code when the store cannot be reached at the start
    #[arg(long, value_name = "CODE", default_value_t = 69, help_heading = "Exit codes")]
    pub(crate) unavailable_code: u8,
}

const HELP: &str = "\
CMD runs while this process leads, and sees TENURE_NAME, TENURE_FENCE (the term, larger than that of every leader \
before), TENURE_HOLD and TENURE_HOLDS. Signals, process groups and endings are those of `tenure run`.

When leadership is about to be lost, CMD is ended before another one can lead, and this process stands again: CMD is \
started anew once it is elected. A store that fails meanwhile is waited for.

When CMD ends by itself this process resigns and exits with CMD's code. To have a leader at all times, let whatever \
starts services start this one again.

Exit codes:
  CMD's own, or 128 + n when signal n ended it
    2  wrong usage, address or option, or a store without elections
   69  the store cannot be reached at the start (--unavailable-code)
   76  leadership was lost: with --once, or before CMD was done and noticed only then (--lost-code)
  126  CMD cannot be run
  127  CMD was not found
  128 + n  signal n came while standing

Examples:
  tenure elect cron --note $(hostname) -- ./scheduler
  tenure elect cron --url redis://cache-1 --max-hold 1h -- ./scheduler
  tenure show cron                                       who leads";
