//! One client holds many names at once, for longer than their leases: so each was renewed.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Instant;

use tenure::Result;

use super::{Figure, Stage, at_once, figure};
use crate::usage::Usage;
use crate::{allocated, bounds, gauges};

/// How many tasks acquire and release.
const TASKS: u64 = 64;

pub(super) async fn run(stage: &Stage) -> Result<Vec<Figure>> {
    let client = stage.client().await?;
    let begin = Instant::now();
    let acquire = {
        let client = client.clone();
        move |n: u64| {
            let lock = client.lock(format!("load-{n}"));
            async move { lock.acquire().await }
        }
    };
    let held = at_once(stage.number, TASKS, acquire).await?;
    let acquired = begin.elapsed();
    let begun = Usage::now();
    let mut figures = stage.used(begun, 1);
    figures.push(stage.allocated_for_each());
    allocated::peak();
    let held_for = stage.lease + stage.lease / 10;
    tokio::time::sleep(held_for).await;
    figures.push(stage.allocated_for_each_at_most());
    let cpu = (Usage::now().cpu - begun.cpu).as_secs_f64() / held_for.as_secs_f64();
    let lost = held.iter().filter(|guard| !guard.is_held()).count();
    let begin = Instant::now();
    let number = held.len() as u64;
    let held = Arc::new(Mutex::new(held));
    let release = move |_| {
        let guard = held.lock().expect("no panic").pop().expect("as many as there are");
        async move { guard.release().await }
    };
    let after = Usage::now();
    if lost == 0 {
        at_once(number, TASKS, release).await?;
    }
    let released = begin.elapsed();
    client.close().await?;
    figures.extend([
        stage.memory_of_each(after),
        figure(bounds::LOST, (lost as u64).max(gauges::lost()) as f64),
        figure("seconds until all were held", acquired.as_secs_f64()),
        figure("seconds for which all were held", held_for.as_secs_f64()),
        figure("percent of a core meanwhile", 100.0 * cpu),
        figure("seconds until all were released", released.as_secs_f64()),
    ]);
    Ok(figures)
}
