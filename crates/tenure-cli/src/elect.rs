//! `tenure elect`: campaigns, runs a command while leading, and campaigns again after the leadership was lost.

use std::time::{Duration, Instant};

use tenure::{Client, Election, Guard, Result};
use tokio::time::sleep;

use crate::acquire::report_holders;
use crate::args::Elect;
use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::job::reap_orphans;
use crate::nested;
use crate::report::{Event, Report};
use crate::run::close;
use crate::signals::Signals;
use crate::supervise::{CommandSpec, Outcome, Released, release};

/// Pause between attempts while the store fails.
const PAUSE: Duration = Duration::from_secs(1);

/// Campaigns and runs the command; returns how tenure is to exit.
pub(crate) async fn elect(
    client: &Client,
    elect: &Elect,
    guardian: &mut Guardian,
    report: Report,
    signals: &mut Signals,
) -> Result<Exit> {
    let exit = terms(client, elect, guardian, report, signals).await;
    close(client, report, signals).await;
    exit
}

/// Runs the command once per term of leadership.
async fn terms(
    client: &Client,
    elect: &Elect,
    guardian: &mut Guardian,
    report: Report,
    signals: &mut Signals,
) -> Result<Exit> {
    let election = template(client, elect);
    let work = CommandSpec {
        name: &elect.name,
        what: &elect.what,
        lease: None,
        token: None,
        max_hold: elect.max_hold,
        grace: elect.grace,
    };
    // An error of the first attempt is returned, since the URL may be wrong. Later transient errors are retried.
    let mut begun = Instant::now();
    let mut first = tokio::select! {
        biased;
        led = election.try_campaign() => led?,
        signal = signals.next_end() => return Ok(Exit::from_signal(signal)),
    };
    if first.is_none() {
        nested::refuse_self_wait(client, &elect.name, 1).await?;
    }
    loop {
        let guard = match first.take() {
            Some(guard) => guard,
            None => tokio::select! {
                biased;
                led = campaign(&election, report) => led?,
                signal = signals.next_end() => return Ok(Exit::from_signal(signal)),
                () = report_holders(client, &elect.name, report, begun) => continue,
                () = reap_orphans(guardian) => continue,
            },
        };
        let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.event(&Event::Acquired {
            name: &elect.name,
            fence: guard.fence(),
            hold: guard.id(),
            waited_ms,
        });
        match work.run(client, &guard, guardian, report, signals).await {
            // After a signal that asks it to end, tenure does not campaign again.
            Outcome::Lost { end_signal: Some(signal) } => return Ok(Exit::from_signal(signal)),
            Outcome::Lost { end_signal: None } if !elect.once => begun = Instant::now(),
            Outcome::Lost { .. } => return Ok(Exit::code(elect.lost_code)),
            Outcome::Exited(exit) => {
                return match release(guard, &elect.name, exit.code, None, report, signals).await {
                    Released::Lost => Ok(Exit::code(elect.lost_code)),
                    Released::Held | Released::Unheard => Ok(exit),
                };
            }
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

/// Waits until elected; retries while the store fails.
async fn campaign(election: &Election, report: Report) -> Result<Guard> {
    let mut told = false;
    loop {
        match election.campaign().await {
            Err(error) if error.is_transient() => {
                if !std::mem::replace(&mut told, true) {
                    report.warn(format!("waiting until the store answers: {error}"));
                }
                sleep(error.retry_after().unwrap_or(PAUSE).min(PAUSE)).await;
            }
            led => return led,
        }
    }
}
