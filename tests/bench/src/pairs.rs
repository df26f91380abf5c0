//! Pairs of acquire and release, and their row in the report.

use std::time::Duration;

use tenure::Client;
use tokio::runtime::Handle;

use crate::Result;
use crate::report::{Row, per_second};
use crate::rounds::Rates;

/// Runs `work` on these workers, or in the current task.
pub(crate) async fn on<T: Send + 'static>(
    workers: Option<&Handle>,
    work: impl Future<Output = std::result::Result<T, tenure::Error>> + Send + 'static,
) -> Result<T> {
    match workers {
        Some(workers) => Ok(workers.spawn(work).await??),
        None => Ok(work.await?),
    }
}

pub(crate) fn runtime_name(workers: Option<&Handle>) -> &'static str {
    if workers.is_some() { "2 worker threads" } else { "current thread" }
}

/// Creates the row; the median of the ratios decides.
pub(crate) fn row(what: String, rates: Rates, peer: &str, bar: f64) -> Row {
    Row {
        what,
        ours: per_second(rates.ours),
        peer: format!("{} {peer}", per_second(rates.peer)),
        ratio: Some(rates.ratio),
        bar: format!("ratio ≥ {bar}"),
        met: rates.ratio.median >= bar,
        values: vec![("ours_per_second", rates.ours), ("peer_per_second", rates.peer)],
    }
}

/// Pairs per second of `tasks` tasks, each on its own name, for `time`.
pub(crate) async fn own_names(client: &Client, tasks: usize, time: Duration) -> tenure::Result<f64> {
    let begin = std::time::Instant::now();
    let all: Vec<_> = (0..tasks)
        .map(|i| {
            let lock = client.lock(format!("many{i}"));
            tokio::spawn(async move {
                let mut done = 0.0;
                while begin.elapsed() < time {
                    lock.acquire().await?.release().await?;
                    done += 1.0;
                }
                Ok::<f64, tenure::Error>(done)
            })
        })
        .collect();
    let mut done = 0.0;
    for task in all {
        done += task.await.map_err(|e| tenure::Error::Config(e.to_string()))??;
    }
    Ok(done / begin.elapsed().as_secs_f64())
}
