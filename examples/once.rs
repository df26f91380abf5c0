//! A job that runs once a day, however many replicas have the same timetable, and also if one of them is late.
//!
//!     cargo run -p tenure --example once -- redis://localhost
//!
//! Prints:
//!     replica … sends the report of 2026-11-16
//!     3 replicas, 1 report
//!     one that woke up late found it done

use std::time::Duration;

use tenure::{Client, HoldId};

/// Runs `job` unless another replica does, or has done so within `period`.
async fn once<F: Future>(
    client: &Client,
    name: &str,
    period: Duration,
    job: impl FnOnce() -> F,
) -> tenure::Result<Option<HoldId>> {
    // A lease of this length is not renewed: if this replica dies in the middle, the next period is the next try.
    let Some(guard) = client.lock(name).lease(period).try_acquire().await? else { return Ok(None) };
    guard.while_held(job()).await?;
    // Not released: it keeps others out until the period is over.
    Ok(Some(guard.detach()))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let (name, hour) = ("examples/report/2026-11-16", Duration::from_secs(3600));

    let replicas: Vec<_> = (1..=3)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let job = async || println!("replica {n} sends the report of 2026-11-16");
                once(&client, name, hour, job).await
            })
        })
        .collect();
    let mut ran = Vec::new();
    for replica in replicas {
        ran.extend(replica.await.expect("no panic")?);
    }
    println!("3 replicas, {} report", ran.len());
    assert_eq!(ran.len(), 1);

    let late = once(&client, name, hour, async || unreachable!("it was sent")).await?;
    assert_eq!(late, None);
    println!("one that woke up late found it done");

    // So that the example can be run again.
    client.lock(name).release_by(ran[0]).await?;
    client.close().await
}
