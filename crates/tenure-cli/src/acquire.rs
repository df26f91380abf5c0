//! Acquires the name and reports who holds it meanwhile. A signal cancels the wait.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure::backend::Backoff;
use tenure::{Client, Error, Guard, Lock, Once, Result, Snapshot};
use tokio::time::sleep;

use crate::args::Run;
use crate::format::{describe_holders_now, printable};
use crate::nested;
use crate::report::{Event, Report, StatusLine};
use crate::signals::Signals;
use crate::times::human;

/// Waits shorter than this are not reported.
const REPORT_AFTER: Duration = Duration::from_millis(200);

/// Outcome of an acquire.
pub(crate) enum Acquired {
    Held(Guard),
    Busy,
    Signal(Signal),
}

/// Creates the lock that the options describe.
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
    if let Some(least) = run.at_least {
        lock = lock.at_least(least);
    }
    if let Some(durability) = run.durability {
        lock = lock.durability(durability);
    }
    if let Some(note) = &run.note {
        lock = lock.note(note.as_str());
    }
    if let Some(token) = &run.token {
        lock = lock.token(token.as_str());
    }
    lock
}

/// Creates what `--once-per` describes.
fn once(client: &Client, run: &Run, period: Duration) -> Once {
    let mut once = client.once(&run.name, period);
    if let Some(limit) = run.max_hold {
        once = once.at_most(limit);
    }
    if let Some(least) = run.at_least {
        once = once.at_least(least);
    }
    match &run.note {
        Some(note) => once.note(note.as_str()),
        None => once,
    }
}

/// Waits for as long as the options say; `until` is the end of `--wait`. However it ends, no queue position is left
/// once the client is closed.
pub(crate) async fn acquire(
    client: &Client,
    run: &Run,
    until: Option<Instant>,
    report: Report,
    signals: &mut Signals,
) -> Result<Acquired> {
    let lock = template(client, run);
    let begun = Instant::now();
    let waits = !run.no_wait && run.once_per.is_none();
    let acquire = async {
        if let Some(period) = run.once_per {
            return once(client, run, period).try_begin().await;
        }
        let first = lock.try_acquire().await;
        if first.is_ok() {
            warn_of_size(client, run, report).await;
        }
        if run.no_wait {
            return first;
        }
        let unseen = first.is_err();
        match first {
            Ok(None) => nested::refuse_self_wait(client, &run.name, run.permits).await?,
            // The store says when to retry, or there is time left of `--wait`.
            Err(error) if error.retry_after().is_some() || (error.is_transient() && is_before(until)) => {
                report.warn(format!("waiting: {error}"));
            }
            got => return got,
        }
        tokio::select! {
            biased;
            refusal = nested::refuse_self_wait_later(client, &run.name, run.permits), if unseen => Err(refusal),
            got = acquire_until(&lock, until) => got,
        }
    };
    let got = tokio::select! {
        biased;
        got = acquire => got?,
        signal = signals.next_end() => return Ok(Acquired::Signal(signal)),
        () = report_holders(client, &run.name, report, begun), if waits => None,
    };
    let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let name = run.name.as_str();
    match got {
        Some(guard) => {
            report.event(&Event::Acquired { name, fence: guard.fence(), hold: guard.id(), waited_ms });
            Ok(Acquired::Held(guard))
        }
        None => {
            let waited_ms = if waits { waited_ms } else { 0 };
            let holders = lock.holders().await.unwrap_or_default();
            report.event(&Event::Busy { name, waited_ms, holders: &holders });
            Ok(Acquired::Busy)
        }
    }
}

/// Warns if the store has another size for the semaphore than `--limit`: the stored one applies.
async fn warn_of_size(client: &Client, run: &Run, report: Report) {
    let Some(limit) = run.limit else { return };
    if let Ok(Some(Snapshot { size: Some(size), .. })) = client.show(&run.name).await
        && size != limit
    {
        let name = printable(&run.name);
        report.warn(format!(
            "{name} has {size} permits in the store, which apply instead of --limit {limit}; `tenure resize {name} \
             {limit}` changes that"
        ));
    }
}

async fn acquire_until(lock: &Lock, until: Option<Instant>) -> Result<Option<Guard>> {
    let mut backoff = store_backoff();
    loop {
        let got = match until {
            Some(until) => lock.try_acquire_for(until.saturating_duration_since(Instant::now())).await,
            None => lock.acquire().await.map(Some),
        };
        match got {
            Err(error) if error.is_transient() && wait_to_retry(&mut backoff, until).await => {}
            got => return got,
        }
    }
}

/// The backoff for a store that does not answer.
pub(crate) fn store_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), Duration::from_secs(1))
}

/// Records a failure, waits before the next attempt, and returns whether there is time for one before `until`, the end of
/// `--wait`. Without `until` there is none. A store not reached in time is an error, not busy.
pub(crate) async fn wait_to_retry(backoff: &mut Backoff, until: Option<Instant>) -> bool {
    let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
    sleep(backoff.failed().min(left)).await;
    is_before(until)
}

fn is_before(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}

/// Reports the current holders: every second on a terminal, else once. Never returns.
pub(crate) async fn report_holders(client: &Client, name: &str, report: Report, begun: Instant) {
    let holders = async || {
        let snapshot = client.show(name).await?;
        Ok::<_, Error>(snapshot.map_or_else(Vec::new, |s| s.holders))
    };
    sleep(REPORT_AFTER).await;
    if !report.is_interactive() {
        if !report.quiet
            && let Ok(holders) = holders().await
            && !holders.is_empty()
        {
            report.event(&Event::Waiting { name, holders: &holders });
        }
        return std::future::pending().await;
    }
    let mut line = StatusLine::default();
    loop {
        let held = match holders().await {
            Ok(holders) => format!("held by {}", describe_holders_now(&holders)),
            Err(_) => "the store does not answer".into(),
        };
        let waited = human(Duration::from_secs(begun.elapsed().as_secs().max(1)));
        line.draw(&format!("waiting for {} ({waited}), {held}", printable(name)));
        sleep(Duration::from_secs(1)).await;
    }
}
