//! `tenure run`: hold a name, run a command, end it before the hold does, pass its code on.

use tenure::{Client, Error, Guard, Result};

use crate::args::Run;
use crate::report::Report;
use crate::signals::Signals;
use crate::wait::{self, Got};
use crate::work::{End, Work, release};

/// The exit code.
pub(crate) async fn run(client: &Client, run: &Run, report: Report) -> Result<u8> {
    let failed = |e| Error::Config(format!("cannot listen to signals: {e}"));
    let mut signals = Signals::listen().map_err(failed)?;
    let got = wait::acquire(client, run, report, &mut signals).await;
    let code = match got {
        Ok(Got::Held(guard)) => Ok(held(client, run, guard, report, &mut signals).await),
        Ok(Got::Busy) => Ok(run.busy_code),
        Ok(Got::Signal(signal)) => Ok(128 + signal.as_raw() as u8),
        Err(error) => Err(error),
    };
    close(client, report, &mut signals).await;
    code
}

/// Waits until what is held is given back.
pub(crate) async fn close(client: &Client, report: Report, signals: &mut Signals) {
    // Whoever sends another signal does not want to wait for the store either.
    tokio::select! {
        closed = client.close() => if let Err(error) = closed {
            report.warn(error);
        },
        _ = signals.next_end() => {}
    }
}

async fn held(client: &Client, run: &Run, guard: Guard, report: Report, signals: &mut Signals) -> u8 {
    let work =
        Work { name: &run.name, what: &run.what, lease: run.lease, max_hold: run.max_hold, grace: run.grace };
    match work.run(client, &guard, report, signals).await {
        End::Itself(code) if release(guard, &run.name, code, report, signals).await => code,
        _ => run.lost_code,
    }
}
