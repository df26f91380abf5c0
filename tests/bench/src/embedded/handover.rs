//! Hand-over from one process's release to another's grant, compared with `flock(1)`.
//!
//! Ours: from the call of `release` in one process to the return of `acquire` in another, which has been waiting. The
//! peer: from the last action of a command under `flock FILE COMMAND` to the first action of the command of another,
//! waiting `flock FILE COMMAND`. This includes the end of one process and the start of another, as in any use of it.

use std::path::Path;
use std::time::Duration;

use super::Scale;
use super::worker::Worker;
use crate::Result;
use crate::bars::{HANDOVER, LONGEST};
use crate::run::Run;
use crate::sides::{FLOCK, SQLITE};
use crate::stats::percentile;

/// Time after which a process that was told to acquire is asleep.
const ASLEEP: Duration = Duration::from_millis(20);

pub(crate) async fn between_processes(run: &mut Run, scale: Scale) -> Result<()> {
    const WORKLOAD: &str = "embedded hand-over";
    run.progress.at(WORKLOAD, "");
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}?call_timeout=1m", folder.path().join("locks.db").display());
    let mut pair = pair(&url).await?;
    for _ in 0..scale.rounds.min(15) {
        let ours = ours_once(&mut pair, scale.handovers).await?;
        let theirs = flock_once(folder.path(), scale.handovers).await?;
        for (side, took) in [(SQLITE, ours), (FLOCK, theirs)] {
            run.samples.push(WORKLOAD, HANDOVER, side.name, percentile(&took, 0.5));
            run.samples.push(WORKLOAD, LONGEST, side.name, percentile(&took, 1.0));
        }
    }
    for worker in pair {
        worker.end().await?;
    }
    Ok(())
}

/// Starts two connected processes.
async fn pair(url: &str) -> Result<[Worker; 2]> {
    let mut pair = [Worker::lock(url, "bench")?, Worker::lock(url, "bench")?];
    for worker in &mut pair {
        worker.answer("ready").await?;
    }
    Ok(pair)
}

/// Returns the milliseconds of each hand-over.
async fn ours_once(pair: &mut [Worker; 2], times: usize) -> Result<Vec<f64>> {
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

fn between(released: u64, granted: u64) -> f64 {
    granted.saturating_sub(released) as f64 / 1e6
}
