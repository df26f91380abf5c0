//! A command that runs under a hold: started with what it should know, watched, and ended before the hold is.

use std::io;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tenure::backend::Clock;
use tenure::backend::Liveness;
use tenure::{Client, Error, Guard};
use tokio::time::{sleep, timeout};

use crate::args::What;
use crate::ending::{Ending, Step};
use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::job::{Change, Job};
use crate::nested;
use crate::report::{Event, Report};
use crate::signals::{Signals, means_end};

/// How long to wait for those that were killed to be reaped. One that was an orphan before, and that nobody reaps, stays
/// in its group.
const REAPED: Duration = Duration::from_millis(200);

/// What is to run, and how it is to end.
pub(crate) struct Work<'a> {
    pub(crate) name: &'a str,
    pub(crate) what: &'a What,
    /// A lease that is not renewed.
    pub(crate) lease: Option<Duration>,
    /// What it is held under instead of an id of its own.
    pub(crate) token: Option<&'a str>,
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
            Ok(job) => {
                let (name, grace) = (self.name, self.grace);
                let watch = Watch { job, guard, ending, clock, name, grace, report, told: None };
                watch.see_through(signals).await
            }
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
        command.env(nested::HOLDS, nested::holds_with(guard.id(), self.name, self.token));
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
    // Those were meant for the command.
    signals.forget().await;
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

/// A command that runs, and the hold that it runs under.
struct Watch<'a> {
    job: Job<'a>,
    guard: &'a Guard,
    ending: Ending,
    clock: Clock,
    name: &'a str,
    grace: Duration,
    report: Report,
    /// The first signal by which somebody wanted it to end.
    told: Option<Signal>,
}

impl Watch<'_> {
    async fn see_through(mut self, signals: &mut Signals) -> End {
        let exit = self.command_ends(signals).await;
        if !self.ending.begun() && self.job.takes_along() {
            self.others_end(signals).await;
        }
        if !self.ending.begun() {
            return End::Itself(exit);
        }
        self.clear_away().await;
        End::Lost { told: self.told }
    }

    /// Looks at the hold, and does what is due. How long until the next look.
    fn look(&mut self) -> Duration {
        loop {
            let lost = match self.guard.ensure(Duration::ZERO) {
                Err(Error::Lost(lost)) => Some(lost.reason),
                _ => None,
            };
            let (now, left) = (self.clock.now(), self.guard.remaining());
            let step = self.ending.step(now, left, lost);
            self.job.is_held_until(self.ending.at_the_latest(now, left));
            match step {
                Step::Wait(pause) => return pause,
                Step::Term(why) => {
                    // Before it is told of: standard error may be a pipe that nobody reads.
                    self.job.end();
                    self.report.event(&Event::Lost { name: self.name, reason: &why });
                }
                Step::Kill => self.job.send(Signal::KILL),
            }
        }
    }

    /// Until the command itself has ended, however that came.
    async fn command_ends(&mut self, signals: &mut Signals) -> Exit {
        let mut stopped = false;
        loop {
            let pause = self.look();
            // Only after the look: one that slept through its lease must not go on.
            if std::mem::take(&mut stopped) {
                self.job.resume();
            }
            tokio::select! {
                change = self.job.change() => match change {
                    Change::Ended(exit) => return exit,
                    Change::Unguarded => self.warn_unguarded(),
                    Change::Stopped | Change::StopAsked => {
                        self.warn_stopped();
                        self.job.stop_too(change == Change::Stopped).await;
                        stopped = true;
                    }
                },
                signal = signals.next() => self.pass_on(signal).await,
                _ = self.guard.lost(), if !self.ending.begun() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Until those are gone that the command started and did not wait for. They have the grace, under the same hold.
    async fn others_end(&mut self, signals: &mut Signals) {
        let kill_at = self.clock.now().after(self.grace);
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                () = self.job.emptied() => return,
                signal = signals.next() => self.pass_on(signal).await,
                _ = self.guard.lost() => {}
                () = sleep(pause) => {}
            }
            pause = self.look();
            let left = kill_at.since(self.clock.now());
            if self.ending.begun() {
                return;
            }
            if left.is_zero() {
                self.job.send(Signal::KILL);
                let _ = timeout(REAPED, self.job.emptied()).await;
                return;
            }
            pause = pause.min(left);
        }
    }

    /// The command was ended and is gone: those that it left behind have the rest of the grace.
    async fn clear_away(&mut self) {
        loop {
            match self.ending.step(self.clock.now(), Duration::ZERO, None) {
                Step::Wait(pause) if self.ending.is_over() => {
                    let _ = timeout(pause.min(REAPED), self.job.emptied()).await;
                    return;
                }
                Step::Wait(pause) => {
                    if timeout(pause, self.job.emptied()).await.is_ok() {
                        return;
                    }
                }
                Step::Kill | Step::Term(_) => self.job.send(Signal::KILL),
            }
        }
    }

    async fn pass_on(&mut self, signal: Signal) {
        if means_end(signal) {
            self.told.get_or_insert(signal);
        }
        self.job.pass_on(signal).await;
    }

    fn warn_stopped(&self) {
        if self.report.is_watched() {
            let then = "unless continued the command is killed before its lease ends";
            self.report.warn(format!("stopped: {} is not renewed, and {then}", self.name));
        }
    }

    fn warn_unguarded(&self) {
        let report = self.report;
        let lost = "the process that guards the command has ended";
        let then = "should tenure be stopped or killed, what the command started may outlive the hold";
        // Aside: should nobody read it, nobody else is left to end the command.
        tokio::task::spawn_blocking(move || report.warn(format!("{lost}: {then}")));
    }
}
