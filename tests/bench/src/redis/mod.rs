//! Redis: compared with a bare socket that sends the same scripts, and with Redisson.

mod bare;
mod many;
pub(crate) mod quorum;
#[cfg(feature = "redis-rs")]
pub(crate) mod redis_rs;
mod watchdog;

use std::time::Duration;

use interop::{Address, Jvm, Options};
use testbed::{Redis, RedisOptions};
use tokio::runtime::Handle;

use self::bare::Bare;
use crate::contended::{self, Contest};
use crate::jvms::Jvms;
use crate::pairs::{on, row, runtime_name};
use crate::report::Row;
use crate::rounds::{alternate, rate};
use crate::turns::Turns;
use crate::{Result, Scale};

/// Runs all benchmarks on Redis.
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
    let peers = redisson(&server).await?;
    rows.push(many::beside_redisson(&server, scale, &peers, workers).await?);
    rows.extend(contended::rows(contest(&server.url(), Turns::BUSY, 2.0, None), scale, &peers).await?);
    Ok(rows)
}

/// Fair locks. The limit on waits detects a queue that stalls until somebody polls, which would take seconds.
pub(crate) async fn fair(scale: Scale) -> Result<Vec<Row>> {
    const LONGEST: Duration = Duration::from_secs(1);
    let server = Redis::start(RedisOptions::default())?;
    let peers = redisson(&server).await?;
    contended::rows(contest(&server.url(), Turns::FAIR, 1.5, Some(LONGEST)), scale, &peers).await
}

fn contest(url: &str, turns: Turns, bar: f64, longest: Option<Duration>) -> Contest<'_> {
    Contest { store: "redis", url, turns, peer: "Redisson", bar, longest }
}

async fn redisson(server: &Redis) -> Result<Jvms<Jvm>> {
    let address = Address::Single(format!("127.0.0.1:{}", server.port()));
    let options = Options { optimised: true, ..Options::default() };
    Ok(Jvms([Jvm::start(&address, &options).await?, Jvm::start(&address, &options).await?]))
}

/// One task on its own key.
async fn lone(server: &Redis, scale: Scale, workers: Option<&Handle>) -> Result<Row> {
    const BATCH: u32 = 50;
    let names = [format!("lone-{}", workers.is_some())];
    let pair = bare::record(server.port(), "redisson", &names).await?.remove(0);
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
