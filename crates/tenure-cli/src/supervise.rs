//! Runs a command under a hold: starts it with its environment, watches it, and ends it before the hold ends.

use std::io;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tenure::backend::Clock;
use tenure::backend::Liveness;
use tenure::{Client, Error, Guard};
use tokio::time::{sleep, timeout};

use crate::args::CommandArgs;
use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::job::{Change, Job};
use crate::nested;
use crate::report::{Event, Report};
use crate::signals::{Signals, asks_to_end};
use crate::termination::{Step, Termination};
use crate::times::human;

/// How long to wait for killed processes to be reaped. A zombie that was an orphan before, and that nobody reaps, stays
/// in the group.
const REAPED: Duration = Duration::from_millis(200);

/// The command to run, and its time limits.
pub(crate) struct CommandSpec<'a> {
    pub(crate) name: &'a str,
    pub(crate) what: &'a CommandArgs,
    /// A fixed lease, which is not renewed.
    pub(crate) lease: Option<Duration>,
    /// The token that it is held under instead of an id of its own.
    pub(crate) token: Option<&'a str>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) grace: Duration,
}

/// How the run ended.
pub(crate) enum Outcome {
    /// The command ended by itself, or could not be started.
    Exited(Exit),
    /// The command was ended because the hold was about to end. Dropping the guard releases what may still be held.
    Lost {
        /// The signal by which tenure was asked to end before, or meanwhile.
        end_signal: Option<Signal>,
    },
}

impl CommandSpec<'_> {
    /// Runs the command until it has ended.
    pub(crate) async fn run(
        &self,
        client: &Client,
        guard: &Guard,
        guardian: &mut Guardian,
        report: Report,
        signals: &mut Signals,
    ) -> Outcome {
        let lease = guard.lease();
        let clock = Clock::boot();
        let (now, left) = (clock.now(), guard.remaining());
        if let Err(Error::Lost(lost)) = guard.ensure(Duration::ZERO) {
            // Tenure was stopped or suspended between the grant and here.
            report.event(&Event::Lost { name: self.name, reason: &lost.reason.to_string() });
            return Outcome::Lost { end_signal: None };
        }
        let mut termination = Termination::new(now, self.grace, lease, self.lease.is_none(), self.max_hold);
        if client.backend().info().liveness == Liveness::Session {
            termination = termination.with_session(now, left);
        }
        match Job::spawn(self.command(guard), guardian, termination.guardian_deadline(now, left)) {
            Ok(job) => {
                let (name, grace) = (self.name, self.grace);
                let supervisor =
                    Supervisor { job, guard, termination, clock, name, grace, report, end_signal: None };
                supervisor.run_to_end(signals).await
            }
            Err(error) => {
                let what =
                    self.what.cmd.first().map_or_else(|| "/bin/sh".into(), |cmd| cmd.to_string_lossy());
                report.error(format!("cannot run {what}: {error}"));
                Outcome::Exited(Exit::code(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }))
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
        command.env(nested::HOLDS, nested::holds_with(guard.id(), self.name, self.token));
        match guard.fence() {
            Some(fence) => command.env("TENURE_FENCE", fence.to_string()),
            // An outer tenure may have set one.
            None => command.env_remove("TENURE_FENCE"),
        };
        command
    }
}

/// Keeps the store's password from the command. A program that reads its store from the environment, such as another
/// tenure, then fails: it must not lock in the default store instead.
fn withhold_secrets(command: &mut Command) {
    let said = tenure::Config::from_env().map(|config| config.entries()).unwrap_or_default();
    if said.iter().any(|entry| entry.is_masked()) {
        for entry in said {
            command.env_remove(entry.from);
        }
        command.env("TENURE_URL", tenure::WITHHELD);
    }
}

/// What a release found.
pub(crate) enum Released {
    /// It was held until the command ended.
    Held,
    Lost,
    /// The store could not be told that the command has succeeded.
    Unheard,
}

/// Releases the hold after the command ended. `period`: the command has succeeded, which counts for so long.
pub(crate) async fn release(
    guard: Guard,
    name: &str,
    code: u8,
    period: Option<Duration>,
    report: Report,
    signals: &mut Signals,
) -> Released {
    // Signals received until now were meant for the command.
    signals.forget().await;
    let released = tokio::select! {
        released = guard.release() => released,
        _ = signals.next_end() => return Released::Held,
    };
    match (released, period) {
        (Ok(()), _) => report.event(&Event::Released { name, code }),
        (Err(Error::Lost(lost)), _) => {
            report.event(&Event::Lost { name, reason: &lost.reason.to_string() });
            return Released::Lost;
        }
        (Err(error), Some(period)) => {
            let period = human(period);
            report.error(format!("{name} may run again within {period}, although it has succeeded: {error}"));
            return Released::Unheard;
        }
        // The command ran under the hold to its end; only the next holder has to wait for the lease.
        (Err(error), None) => report.warn(format!("{name} may stay held until its lease ends: {error}")),
    }
    Released::Held
}

/// A running command and the hold that it runs under.
struct Supervisor<'a> {
    job: Job<'a>,
    guard: &'a Guard,
    termination: Termination,
    clock: Clock,
    name: &'a str,
    grace: Duration,
    report: Report,
    /// The first signal that asked the command to end.
    end_signal: Option<Signal>,
}

impl Supervisor<'_> {
    async fn run_to_end(mut self, signals: &mut Signals) -> Outcome {
        let exit = self.wait_for_command(signals).await;
        if !self.termination.is_terminating() && self.job.is_ending_group() {
            self.wait_for_group(signals).await;
        }
        if !self.termination.is_terminating() {
            return Outcome::Exited(exit);
        }
        self.end_group().await;
        Outcome::Lost { end_signal: self.end_signal }
    }

    /// Checks the hold and sends TERM or KILL if due. Returns the time until the next check.
    fn check_hold(&mut self) -> Duration {
        loop {
            let lost = match self.guard.ensure(Duration::ZERO) {
                Err(Error::Lost(lost)) => Some(lost.reason),
                _ => None,
            };
            let (now, left) = (self.clock.now(), self.guard.remaining());
            let step = self.termination.step(now, left, lost);
            self.job.set_deadline(self.termination.guardian_deadline(now, left));
            match step {
                Step::Wait(pause) => return pause,
                Step::Term(why) => {
                    // Before the report: that could block, if standard error is a pipe that nobody reads.
                    self.job.end();
                    self.report.event(&Event::Lost { name: self.name, reason: &why });
                }
                Step::Kill => self.job.send(Signal::KILL),
            }
        }
    }

    /// Waits until the command itself has ended, by itself or by a signal.
    async fn wait_for_command(&mut self, signals: &mut Signals) -> Exit {
        let mut stopped = false;
        loop {
            let pause = self.check_hold();
            // Only after the check: if the lease expired meanwhile, the command must not continue.
            if std::mem::take(&mut stopped) {
                self.job.resume();
            }
            tokio::select! {
                change = self.job.change() => match change {
                    Change::Ended(exit) => return exit,
                    Change::Unguarded => self.warn_unguarded(),
                    Change::Stopped | Change::StopAsked => {
                        self.warn_stopped();
                        self.job.stop_self(change == Change::Stopped).await;
                        stopped = true;
                    }
                },
                signal = signals.next() => self.forward(signal).await,
                _ = self.guard.lost(), if !self.termination.is_terminating() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Waits until the processes that the command left behind are gone. They get the grace period, under the same hold.
    async fn wait_for_group(&mut self, signals: &mut Signals) {
        let kill_at = self.clock.now().after(self.grace);
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                () = self.job.wait_until_empty() => return,
                signal = signals.next() => self.forward(signal).await,
                _ = self.guard.lost() => {}
                () = sleep(pause) => {}
            }
            pause = self.check_hold();
            let left = kill_at.since(self.clock.now());
            if self.termination.is_terminating() {
                return;
            }
            if left.is_zero() {
                self.job.send(Signal::KILL);
                let _ = timeout(REAPED, self.job.wait_until_empty()).await;
                return;
            }
            pause = pause.min(left);
        }
    }

    /// Called when the command was ended and is gone: gives the processes it left behind the rest of the grace period.
    async fn end_group(&mut self) {
        loop {
            match self.termination.step(self.clock.now(), Duration::ZERO, None) {
                Step::Wait(pause) if self.termination.is_killed() => {
                    let _ = timeout(pause.min(REAPED), self.job.wait_until_empty()).await;
                    return;
                }
                Step::Wait(pause) => {
                    if timeout(pause, self.job.wait_until_empty()).await.is_ok() {
                        return;
                    }
                }
                Step::Kill | Step::Term(_) => self.job.send(Signal::KILL),
            }
        }
    }

    async fn forward(&mut self, signal: Signal) {
        if asks_to_end(signal) {
            self.end_signal.get_or_insert(signal);
        }
        self.job.forward(signal).await;
    }

    fn warn_stopped(&self) {
        if self.report.is_interactive() {
            self.report.warn(format!(
                "stopped: {} is not renewed, and the command is killed before the lease ends unless it is continued",
                self.name
            ));
        }
    }

    fn warn_unguarded(&self) {
        let report = self.report;
        let warning = "the guardian process has ended: if tenure is stopped or killed, the command may run on without the \
                       lock";
        // On another thread: if the write blocks, no guardian is left to end the command.
        tokio::task::spawn_blocking(move || report.warn(warning));
    }
}
