//! Hand-over from one process's release to another's grant, compared with `flock(1)`.
//!
//! Ours: from the call of `release` in one process to the return of `acquire` in another, which has been waiting. The
//! peer: from the last action of a command under `flock FILE COMMAND` to the first action of the command of another,
//! waiting `flock FILE COMMAND`. This includes the end of one process and the start of another, as in any use of it.

use std::path::Path;
use std::time::Duration;

use crate::report::{Row, millis};
use crate::stats::{Spread, percentile};
use crate::worker::Worker;
use crate::{Result, Scale};

/// Time after which a process that was told to acquire is asleep.
pub(crate) const ASLEEP: Duration = Duration::from_millis(20);
const BAR_MS: f64 = 20.0;

/// Judged by the 99th percentile.
pub(crate) async fn between_processes(scale: Scale) -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}?call_timeout=1m", folder.path().join("locks.db").display());
    let mut pair = pair(&url).await?;
    let (mut ours, mut peer, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.turns {
        let mine = ours_once(&mut pair, scale.handovers).await?;
        let theirs = flock_once(folder.path(), scale.handovers).await?;
        ratios.push(percentile(&mine, 0.5) / percentile(&theirs, 0.5));
        ours.extend(mine);
        peer.extend(theirs);
    }
    for worker in pair {
        worker.end().await?;
    }
    let p99 = percentile(&ours, 0.99);
    Ok(Row {
        what: format!("sqlite: hand-over, {} times", ours.len()),
        ours: millis(&ours),
        peer: format!("{} flock(1)", millis(&peer)),
        ratio: Some(Spread::of(&ratios)),
        bar: "p99 ≤ 20 ms".into(),
        met: p99 <= BAR_MS,
        values: values(&ours, &peer),
    })
}

/// Starts two connected processes.
pub(crate) async fn pair(url: &str) -> Result<[Worker; 2]> {
    let mut pair = [Worker::lock(url, "bench")?, Worker::lock(url, "bench")?];
    for worker in &mut pair {
        worker.answer("ready").await?;
    }
    Ok(pair)
}

pub(crate) fn values(ours: &[f64], peer: &[f64]) -> Vec<(&'static str, f64)> {
    vec![
        ("ours_p50_ms", percentile(ours, 0.5)),
        ("ours_p99_ms", percentile(ours, 0.99)),
        ("ours_max_ms", percentile(ours, 1.0)),
        ("peer_p50_ms", percentile(peer, 0.5)),
        ("peer_p99_ms", percentile(peer, 0.99)),
        ("peer_max_ms", percentile(peer, 1.0)),
    ]
}

/// Returns the milliseconds of each hand-over.
pub(crate) async fn ours_once(pair: &mut [Worker; 2], times: usize) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    let [holder, waiter] = pair;
    let (mut holder, mut waiter) = (holder, waiter);
    holder.send("acquire").await?;
    holder.answer("granted").await?;
    for _ in 0..times {
        waiter.send("acquire").await?;
        tokio::time::sleep(ASLEEP).await;
        holder.send("release").await?;
        took.push(between(holder.answer("released").await?, waiter.answer("granted").await?));
        (holder, waiter) = (waiter, holder);
    }
    holder.send("release").await?;
    holder.answer("released").await?;
    Ok(took)
}

async fn flock_once(folder: &Path, times: usize) -> Result<Vec<f64>> {
    let file = folder.join("flock");
    let mut took = Vec::new();
    let mut holder = Worker::flock(file.as_os_str())?;
    holder.answer("granted").await?;
    for _ in 0..times {
        let mut waiter = Worker::flock(file.as_os_str())?;
        tokio::time::sleep(ASLEEP).await;
        holder.send("release").await?;
        took.push(between(holder.answer("released").await?, waiter.answer("granted").await?));
        holder.end().await?;
        holder = waiter;
    }
    holder.end().await?;
    Ok(took)
}

pub(crate) fn between(released: u64, granted: u64) -> f64 {
    granted.saturating_sub(released) as f64 / 1e6
}
