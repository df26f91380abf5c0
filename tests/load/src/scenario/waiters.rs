//! Thousands of tasks of one client wait for one name; then it is released, and each is served in its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use tenure::{Lock, Result};

use super::{Figure, Stage, figure, reach};
use crate::usage::Usage;
use crate::{bounds, gauges};

#[derive(Default)]
struct Counts {
    inside: AtomicU64,
    overlaps: AtomicU64,
    served: AtomicU64,
}

pub(super) async fn run(stage: &Stage, fair: bool) -> Result<Vec<Figure>> {
    let client = stage.client().await?;
    let lock = match fair {
        true => client.lock("load").fair(),
        false => client.lock("load"),
    };
    let held = lock.acquire().await?;
    let begin = Instant::now();
    let counts = Arc::new(Counts::default());
    let tasks: Vec<_> =
        (0..stage.number).map(|_| tokio::spawn(served(lock.clone(), counts.clone()))).collect();
    reach("waiters", stage.number, gauges::waiting).await;
    let came = begin.elapsed();
    let mut figures = stage.used(Usage::now(), 1);
    figures.push(stage.allocated_for_each());
    let begin = Instant::now();
    held.release().await?;
    reach("served waiters", stage.number, || counts.served.load(SeqCst)).await;
    let took = begin.elapsed();
    for task in tasks {
        task.await.expect("no panic")?;
    }
    client.close().await?;
    figures.extend([
        stage.memory_of_each(Usage::now()),
        figure(bounds::OVERLAPS, counts.overlaps.load(SeqCst) as f64),
        figure(bounds::LOST, gauges::lost() as f64),
        figure("seconds until all wait", came.as_secs_f64()),
        figure("seconds until all were served", took.as_secs_f64()),
    ]);
    Ok(figures)
}

/// Waits, and is inside for a moment.
async fn served(lock: Lock, counts: Arc<Counts>) -> Result<()> {
    let guard = lock.acquire().await?;
    if counts.inside.fetch_add(1, SeqCst) > 0 {
        counts.overlaps.fetch_add(1, SeqCst);
    }
    tokio::task::yield_now().await;
    counts.inside.fetch_sub(1, SeqCst);
    counts.served.fetch_add(1, SeqCst);
    guard.release().await
}
