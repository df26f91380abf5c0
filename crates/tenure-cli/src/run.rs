//! `tenure run`: hold a name, run a command, end it before the hold does, pass its code on.

use std::io;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tenure::backend::Liveness;
use tenure::{Client, Clock, Error, Guard, Result};
use tokio::time::{sleep, timeout};

use crate::args::Run;
use crate::ending::{Ending, Step};
use crate::job::{Change, Job};
use crate::report::{Event, Report};
use crate::signals::Signals;
use crate::wait::{self, Got};

/// How a command ended.
enum End {
    Itself(u8),
    Lost,
    NotStarted(io::Error),
}

/// The exit code.
pub(crate) async fn run(client: &Client, run: &Run, report: Report) -> Result<u8> {
    let failed = |e| Error::Config(format!("cannot listen to signals: {e}"));
    let mut signals = Signals::listen().map_err(failed)?;
    let got = wait::acquire(&wait::template(client, run), run, report, &mut signals).await;
    let code = match got {
        Ok(Got::Held(guard)) => held(client, run, guard, report, &mut signals).await,
        Ok(Got::Busy) => Ok(run.busy_code),
        Ok(Got::Signal(signal)) => Ok(128 + signal.as_raw() as u8),
        Err(error) => Err(error),
    };
    // Whoever sends another signal does not want to wait for the store either.
    tokio::select! {
        closed = client.close() => if let Err(error) = closed {
            report.warn(error);
        },
        _ = signals.next_end() => {}
    }
    code
}

async fn held(client: &Client, run: &Run, guard: Guard, report: Report, signals: &mut Signals) -> Result<u8> {
    let name = run.name.as_str();
    let lease = run.lease.unwrap_or(client.settings().lease);
    let clock = Clock::boot();
    let mut ending = Ending::new(clock.now(), run.grace, lease, run.lease.is_none(), run.max_hold);
    if client.backend().info().liveness == Liveness::Session {
        ending = ending.with_session(guard.remaining());
    }
    let end = match Job::spawn(command(run, &guard)) {
        Ok(job) => supervise(job, &guard, ending, &clock, name, report, signals).await,
        Err(error) => End::NotStarted(error),
    };
    let code = match end {
        End::Itself(code) => code,
        // What may still be held is freed by the drop, which close waits for.
        End::Lost => return Ok(run.lost_code),
        End::NotStarted(error) => {
            let what = run.cmd.first().map_or_else(|| "/bin/sh".into(), |cmd| cmd.to_string_lossy());
            report.error(format!("cannot run {what}: {error}"));
            if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
        }
    };
    let released = tokio::select! {
        released = guard.release() => released,
        _ = signals.next_end() => return Ok(code),
    };
    match released {
        Ok(()) => report.event(&Event::Released { name, code }),
        Err(Error::Lost(lost)) => {
            report.event(&Event::Lost { name, reason: &lost.reason.to_string() });
            return Ok(run.lost_code);
        }
        // The command was alone to its end: only the next one has to wait.
        Err(error) => report.warn(format!("{name} may stay held until its lease ends: {error}")),
    }
    Ok(code)
}

fn command(run: &Run, guard: &Guard) -> Command {
    let mut command = match (&run.script, run.cmd.split_first()) {
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
    command.env("TENURE_NAME", &run.name).env("TENURE_HOLD", guard.id().to_string());
    match guard.fence() {
        Some(fence) => command.env("TENURE_FENCE", fence.to_string()),
        // An outer tenure may have set one.
        None => command.env_remove("TENURE_FENCE"),
    };
    command
}

async fn supervise(
    mut job: Job,
    guard: &Guard,
    mut ending: Ending,
    clock: &Clock,
    name: &str,
    report: Report,
    signals: &mut Signals,
) -> End {
    let mut stopped = false;
    loop {
        let lost = match guard.ensure(Duration::ZERO) {
            Err(Error::Lost(lost)) => Some(lost.reason),
            _ => None,
        };
        let pause = match ending.step(clock.now(), guard.remaining(), lost) {
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
                Change::Ended(code) if !ending.begun() => return End::Itself(code),
                Change::Ended(_) => break,
                change => {
                    if report.is_watched() {
                        report.warn(format!("stopped, and {name} is not renewed until continued"));
                    }
                    job.stop_too(change == Change::Stopped).await;
                    stopped = true;
                }
            },
            signal = signals.next() => job.send(signal),
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
                return End::Lost;
            }
            Step::Wait(pause) => {
                if timeout(pause, job.emptied()).await.is_ok() {
                    return End::Lost;
                }
            }
            Step::Kill | Step::Term(_) => job.send(Signal::KILL),
        }
    }
}
