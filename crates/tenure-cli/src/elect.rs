//! `tenure elect`: stand for election, run a command while leading, and stand again when leadership was lost.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure::{Client, Election, Error, Guard, Result};
use tokio::time::sleep;

use crate::args::Elect;
use crate::report::{Event, Report};
use crate::run::close;
use crate::signals::Signals;
use crate::wait::tell;
use crate::work::{End, Work, release};

/// How long a store that fails is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// The exit code.
pub(crate) async fn elect(client: &Client, elect: &Elect, report: Report) -> Result<u8> {
    let failed = |e| Error::Config(format!("cannot listen to signals: {e}"));
    let mut signals = Signals::listen().map_err(failed)?;
    let code = terms(client, elect, report, &mut signals).await;
    close(client, report, &mut signals).await;
    code
}

/// One term of office after the other.
async fn terms(client: &Client, elect: &Elect, report: Report, signals: &mut Signals) -> Result<u8> {
    let election = template(client, elect);
    let work = Work {
        name: &elect.name,
        what: &elect.what,
        lease: None,
        max_hold: elect.max_hold,
        grace: elect.grace,
    };
    // The first answer tells whether the address is right. Later failures pass.
    let mut begun = Instant::now();
    let mut first = tokio::select! {
        biased;
        led = election.try_campaign() => led?,
        signal = signals.next_end() => return Ok(ended_by(signal)),
    };
    loop {
        let guard = match first.take() {
            Some(guard) => guard,
            None => tokio::select! {
                biased;
                led = campaign(&election, report) => led?,
                signal = signals.next_end() => return Ok(ended_by(signal)),
                () = tell(client, &elect.name, report, begun) => continue,
            },
        };
        let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.event(&Event::Acquired {
            name: &elect.name,
            fence: guard.fence(),
            hold: guard.id(),
            waited_ms,
        });
        match work.run(client, &guard, report, signals).await {
            // Whoever was told to go away does not stand again.
            End::Lost { told: Some(signal) } => return Ok(ended_by(signal)),
            End::Lost { told: None } if !elect.once => begun = Instant::now(),
            End::Itself(code) if release(guard, &elect.name, code, report, signals).await => {
                return Ok(code);
            }
            _ => return Ok(elect.lost_code),
        }
    }
}

fn template(client: &Client, elect: &Elect) -> Election {
    let mut election = client.election(&elect.name);
    if let Some(limit) = elect.max_hold {
        election = election.max_hold(limit);
    }
    if let Some(durability) = elect.durability {
        election = election.durability(durability);
    }
    if let Some(note) = &elect.note {
        election = election.note(note.as_str());
    }
    election
}

/// Waits until elected, also while the store fails.
async fn campaign(election: &Election, report: Report) -> Result<Guard> {
    let mut told = false;
    loop {
        match election.campaign().await {
            Err(error) if error.is_transient() => {
                if !std::mem::replace(&mut told, true) {
                    report.warn(format!("standing by until the store answers: {error}"));
                }
                sleep(error.retry_after().unwrap_or(PAUSE).min(PAUSE)).await;
            }
            led => return led,
        }
    }
}

fn ended_by(signal: Signal) -> u8 {
    128 + signal.as_raw() as u8
}
