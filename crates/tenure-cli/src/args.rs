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

/// Run commands under distributed locks, and show who holds them
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
    /// Address of the store, such as sqlite:/var/lib/app/locks.db?lease=10s or redis://host [default: sqlite:, a file in
    /// your state directory] [env: TENURE_URL]
    ///
    /// Overrides TENURE_URL, which overrides the configuration file.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// TOML configuration file. Variables such as TENURE_NODES, and --url, override it [env: TENURE_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON: results on standard output, events of `run` and `elect` on standard error, one per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only errors and warnings
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
        match self.url() {
            Some(url) => config.url(url),
            None if config.has_store() => Ok(config),
            None => config.url("sqlite:"),
        }
    }

    /// Merges the same, and keeps what is wrong.
    pub(crate) fn collect(&self) -> Config {
        let config = Config::collect(self.config.as_deref(), self.url());
        match config.has_store() {
            true => config,
            false => Config::collect(self.config.as_deref(), Some("sqlite:")),
        }
    }

    fn url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    Run(Box<Run>),
    /// Run a command while this process is the elected leader
    Elect(Box<Elect>),
    /// List the locks in use
    Ls(Ls),
    /// Show who holds a lock and who waits for it
    Show(Show),
    /// Live view of all locks and their holders
    Top(Top),
    /// Release a lock: by force, or by its token
    Release(Release),
    /// Change the number of permits of a semaphore
    Resize(Resize),
    /// Check that the store is configured safely for locks
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Check or show the configuration, without connecting to the store
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Clone, Copy, Subcommand)]
#[command(
    after_help = "Exit codes:\n  0  the configuration is valid\n  2  it is not valid; standard error says which keys and why"
)]
pub(crate) enum ConfigCommand {
    /// Check that the configuration is valid
    Check,
    /// Show each key with its value and where it was set; passwords are masked
    Show,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "tenure run [OPTIONS] <NAME> -- <CMD>...\n       tenure run [OPTIONS] <NAME> -c <SCRIPT>",
    after_help = RUN_HELP,
    group = clap::ArgGroup::new("what").args(["cmd", "script"]).required(true),
)]
pub(crate) struct Run {
    /// Name of the lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) what: CommandArgs,

    /// Give up after DUR, including the time to connect [default: wait forever, but fail if the store cannot be reached]
    #[arg(long, value_name = "DUR", value_parser = tenure::parse_duration, help_heading = "Waiting")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: give up if another process holds it
    #[arg(long, conflicts_with = "wait", help_heading = "Waiting")]
    pub(crate) no_wait: bool,

    /// Grant in the order of requests, across all processes
    #[arg(long, help_heading = "Kind of lock", conflicts_with_all = ["shared", "exclusive", "limit"])]
    pub(crate) fair: bool,
    /// Read lock of a read/write lock: shared with other --shared runs
    #[arg(long, help_heading = "Kind of lock", conflicts_with_all = ["exclusive", "limit"])]
    pub(crate) shared: bool,
    /// Write lock of a read/write lock: excludes all --shared and --exclusive runs
    #[arg(long, help_heading = "Kind of lock", conflicts_with = "limit")]
    pub(crate) exclusive: bool,
    /// Semaphore with N permits: up to N run at once
    ///
    /// The store keeps the N of the first run; `tenure resize` changes it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Kind of lock")]
    pub(crate) limit: Option<u32>,
    /// Take K of the N permits [default: 1]
    #[arg(
        long,
        value_name = "K",
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "limit",
        default_value_t = 1,
        hide_default_value = true,
        help_heading = "Kind of lock"
    )]
    pub(crate) permits: u32,

    /// Hold for at most DUR, without renewal; CMD is ended before that
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Holding")]
    pub(crate) lease: Option<Duration>,
    /// Renew the lease, but hold for at most DUR; CMD is ended before that
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Holding")]
    pub(crate) max_hold: Option<Duration>,
    /// Keep the lock for at least DUR, even if CMD ends earlier, so that a machine whose clock is behind does not run it
    /// again
    #[arg(long, value_name = "DUR", value_parser = positive_duration, help_heading = "Holding")]
    pub(crate) at_least: Option<Duration>,
    /// Run CMD at most once per DUR across all machines: when it has succeeded, NAME stays held until DUR after its start,
    /// and others find it busy. A CMD that fails does not count. For a timetable DUR must be shorter than the interval (23h
    /// for a nightly job), or the next run comes a moment too early and is skipped
    #[arg(
        long,
        value_name = "DUR",
        value_parser = positive_duration,
        help_heading = "Holding",
        conflicts_with_all = ["wait", "fair", "shared", "exclusive", "limit", "token", "lease", "durability"]
    )]
    pub(crate) once_per: Option<Duration>,
    /// Time between TERM and KILL when the lock is lost, at most a third of the lease. After a signal has ended CMD, the
    /// time that its remaining processes have
    #[arg(
        long,
        value_name = "DUR",
        value_parser = tenure::parse_duration,
        default_value = "5s",
        help_heading = "Holding"
    )]
    pub(crate) grace: Duration,
    /// Replicas that must have the grant before CMD runs: master (none), or replicas:N [default: durability of the
    /// configuration]
    #[arg(long, value_name = "DURABILITY", help_heading = "Holding")]
    pub(crate) durability: Option<Durability>,
    /// Note that is shown with the holder
    #[arg(long, value_name = "TEXT", help_heading = "Holding")]
    pub(crate) note: Option<String>,
    /// Store this token instead of a random one, for Redis with layout=plain and for redlock:. Any process that knows it
    /// can release the lock with `tenure release NAME --token TOKEN`
    #[arg(
        long,
        value_name = "TOKEN",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Holding",
        conflicts_with_all = ["fair", "shared", "exclusive", "limit"]
    )]
    pub(crate) token: Option<String>,

    /// Exit code when the lock is busy: with --no-wait, after --wait, or after all tries of a quorum
    #[arg(long, value_name = "CODE", default_value_t = 75, help_heading = "Exit codes")]
    pub(crate) busy_code: u8,
    /// Exit code when the lock was lost while CMD ran
    #[arg(long, value_name = "CODE", default_value_t = 76, help_heading = "Exit codes")]
    pub(crate) lost_code: u8,
    /// Exit code when the store cannot be reached
    #[arg(long, value_name = "CODE", default_value_t = 69, help_heading = "Exit codes")]
    pub(crate) unavailable_code: u8,
}

/// The command to run.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    /// Command and its arguments, run without a shell
    #[arg(last = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
    /// Run SCRIPT with `sh -c` instead of a command
    #[arg(short = 'c', value_name = "SCRIPT")]
    pub(crate) script: Option<OsString>,
    /// Pass TENURE_URL and the other store variables to CMD even if they contain a password
    #[arg(long)]
    pub(crate) share_store: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only names that begin with this prefix
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Maximum number of names
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
    /// Also list idle names: semaphores that nobody uses, of which the store has the size
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes:\n  0  the lock has a holder or a waiter\n  1  it has neither")]
pub(crate) struct Show {
    /// Name of the lock
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = RELEASE_HELP)]
pub(crate) struct Release {
    /// Name of the lock
    pub(crate) name: String,
    /// Take the lock from its holders; without --force or --token only the holder itself can release it
    #[arg(long)]
    pub(crate) force: bool,
    /// Release only this hold; `tenure show` prints the ids
    #[arg(long, value_name = "HOLD")]
    pub(crate) hold: Option<String>,
    /// Release the hold with this token, as its holder would; other holds are not touched
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["force", "hold", "yes"])]
    pub(crate) token: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RESIZE_HELP)]
pub(crate) struct Resize {
    /// Name of the semaphore
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// Number of permits from now on
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) size: u32,
}

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct Doctor {}

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct Completions {
    /// Name of the shell
    pub(crate) shell: Shell,
}

fn positive_duration(text: &str) -> std::result::Result<Duration, String> {
    match tenure::parse_duration(text)? {
        Duration::ZERO => Err("must be greater than zero".into()),
        d => Ok(d),
    }
}

const EXAMPLES: &str = "\
Examples:
  tenure run backup -- /usr/local/bin/backup --full      wait for the lock, then run
  tenure run backup --no-wait -- ./backup                skip this run if another one is active
  tenure run api --limit 4 -- ./fetch                    at most four at once
  tenure elect cron -- ./scheduler                       run on the leader, stand by elsewhere
  tenure ls
  tenure show backup
  tenure top
  tenure doctor --url redis://localhost                  is this server configured safely for locks?
  tenure config check --config app.toml                  is this file valid?

`tenure help run` describes signals, lost locks and exit codes.";

const RUN_HELP: &str = "\
Environment: CMD gets TENURE_NAME, TENURE_FENCE (the fencing token: a number that grows with each grant), TENURE_HOLD \
and TENURE_HOLDS. Variables with the store's password are not passed to CMD, unless --share-store is given.

Signals: CMD runs in its own process group. TERM, INT, HUP, QUIT, USR1 and USR2 that tenure receives are forwarded to \
that group, unless systemd or the init process of a container sent them to all processes. When CMD dies of one of them, \
tenure exits by the same signal.

Release: when CMD exits by itself the lock is released, and processes that it left in the background keep running. When \
TERM, INT, HUP or QUIT was forwarded, or a signal killed CMD, the lock is held until the whole group has ended; KILL is \
sent --grace after the end of CMD.

Lost locks: before the lease ends without a renewal, the group gets TERM, and then KILL while the lock is still held. A \
lock that was released by force is noticed at the next renewal: the group gets TERM, and KILL after --grace.

Guardian: a second tenure process, in its own session, kills the group before the lease ends if tenure is stopped, and \
at once if tenure is killed. If the guardian itself is killed, tenure prints a warning and continues. The guardian \
cannot end processes that leave the process group, as daemons do, or that tenure may not signal, as under sudo (use \
`sudo tenure run …` instead). It cannot act if both tenure processes are killed together, or if the whole machine or \
container is frozen. Check the fencing token in the protected resource to cover these cases.

Nested runs: waiting for a lock that an outer `tenure run` holds would never end, so \
`tenure run n -- tenure run n -- CMD` fails with exit code 2.

Exit codes:
  exit code of CMD, or 128 + n when signal n killed it
    2  wrong usage, address or option, or a nested run that would wait for itself
   69  the store cannot be reached, for the whole --wait if that is given, or was not told that CMD has succeeded
       (--once-per) before the lease ended (--unavailable-code)
   75  busy: with --no-wait, after --wait, or after all tries of a quorum (--busy-code)
   76  the lock was lost or released by force while CMD ran (--lost-code)
  126  CMD cannot be run
  127  CMD was not found
  128 + n  signal n was received while waiting

Without --wait it waits forever, unless the address of a quorum limits the number of tries (`tries=`).

Examples:
  tenure run backup -- ./backup --full
  tenure run backup --wait 5m -c './dump | gzip > dump.gz'
  tenure run report --max-hold 1h --note 'nightly report' -- ./report
  tenure run report --once-per 23h -- ./report
  tenure run cache --shared -- ./read      and      tenure run cache --exclusive -- ./rebuild
  tenure run api --limit 4 --permits 2 -- ./heavy
  tenure run order-42 --token request-7 --url 'redis://cache-1?layout=plain' -- ./charge
  TENURE_URL='sqlite:/var/lib/app/locks.db?lease=10s' tenure run job -- ./job";

const RELEASE_HELP: &str = "\
With --force, the holder notices the release at its next renewal, at most a third of its lease later, and may continue \
to work until then. The next holder gets a larger fencing token, by which the protected resource can reject the old \
holder. Holders that belong to another library, such as Redisson, are shown as `foreign`; they notice the release in \
their own way.

With --token, the lock is released as its holder would do it: without confirmation, and only if it has that token.

Exit codes:
  0  it was released
  1  nobody held it";

const RESIZE_HELP: &str = "\
The size of a semaphore is stored with its first use; a --limit that differs later has no effect. This changes it for all \
processes at once. Permits in use stay in use: after a reduction none is granted until enough are released, and whoever \
waits for more permits than there are now is refused.

Example:
  tenure resize api 8
  tenure resize api 8 --json             prints name, size, before (null if none was stored) and in_use";

const DOCTOR_HELP: &str = "\
Checks eviction, persistence, replicas, permissions, the clock and more on a server, and acquires and releases a test \
lock. What the server does not permit to check is `unknown`, which does not change the exit code. Of a quorum, the \
servers that answer are checked even if they are no majority.

Exit codes:
   0  no problems found
   1  there are warnings or errors
  69  the store cannot be reached";

const COMPLETIONS_HELP: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure              if fpath contains ~/.zfunc
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
    fn contradicting_options_are_refused() {
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
            "tenure resize n 3",
            "tenure resize n 3 --json",
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
            "tenure resize n",
            "tenure resize n 0",
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
