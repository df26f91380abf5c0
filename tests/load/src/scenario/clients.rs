//! Many clients in one process: each holds a lock, and waits for that of the next.

use std::time::Instant;

use tenure::Result;

use super::{Figure, Stage, at_once, figure, reach};
use crate::usage::Usage;
use crate::{bounds, gauges};

/// How many connect at once.
const TASKS: u64 = 16;

pub(super) async fn run(stage: &Stage) -> Result<Vec<Figure>> {
    let begin = Instant::now();
    let parts = (stage.memory.clone(), stage.url.clone(), stage.lease);
    let clients = at_once(stage.number, TASKS, move |n| {
        let (memory, url, lease) = parts.clone();
        async move {
            let client = super::client_of(&memory, &url, lease).await?;
            let guard = client.lock(format!("load-{n}")).acquire().await?;
            Ok((n, client, guard))
        }
    })
    .await?;
    let mut waiting = Vec::new();
    let (mut open, mut held) = (Vec::new(), Vec::new());
    for (n, client, guard) in clients {
        let lock = client.lock(format!("load-{}", (n + 1) % stage.number));
        waiting.push(tokio::spawn(async move { lock.acquire().await?.release().await }));
        open.push(client);
        held.push(guard);
    }
    reach("waiting clients", stage.number, gauges::waiting).await;
    let came = begin.elapsed();
    let mut figures = stage.used(Usage::now(), stage.number);
    let begin = Instant::now();
    for guard in held {
        guard.release().await?;
    }
    for task in waiting {
        task.await.expect("no panic")?;
    }
    let served = begin.elapsed();
    figures.push(stage.memory_of_each(Usage::now()));
    let begin = Instant::now();
    at_once(stage.number, TASKS, move |n| {
        let client = open[n as usize].clone();
        async move { client.close().await }
    })
    .await?;
    figures.extend([
        figure(bounds::LOST, gauges::lost() as f64),
        figure("seconds until all hold and wait", came.as_secs_f64()),
        figure("seconds until all were served", served.as_secs_f64()),
        figure("seconds until all were closed", begin.elapsed().as_secs_f64()),
    ]);
    Ok(figures)
}
