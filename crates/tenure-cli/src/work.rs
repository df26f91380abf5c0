//! A command that runs under a hold: started with what it should know, watched, and ended before the hold is.

use std::io;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tenure::backend::Liveness;
use tenure::{Client, Clock, Error, Guard};
use tokio::time::{sleep, timeout};

use crate::args::What;
use crate::ending::{Ending, Step};
use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::job::{Change, Job};
use crate::nested;
use crate::report::{Event, Report};
use crate::signals::{Signals, means_end};

/// What is to run, and how it is to end.
pub(crate) struct Work<'a> {
    pub(crate) name: &'a str,
    pub(crate) what: &'a What,
    /// A lease that is not renewed.
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) grace: Duration,
}

/// How a command ended.
pub(crate) enum End {
    /// By itself; also one that could not be started.
    Itself(Exit),
    /// It was ended, because the hold was about to end. What may still be held is freed by dropping the guard.
    Lost {
        /// The signal by which somebody wanted it to end before, or meanwhile.
        told: Option<Signal>,
    },
}

impl Work<'_> {
    /// Runs it to its end.
    pub(crate) async fn run(
        &self,
        client: &Client,
        guard: &Guard,
        guardian: &mut Guardian,
        report: Report,
        signals: &mut Signals,
    ) -> End {
        let lease = self.lease.unwrap_or(client.settings().lease);
        let clock = Clock::boot();
        let (now, left) = (clock.now(), guard.remaining());
        if let Err(Error::Lost(lost)) = guard.ensure(Duration::ZERO) {
            // Tenure stood still between the grant and here.
            report.event(&Event::Lost { name: self.name, reason: &lost.reason.to_string() });
            return End::Lost { told: None };
        }
        let mut ending = Ending::new(now, self.grace, lease, self.lease.is_none(), self.max_hold);
        if client.backend().info().liveness == Liveness::Session {
            ending = ending.with_session(now, left);
        }
        match Job::spawn(self.command(guard), guardian, ending.at_the_latest(now, left)) {
            Ok(job) => supervise(job, guard, ending, &clock, self.name, report, signals).await,
            Err(error) => {
                let what =
                    self.what.cmd.first().map_or_else(|| "/bin/sh".into(), |cmd| cmd.to_string_lossy());
                report.error(format!("cannot run {what}: {error}"));
                End::Itself(Exit::code(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }))
            }
        }
    }

    fn command(&self, guard: &Guard) -> Command {
        let mut command = match (&self.what.script, self.what.cmd.split_first()) {
            (None, Some((program, arguments))) => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            (script, _) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").args(script);
                command
            }
        };
        if !self.what.share_store {
            withhold_secrets(&mut command);
        }
        command.env("TENURE_NAME", self.name).env("TENURE_HOLD", guard.id().to_string());
        command.env(nested::HOLDS, nested::holds_with(guard.id()));
        match guard.fence() {
            Some(fence) => command.env("TENURE_FENCE", fence.to_string()),
            // An outer tenure may have set one.
            None => command.env_remove("TENURE_FENCE"),
        };
        command
    }
}

/// Keeps the store's password from the command. What looks for its store in the environment, such as another tenure, is
/// to fail then: it must not lock in the store that is the default.
fn withhold_secrets(command: &mut Command) {
    let said = tenure::Config::from_env().map(|config| config.entries()).unwrap_or_default();
    if said.iter().any(|entry| entry.is_masked()) {
        for entry in said {
            command.env_remove(entry.from);
        }
        command.env("TENURE_URL", tenure::WITHHELD);
    }
}

/// Gives back what a command has run under, and says whether it was held until then.
pub(crate) async fn release(
    guard: Guard,
    name: &str,
    code: u8,
    report: Report,
    signals: &mut Signals,
) -> bool {
    let released = tokio::select! {
        released = guard.release() => released,
        _ = signals.next_end() => return true,
    };
    match released {
        Ok(()) => report.event(&Event::Released { name, code }),
        Err(Error::Lost(lost)) => {
            report.event(&Event::Lost { name, reason: &lost.reason.to_string() });
            return false;
        }
        // The command was alone to its end: only the next one has to wait.
        Err(error) => report.warn(format!("{name} may stay held until its lease ends: {error}")),
    }
    true
}

async fn supervise(
    mut job: Job<'_>,
    guard: &Guard,
    mut ending: Ending,
    clock: &Clock,
    name: &str,
    report: Report,
    signals: &mut Signals,
) -> End {
    let (mut stopped, mut told) = (false, None);
    loop {
        let lost = match guard.ensure(Duration::ZERO) {
            Err(Error::Lost(lost)) => Some(lost.reason),
            _ => None,
        };
        let (now, left) = (clock.now(), guard.remaining());
        let step = ending.step(now, left, lost);
        job.is_held_until(ending.at_the_latest(now, left));
        let pause = match step {
            Step::Wait(pause) => pause,
            Step::Term(why) => {
                report.event(&Event::Lost { name, reason: &why });
                job.end();
                continue;
            }
            Step::Kill => {
                job.send(Signal::KILL);
                continue;
            }
        };
        // Only after the look: one that slept through its lease must not go on.
        if std::mem::take(&mut stopped) {
            job.resume();
        }
        tokio::select! {
            change = job.change() => match change {
                Change::Ended(exit) if !ending.begun() => return End::Itself(exit),
                Change::Ended(_) => break,
                change => {
                    if report.is_watched() {
                        let then = "unless continued the command is killed before its lease ends";
                        report.warn(format!("stopped: {name} is not renewed, and {then}"));
                    }
                    job.stop_too(change == Change::Stopped).await;
                    stopped = true;
                }
            },
            signal = signals.next() => {
                if means_end(signal) {
                    told.get_or_insert(signal);
                }
                job.pass_on(signal).await;
            }
            _ = guard.lost(), if !ending.begun() => {}
            () = sleep(pause) => {}
        }
    }
    // The command is gone; those that it left behind have the rest of the grace.
    loop {
        match ending.step(clock.now(), Duration::ZERO, None) {
            Step::Wait(pause) if ending.is_over() => {
                // One that was an orphan before, and that nobody reaps, stays in its group: this is not waited for long.
                let _ = timeout(pause.min(Duration::from_millis(200)), job.emptied()).await;
                return End::Lost { told };
            }
            Step::Wait(pause) => {
                if timeout(pause, job.emptied()).await.is_ok() {
                    return End::Lost { told };
                }
            }
            Step::Kill | Step::Term(_) => job.send(Signal::KILL),
        }
    }
}
