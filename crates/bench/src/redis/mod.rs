//! Redis: beside a bare socket that sends the same scripts, and beside Redisson.

mod bare;
mod contended;
mod many;
pub(crate) mod quorum;
mod redisson;
mod watchdog;

use std::time::Duration;

use tenure::Client;
use testbed::{Redis, RedisOptions};
use tokio::runtime::Handle;

use self::bare::Bare;
use crate::report::{Row, per_second};
use crate::rounds::{Rates, alternate, rate};
use crate::{Result, Scale};

/// All rows.
pub(crate) async fn rows(scale: Scale, workers: &Handle) -> Result<Vec<Row>> {
    let server = Redis::start(RedisOptions::default())?;
    let mut rows = Vec::new();
    eprintln!("redis: one task …");
    rows.push(lone(&server, scale, None).await?);
    rows.push(lone(&server, scale, Some(workers)).await?);
    eprintln!("redis: 64 tasks …");
    rows.push(many::beside_bare(&server, scale, None).await?);
    rows.push(many::beside_bare(&server, scale, Some(workers)).await?);
    eprintln!("redis: 10,000 held …");
    rows.push(watchdog::cost(&server, scale).await?);
    eprintln!("redis: beside Redisson …");
    let peers = redisson::Peers::start(&server).await?;
    rows.push(many::beside_redisson(&server, scale, &peers, workers).await?);
    rows.extend(contended::rows(&server, scale, &peers).await?);
    Ok(rows)
}

/// Runs `work` on these workers, or right here.
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

/// One task on its own key.
async fn lone(server: &Redis, scale: Scale, workers: Option<&Handle>) -> Result<Row> {
    const BATCH: u32 = 50;
    let names = [format!("lone-{}", workers.is_some())];
    let pair = bare::record(server.port(), &names).await?.remove(0);
    let mut socket = Bare::connect(server.port())?;
    let client = tenure::connect(&server.url()).await?;
    let lock = client.lock(&names[0]);
    let ours = || {
        rate(scale.redis, BATCH, || {
            let lock = lock.clone();
            on(workers, async move {
                for _ in 0..BATCH {
                    lock.acquire().await?.release().await?;
                }
                Ok(())
            })
        })
    };
    let rates = alternate(scale.rounds, ours, || std::future::ready(socket.lone(&pair, scale.redis))).await?;
    client.close().await?;
    let bar = if workers.is_some() { 0.75 } else { 0.85 };
    Ok(row(format!("redis: one task, {}", runtime_name(workers)), rates, "bare socket", bar))
}

fn row(what: String, rates: Rates, peer: &str, bar: f64) -> Row {
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
