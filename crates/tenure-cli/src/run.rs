//! `tenure run`: acquires a name, runs a command, ends it before the hold does, and exits with its code.

use std::time::Instant;

use tenure::{Client, Error, Guard, Result};

use crate::acquire::{self, Acquired};
use crate::args::Run;
use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::job::reap_orphans;
use crate::report::Report;
use crate::signals::Signals;
use crate::supervise::{CommandSpec, Outcome, Released, release};

/// Runs the command under the hold; returns how tenure is to exit. `--wait` ends at `until`.
pub(crate) async fn run(
    client: &Client,
    run: &Run,
    until: Option<Instant>,
    guardian: &mut Guardian,
    report: Report,
    signals: &mut Signals,
) -> Result<Exit> {
    let got = tokio::select! {
        got = acquire::acquire(client, run, until, report, signals) => got,
        () = reap_orphans(guardian) => unreachable!("it goes on for ever"),
    };
    let exit = match got {
        Ok(Acquired::Held(guard)) => Ok(held(client, run, guard, guardian, report, signals).await),
        Ok(Acquired::Busy) => Ok(Exit::code(run.busy_code)),
        // The quorum was tried `tries=` times and was contended each time.
        Err(error @ Error::GaveUp { .. }) => {
            report.error(error);
            Ok(Exit::code(run.busy_code))
        }
        Ok(Acquired::Signal(signal)) => Ok(Exit::from_signal(signal)),
        Err(error) => Err(error),
    };
    close(client, report, signals).await;
    exit
}

/// Closes the client, which waits for pending releases.
pub(crate) async fn close(client: &Client, report: Report, signals: &mut Signals) {
    // A further signal ends the wait for the store.
    tokio::select! {
        closed = client.close() => if let Err(error) = closed {
            report.warn(error);
        },
        _ = signals.next_end() => {}
    }
}

async fn held(
    client: &Client,
    run: &Run,
    guard: Guard,
    guardian: &mut Guardian,
    report: Report,
    signals: &mut Signals,
) -> Exit {
    let work = CommandSpec {
        name: &run.name,
        what: &run.what,
        lease: run.lease,
        token: run.token.as_deref(),
        max_hold: run.max_hold,
        grace: run.grace,
    };
    let end = work.run(client, &guard, guardian, report, signals).await;
    guardian.dismiss();
    let Outcome::Exited(exit) = end else { return Exit::code(run.lost_code) };
    let period = run.once_per.filter(|_| exit.code == 0);
    if let Some(Err(error)) = period.map(|period| guard.keep_at_least(period)) {
        report.warn(error);
    }
    match release(guard, &run.name, exit.code, period, report, signals).await {
        Released::Held => exit,
        Released::Lost => Exit::code(run.lost_code),
        Released::Unheard => Exit::code(run.unavailable_code),
    }
}
