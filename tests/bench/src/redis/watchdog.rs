//! The cost of renewing many locks: scripts per interval, counted by the server.

use std::time::{Duration, Instant};

use testbed::Redis;

use crate::report::Row;
use crate::{Result, Scale};

const LEASE: Duration = Duration::from_secs(6);
const PERIODS: u32 = 3;

pub(crate) async fn cost(server: &Redis, scale: Scale) -> Result<Row> {
    let url = format!("{}?lease=6s", server.url());
    let client = tenure::connect(&url).await?;
    for i in 0..scale.earlier {
        client.lock(format!("earlier{}", i % 100)).acquire().await?.release().await?;
    }
    let mut held = Vec::new();
    for i in 0..scale.held {
        held.push(client.lock(format!("held{i}")).acquire().await?);
    }
    // Locks acquired one after the other are renewed in batches from their first renewal on.
    tokio::time::sleep(LEASE * 2 / 3).await;
    let (before, begin) = (scripts(server)?, Instant::now());
    tokio::time::sleep(LEASE / 3 * PERIODS).await;
    let (after, elapsed) = (scripts(server)?, begin.elapsed());
    let alive = held.iter().filter(|guard| guard.is_held()).count();
    if alive < held.len() {
        return Err(format!("{} of {} locks were lost", held.len() - alive, held.len()).into());
    }
    drop(held);
    client.close().await?;
    let periods = elapsed.as_secs_f64() / (LEASE / 3).as_secs_f64();
    let per_period = (after - before) as f64 / periods;
    let most = (scale.held as f64 / 100.0).ceil();
    Ok(Row {
        what: format!("redis: {} held, after {} pairs", scale.held, scale.earlier),
        ours: format!("{per_period:.0} scripts a period"),
        peer: String::new(),
        ratio: None,
        bar: format!("≤ {most:.0}, and what a period more or less makes"),
        met: per_period <= most * (periods + 1.0) / periods,
        values: vec![("scripts_per_period", per_period)],
    })
}

/// Number of scripts that the server has run.
fn scripts(server: &Redis) -> Result<u64> {
    let stats = server.info("commandstats")?;
    let calls = |name: &str| {
        let text = stats.get(&format!("cmdstat_{name}"))?;
        text.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok()
    };
    Ok(calls("evalsha").unwrap_or(0) + calls("eval").unwrap_or(0))
}
