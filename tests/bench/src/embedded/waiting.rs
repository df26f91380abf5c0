//! The cost of many processes that wait for one name while nothing happens.

use std::time::{Duration, Instant};

use super::Scale;
use super::worker::Worker;
use crate::bars::WAITER_CPU;
use crate::run::Run;
use crate::sides::SQLITE;
use crate::{Result, cpu};

const NAME: &str = "bench";

/// Measures the CPU time of all waiting processes together.
pub(crate) async fn cpu_of_waiting(run: &mut Run, scale: Scale) -> Result<()> {
    run.progress.at("embedded waiting", "");
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}?call_timeout=1m", folder.path().join("locks.db").display());
    let client = tenure::connect(&url).await?;
    let lock = client.lock(NAME);
    let guard = lock.acquire().await?;

    let mut workers = Vec::new();
    for _ in 0..scale.waiters {
        workers.push(Worker::lock(&url, NAME)?);
    }
    for worker in &mut workers {
        worker.answer("ready").await?;
        worker.send("acquire").await?;
    }
    let begin = Instant::now();
    while lock.waiters().await?.len() < scale.waiters {
        if begin.elapsed() > Duration::from_secs(60) {
            return Err(format!("{} of {} wait", lock.waiters().await?.len(), scale.waiters).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Let the processes finish starting up.
    tokio::time::sleep(Duration::from_secs(3).min(scale.watched)).await;

    let pids = workers.iter().map(Worker::pid).collect::<Result<Vec<u32>>>()?;
    let (begin, used) = (Instant::now(), cpu::used(&pids)?);
    tokio::time::sleep(scale.watched).await;
    let (took, used) = (begin.elapsed(), cpu::used(&pids)?.saturating_sub(used));

    let percent = 100.0 * used.as_secs_f64() / took.as_secs_f64();
    run.samples.push("embedded waiting", WAITER_CPU, SQLITE.name, percent);
    drop(workers);
    guard.release().await?;
    Ok(client.close().await?)
}
