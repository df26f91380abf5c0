//! Clients come, lock, release and go, so many a second. What is used after the tenth is used after the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::Result;

use super::{Figure, Stage, at_once, figure};
use crate::bounds;
use crate::options::PER_SECOND;
use crate::question::{Line, ask};
use crate::usage::Usage;

/// How many are connected at once, at most; the names are more, so that they do not wait for each other.
const TASKS: u64 = 16;
const NAMES: u64 = 100;

pub(super) async fn run(stage: &Stage) -> Result<Vec<Figure>> {
    let begin = Instant::now();
    visits(stage, 0, 10).await?;
    let tenth = Usage::return_to(stage.before).await;
    let half = stage.number / 2;
    visits(stage, 10, half).await?;
    let middle = Usage::now();
    visits(stage, half, stage.number).await?;
    let took = begin.elapsed();
    let last = Usage::return_to(tenth).await;
    let connections = super::settled(|| ask(&Line::Connections), stage.connections).await;
    let mib = |more: u64, than: u64| more.saturating_sub(than) as f64 / 1024.0 / 1024.0;
    Ok(vec![
        figure(bounds::GROWTH, mib(last.memory, tenth.memory)),
        figure(bounds::LATE_GROWTH, mib(last.memory, middle.memory)),
        figure(bounds::THREADS_GROWTH, last.threads.saturating_sub(tenth.threads) as f64),
        figure(bounds::DESCRIPTORS_GROWTH, last.descriptors.saturating_sub(tenth.descriptors) as f64),
        figure(bounds::CONNECTIONS, connections.saturating_sub(stage.connections) as f64),
        figure("connects a second", stage.number as f64 / took.as_secs_f64()),
    ])
}

/// Visits the store with a client for each of these numbers, no faster than wanted.
async fn visits(stage: &Stage, from: u64, to: u64) -> Result<()> {
    let stage = Arc::new((stage.memory.clone(), stage.url.clone(), stage.lease));
    let pace = Arc::new((Instant::now(), AtomicU64::new(0)));
    let visit = move |n: u64| {
        let (stage, pace) = (stage.clone(), pace.clone());
        async move {
            let turn = pace.1.fetch_add(1, SeqCst);
            let at = pace.0
                + Duration::from_secs(1) * u32::try_from(turn).expect("not so many")
                    / u32::try_from(PER_SECOND).expect("a small number");
            tokio::time::sleep_until(at.into()).await;
            let client = super::client_of(&stage.0, &stage.1, stage.2).await?;
            client.lock(format!("load-{}", n % NAMES)).acquire().await?.release().await?;
            client.close().await
        }
    };
    at_once(to - from, TASKS, move |n| visit(from + n)).await.map(drop)
}
