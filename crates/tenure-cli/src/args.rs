//! The command line: options, and which of them exclude each other.

mod elect;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use tenure::{Config, Durability, Result};

pub(crate) use elect::Elect;
pub(crate) use top::{Column, Top};

/// Run commands under distributed locks, and see who holds what.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store, such as sqlite:/var/lib/app/locks.db?lease=10s or redis://host [default: sqlite:, a file in your
    /// state directory]
    ///
    /// TENURE_URL says the same; both are stronger than a file.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// A TOML file that says which store. Variables such as TENURE_NODES, and --url, are stronger [env: TENURE_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Speak JSON: results on standard output, events of `run` one per line on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Global {
    /// Merges file, environment and `--url`. If none names a store, it is a file in the state directory; an empty URL
    /// counts as none.
    pub(crate) fn config(&self) -> Result<Config> {
        let config = match &self.config {
            Some(file) => Config::from_file(file)?.env()?,
            None => Config::load()?,
        };
        match self.url.as_deref().filter(|url| !url.is_empty()) {
            Some(url) => config.url(url),
            None if config.has_store() => Ok(config),
            None => config.url("sqlite:"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a name
    Run(Box<Run>),
    /// Run a command while leading, and again when elected again
    Elect(Box<Elect>),
    /// List the names in use
    Ls(Ls),
    /// Show who holds a name and who waits for it
    Show(Show),
    /// Supervisor who holds what
    Top(Top),
    /// Take a name away from whoever holds it
    Release(Release),
    /// Look whether the store is set up such that locks are safe
    Doctor(Doctor),
    /// Print what makes a shell complete this command
    Completions(Completions),
    /// Look at the configuration itself, without asking the store
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Clone, Copy, Subcommand)]
#[command(after_help = "Exit codes:\n  0  it is right\n  2  it is wrong, and standard error says where")]
pub(crate) enum ConfigCommand {
    /// Say whether it is right
    Check,
    /// Show what it says and where each thing was config; passwords are masked
    Show,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "tenure run [OPTIONS] <NAME> -- <CMD>...\n       tenure run [OPTIONS] <NAME> -c <SCRIPT>",
    after_help = RUN_HELP,
    group = clap::ArgGroup::new("what").args(["cmd", "script"]).required(true),
)]
pub(crate) struct Run {
    /// CommandArgs to hold
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) what: CommandArgs,

    /// Give up when it is not held after DUR, connecting included [default: wait for ever, for a store that answers]
    #[arg(long, value_name = "DUR", value_parser = tenure::parse_duration, help_heading = "Waiting")]
    pub(crate) wait: Option<Duration>,
    /// Give up at once when it is busy
    #[arg(long, conflicts_with = "wait", help_heading = "Waiting")]
    pub(crate) no_wait: bool,

    /// Be served in the order of asking, across all processes
    #[arg(long, help_heading = "How it is shared", conflicts_with_all = ["shared", "exclusive", "limit"])]
    pub(crate) fair: bool,
    /// Share it with others that say --shared: the read half of a read/write lock
    #[arg(long, help_heading = "How it is shared", conflicts_with_all = ["exclusive", "limit"])]
    pub(crate) shared: bool,
    /// Exclude those that say --shared: the write half of a read/write lock
    #[arg(long, help_heading = "How it is shared", conflicts_with = "limit")]
    pub(crate) exclusive: bool,
    /// Let up to N run at once: a semaphore
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How it is shared")]
    pub(crate) limit: Option<u32>,
    /// Count as K of the N
    #[arg(
        long,
        value_name = "K",
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "limit",
        default_value_t = 1,
        hide_default_value = true,
        help_heading = "How it is shared"
    )]
    pub(crate) permits: u32,

    /// Hold for DUR at most, without renewing; CMD is ended before that
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Holding")]
    pub(crate) lease: Option<Duration>,
    /// Renew, but not beyond DUR; CMD is ended before that
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Holding")]
    pub(crate) max_hold: Option<Duration>,
    /// How long CMD has between TERM and KILL when the name is lost, at most a third of the lease; and what it started,
    /// when a signal ended it
    #[arg(
        long,
        value_name = "DUR",
        value_parser = tenure::parse_duration,
        default_value = "5s",
        help_heading = "Holding"
    )]
    pub(crate) grace: Duration,
    /// How many copies of the store must have it before CMD runs: master, or replicas:N [default: as the store's address
    /// says]
    #[arg(long, value_name = "COPIES", help_heading = "Holding")]
    pub(crate) durability: Option<Durability>,
    /// A word for people, shown with the holder
    #[arg(long, value_name = "TEXT", help_heading = "Holding")]
    pub(crate) note: Option<String>,
    /// Hold it under this word instead of a random one, where others go by it too: on Redis with layout=plain, and
    /// redlock:. Whoever knows it can `tenure release NAME --token TOKEN`
    #[arg(
        long,
        value_name = "TOKEN",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Holding",
        conflicts_with_all = ["fair", "shared", "exclusive", "limit"]
    )]
    pub(crate) token: Option<String>,

    /// Exit code when it is busy, still is after --wait, or was in each round of a quorum
    #[arg(long, value_name = "CODE", default_value_t = 75, help_heading = "Exit codes")]
    pub(crate) busy_code: u8,
    /// Exit code when it was lost while CMD ran
    #[arg(long, value_name = "CODE", default_value_t = 76, help_heading = "Exit codes")]
    pub(crate) lost_code: u8,
    /// Exit code when the store cannot be reached
    #[arg(long, value_name = "CODE", default_value_t = 69, help_heading = "Exit codes")]
    pub(crate) unavailable_code: u8,
}

/// CommandArgs runs while something is held.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    /// The command and its arguments, run without a shell
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
    /// Run SCRIPT with sh -c instead of a command
    #[arg(short = 'c', value_name = "SCRIPT")]
    pub(crate) script: Option<OsString>,
    /// Let CMD use the store too: hand on TENURE_URL and its like although they contain a password
    #[arg(long)]
    pub(crate) share_store: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only names that begin so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// At most N names
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes:\n  0  somebody holds it or waits for it\n  1  nobody does")]
pub(crate) struct Show {
    /// The name
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = RELEASE_HELP)]
pub(crate) struct Release {
    /// The name
    pub(crate) name: String,
    /// Yes, take it from its holder: otherwise only the holder itself can release it
    #[arg(long)]
    pub(crate) force: bool,
    /// Only from this holder, as `show` names its hold
    #[arg(long, value_name = "HOLD")]
    pub(crate) hold: Option<String>,
    /// As its holder, who took it under this token: no other hold is touched
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["force", "hold", "yes"])]
    pub(crate) token: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct Doctor {}

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

fn positive_duration(text: &str) -> std::result::Result<Duration, String> {
    match tenure::parse_duration(text)? {
        Duration::ZERO => Err("must be more than nothing".into()),
        d => Ok(d),
    }
}

const EXAMPLES: &str = "\
Examples:
  tenure run backup -- /usr/local/bin/backup --full      wait for the lock, then run
  tenure run backup --no-wait -- ./backup                skip this time if it runs already
  tenure run api --limit 4 -- ./fetch                    at most four at once
  tenure elect cron -- ./scheduler                       lead, or stand by
  tenure ls
  tenure show backup
  tenure top
  tenure doctor --url redis://localhost                  is that server good for locks?
  tenure config check --config app.toml                  does that file say something wrong?

`tenure help run` has more, and the exit codes.";

const RUN_HELP: &str = "\
CMD sees TENURE_NAME, TENURE_FENCE (a number that grows with each grant), TENURE_HOLD and TENURE_HOLDS, but no password \
of the store unless --share-store says so. \
It runs in a process group of its own; TERM, INT, HUP, QUIT, USR1 and USR2 sent to tenure go to that whole group, unless \
systemd, or the init of a container, has sent them to all processes anyway. When CMD ends by one of them, so does tenure.

When CMD exits by itself the name is released, and what it left in the background is left alone. When TERM, INT, HUP or \
QUIT was passed on before, or any signal ended CMD, the name is held until all of the group is gone; KILL comes --grace \
after the end of CMD.

When the name is about to be lost the group gets TERM, and KILL before the lease ends. When it was taken away, by \
`tenure release --force` say, that shows at the next renewal: then KILL comes --grace after TERM.

A second process of tenure, in a session of its own, keeps watch: should tenure be stopped, it kills the group before \
the lease ends; should tenure be killed, at once. Should it be killed itself, tenure says so and goes on. Out of its \
reach is what leaves the process group, as daemons do, what runs with rights that tenure does not have, as under sudo \
(say `sudo tenure run …` instead), what runs when both processes of tenure are killed together, and a machine or container \
that is frozen as a whole. CommandArgs is protected can tell by the fence.

A name that is held by a tenure around this one cannot be waited for: that one waits for this one to end. So \
`tenure run n -- tenure run n -- CMD` is refused with exit code 2.

Exit codes:
  CMD's own, or 128 + n when signal n ended it
    2  wrong usage, address or option, or a wait for itself
   69  the store cannot be reached, for all of --wait if that is given (--unavailable-code)
   75  busy, still busy after --wait, or after all rounds of a quorum (--busy-code)
   76  lost while CMD ran, or released by force (--lost-code)
  126  CMD cannot be run
  127  CMD was not found
  128 + n  signal n came while waiting

Without --wait it waits for ever, unless the address of a quorum says how often to try (`tries=`).

Examples:
  tenure run backup -- ./backup --full
  tenure run backup --wait 5m -c './dump | gzip > dump.gz'
  tenure run report --max-hold 1h --note 'nightly report' -- ./report
  tenure run cache --shared -- ./read      and      tenure run cache --exclusive -- ./rebuild
  tenure run api --limit 4 --permits 2 -- ./heavy
  tenure run order-42 --token request-7 --url 'redis://cache-1?layout=plain' -- ./charge
  TENURE_URL='sqlite:/var/lib/app/locks.db?lease=10s' tenure run job -- ./job";

const RELEASE_HELP: &str = "\
The holder learns at its next renewal, a third of its lease later at most, that it was released: until then it \
may work on. CommandArgs it protects can tell by the fence, which is larger for the next holder. A holder of another \
library is `foreign`; it learns it in its own way.

With --token it is released as by its holder: nobody is asked, and a hold under another token stays.

Exit codes:
  0  it was released
  1  nobody held it";

const DOCTOR_HELP: &str = "\
On a server it looks at eviction, persistence, replicas, rights, clock and more, and takes and releases a lock \
of its own. CommandArgs the server does not let it see is `unknown`, and no reason for a bad exit code.

Exit codes:
   0  nothing to worry about
   1  there are warnings or errors
  69  the store cannot be reached";

const COMPLETIONS_HELP: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure              where fpath has ~/.zfunc
  tenure completions fish > ~/.config/fish/completions/tenure.fish";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        for good in [
            "tenure run n -- true",
            "tenure run n -c true",
            "tenure run n --limit 3 --permits 2 -- true",
            "tenure run n --lease 3s --max-hold 9s --wait 1s --shared --json -q -- true -x",
            "tenure run n --durability master -- true",
            "tenure run n --durability replicas:2 -- true",
            "tenure run n --token t --wait 1s --share-store -- true",
            "tenure release n --token t",
            "tenure --url memory: ls",
            "tenure ls --url memory: a/",
            "tenure release n --force --hold 4f3c:-5 --yes",
            "tenure doctor --json --url redis://h",
            "tenure elect n -- true -x",
            "tenure elect n --once --note a --max-hold 1h --grace 1s -c true",
            "tenure top",
            "tenure top orders/ --once --json --sort waiters --every 500ms",
            "tenure completions zsh",
            "tenure config show --json --config app.toml",
            "tenure --config app.toml config check",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good).err().map(|e| e.to_string()));
        }
        for bad in [
            "tenure run n",
            "tenure run n true",
            "tenure run n -c true -- true",
            "tenure run n --wait 1s --no-wait -- true",
            "tenure run n --wait 1 -- true",
            "tenure run n --fair --limit 2 -- true",
            "tenure run n --shared --exclusive -- true",
            "tenure run n --permits 2 -- true",
            "tenure run n --limit 0 -- true",
            "tenure run n --lease 0s -- true",
            "tenure run n --durability 2 -- true",
            "tenure run n --durability replicas:0 -- true",
            "tenure run n --busy-code 256 -- true",
            "tenure run n --token t --fair -- true",
            "tenure release n --token t --force",
            "tenure elect n",
            "tenure elect n -c true -- true",
            "tenure elect n --max-hold 0s -- true",
            "tenure top --sort holder",
            "tenure top --every 0s",
            "tenure completions csh",
            "tenure config",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
