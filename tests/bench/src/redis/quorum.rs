//! RedLock over five servers: compared with bare sockets that send the same five commands, and with two servers
//! stopped.

use std::time::{Duration, Instant};

use testbed::{Redis, RedisOptions};

use super::bare::{Bare, Pair, record};
use crate::pairs::row;
use crate::report::{Row, millis};
use crate::rounds::{alternate, rate};
use crate::stats::{Spread, median};
use crate::{Result, Scale};

const NODES: usize = 5;
const BATCH: u32 = 20;

pub(crate) async fn rows(scale: Scale) -> Result<Vec<Row>> {
    let servers: Vec<Redis> =
        (0..NODES).map(|_| Redis::start(RedisOptions::default())).collect::<testbed::Result<_>>()?;
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let client = tenure::connect(&format!("redlock://{}?restart_delay=off", hosts.join(","))).await?;
    let name = "lone".to_owned();
    let mut sockets = Vec::new();
    for server in &servers {
        let pair = record(server.port(), "plain", std::slice::from_ref(&name)).await?.remove(0);
        sockets.push((Bare::connect(server.port())?, pair));
    }
    let lock = client.lock(&name);
    let ours = || {
        rate(scale.redis, BATCH, || {
            let lock = lock.clone();
            async move {
                for _ in 0..BATCH {
                    lock.acquire().await?.release().await?;
                }
                Ok(())
            }
        })
    };
    let rates = alternate(scale.rounds, ours, || std::future::ready(bare(&mut sockets, scale))).await?;
    let mut rows = vec![row("redlock: a pair on 5 servers".into(), rates, "5 bare sockets", 0.8)];

    // Alternate, so that a machine that slows down affects both.
    let (mut healthy, mut lame, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.turns {
        let well = latencies(&lock, scale).await?;
        servers[3..].iter().try_for_each(|s| s.stop())?;
        let ill = latencies(&lock, scale).await?;
        servers[3..].iter().try_for_each(|s| s.resume())?;
        // Let pending releases reach those two servers before the next turn.
        tokio::time::sleep(Duration::from_secs(1)).await;
        ratios.push(median(&ill) / median(&well));
        healthy.extend(well);
        lame.extend(ill);
    }
    client.close().await?;
    let ratio = Spread::of(&ratios);
    rows.push(Row {
        what: "redlock: the same with 2 of 5 stopped".into(),
        ours: millis(&lame),
        peer: format!("{} with all 5", millis(&healthy)),
        ratio: Some(ratio),
        bar: "p50 ≤ 1.5 of that with all".into(),
        met: ratio.median <= 1.5,
        values: vec![("stopped_p50_ms", median(&lame)), ("healthy_p50_ms", median(&healthy))],
    });
    Ok(rows)
}

/// Returns the milliseconds of each pair.
async fn latencies(lock: &tenure::Lock, scale: Scale) -> Result<Vec<f64>> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    while begin.elapsed() < scale.redis * 3 {
        let one = Instant::now();
        lock.acquire().await?.release().await?;
        all.push(one.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(all)
}

/// Pairs per second: sends to all servers first, then reads all replies.
fn bare(sockets: &mut [(Bare, Pair)], scale: Scale) -> Result<f64> {
    let (begin, mut done) = (Instant::now(), 0.0);
    while begin.elapsed() < scale.redis {
        for _ in 0..BATCH {
            for (socket, pair) in &mut *sockets {
                socket.send(&pair.acquire)?;
            }
            for (socket, _) in &mut *sockets {
                socket.receive(1)?;
            }
            for (socket, pair) in &mut *sockets {
                socket.send(&pair.release)?;
            }
            for (socket, _) in &mut *sockets {
                socket.receive(1)?;
            }
        }
        done += f64::from(BATCH);
    }
    Ok(done / begin.elapsed().as_secs_f64())
}
