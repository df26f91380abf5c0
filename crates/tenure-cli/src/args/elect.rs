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
    /// Name of the election
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) what: CommandArgs,

    /// Exit after leadership was lost, instead of campaigning again
    #[arg(long, help_heading = "Campaign")]
    pub(crate) once: bool,
    /// Note that is shown with the leader, such as its address
    #[arg(long, value_name = "TEXT", help_heading = "Campaign")]
    pub(crate) note: Option<String>,

    /// Lead for at most DUR at a time; CMD is ended before that, and started again after the next election
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Leadership")]
    pub(crate) max_hold: Option<Duration>,
    /// Time between TERM and KILL when leadership is lost, at most a third of the lease. After a signal has ended CMD,
    /// the time that its remaining processes have
    #[arg(
        long,
        value_name = "DUR",
        value_parser = tenure::parse_duration,
        default_value = "5s",
        help_heading = "Leadership"
    )]
    pub(crate) grace: Duration,
    /// Replicas that must have the grant before CMD runs: master (none), or replicas:N [default: durability of the
    /// configuration]
    #[arg(long, value_name = "DURABILITY", help_heading = "Leadership")]
    pub(crate) durability: Option<Durability>,

    /// Exit code when leadership was lost and this process does not campaign again
    #[arg(long, value_name = "CODE", default_value_t = 76, help_heading = "Exit codes")]
    pub(crate) lost_code: u8,
    /// Exit code when the store cannot be reached at the start
    #[arg(long, value_name = "CODE", default_value_t = 69, help_heading = "Exit codes")]
    pub(crate) unavailable_code: u8,
}

const HELP: &str = "\
CMD runs while this process leads. It gets TENURE_NAME, TENURE_FENCE (the term: larger than that of every earlier \
leader), TENURE_HOLD and TENURE_HOLDS. Signals, process groups and the guardian are those of `tenure run`.

When leadership is about to be lost, CMD is ended before another process can lead. This process then campaigns again, \
and starts CMD again once it is elected. It keeps trying while the store does not answer.

When CMD exits by itself, this process resigns and exits with CMD's exit code. To have a leader at all times, let a \
service manager restart this process.

Exit codes:
  exit code of CMD, or 128 + n when signal n killed it
    2  wrong usage, address or option, or a store without elections
   69  the store cannot be reached at the start (--unavailable-code)
   76  leadership was lost with --once, or was found to be lost after CMD exited (--lost-code)
  126  CMD cannot be run
  127  CMD was not found
  128 + n  signal n was received while campaigning

Examples:
  tenure elect cron --note $(hostname) -- ./scheduler
  tenure elect cron --url redis://cache-1 --max-hold 1h -- ./scheduler
  tenure show cron                                       show the leader";
