//! Getting hold of a name, and saying for whom one waits. A signal leaves the queue.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure::{Client, Error, Guard, Lock, Result};
use tokio::time::sleep;

use crate::args::Run;
use crate::people::{holders_now, printable};
use crate::report::{Event, Line, Report};
use crate::signals::Signals;
use crate::times::human;

/// Whoever gets in sooner did not wait.
const UNNOTICED: Duration = Duration::from_millis(200);

/// How it went.
pub(crate) enum Got {
    Held(Guard),
    Busy,
    Signal(Signal),
}

/// What the options ask for.
fn template(client: &Client, run: &Run) -> Lock {
    let name = &run.name;
    let mut lock = match run.limit {
        Some(limit) => client.semaphore(name, limit).permits(run.permits),
        None if run.shared => client.rwlock(name).read(),
        None if run.exclusive => client.rwlock(name).write(),
        None if run.fair => client.lock(name).fair(),
        None => client.lock(name),
    };
    if let Some(lease) = run.lease {
        lock = lock.lease(lease);
    }
    if let Some(limit) = run.max_hold {
        lock = lock.max_hold(limit);
    }
    if let Some(durability) = run.durability {
        lock = lock.durability(durability);
    }
    if let Some(note) = &run.note {
        lock = lock.note(note.as_str());
    }
    lock
}

/// Waits for as long as the options say. Whatever the end, nothing is left in the queue once the client is closed.
pub(crate) async fn acquire(
    client: &Client,
    run: &Run,
    report: Report,
    signals: &mut Signals,
) -> Result<Got> {
    let lock = template(client, run);
    let begun = Instant::now();
    let acquire = async {
        if run.no_wait {
            return lock.try_acquire().await;
        }
        match lock.try_acquire().await {
            Ok(None) => {}
            // The store is not ready and knows when it will be.
            Err(error) if error.retry_after().is_some() => report.warn(format!("waiting: {error}")),
            got => return got,
        }
        match run.wait {
            Some(wait) => lock.try_acquire_for(wait).await,
            None => lock.acquire().await.map(Some),
        }
    };
    let got = tokio::select! {
        biased;
        got = acquire => got?,
        signal = signals.next_end() => return Ok(Got::Signal(signal)),
        () = tell(client, &run.name, report, begun), if !run.no_wait => None,
    };
    let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let name = run.name.as_str();
    match got {
        Some(guard) => {
            report.event(&Event::Acquired { name, fence: guard.fence(), hold: guard.id(), waited_ms });
            Ok(Got::Held(guard))
        }
        None => {
            let waited_ms = if run.no_wait { 0 } else { waited_ms };
            let holders = lock.holders().await.unwrap_or_default();
            report.event(&Event::Busy { name, waited_ms, holders: &holders });
            Ok(Got::Busy)
        }
    }
}

/// Says who is in the way: on a terminal again each second, else once. Never returns.
pub(crate) async fn tell(client: &Client, name: &str, report: Report, begun: Instant) {
    let holders = async || {
        let snapshot = client.show(name).await?;
        Ok::<_, Error>(snapshot.map_or_else(Vec::new, |s| s.holders))
    };
    sleep(UNNOTICED).await;
    if !report.is_watched() {
        if !report.quiet
            && let Ok(holders) = holders().await
            && !holders.is_empty()
        {
            report.event(&Event::Waiting { name, holders: &holders });
        }
        return std::future::pending().await;
    }
    let mut line = Line::default();
    loop {
        let held = match holders().await {
            Ok(holders) => format!("held by {}", holders_now(&holders)),
            Err(_) => "the store does not answer".into(),
        };
        let waited = human(Duration::from_secs(begun.elapsed().as_secs().max(1)));
        line.draw(&format!("waiting for {} ({waited}), {held}", printable(name)));
        sleep(Duration::from_secs(1)).await;
    }
}
