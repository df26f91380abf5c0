//! The memory store compared with tokio's mutex: the cost of leases, fences and a shared ledger alone.

use std::hint::black_box;

use tenure::{Client, Memory};

use crate::report::{Row, per_second};
use crate::rounds::{alternate, rate};
use crate::{Result, Scale};

const BATCH: u32 = 500;
/// A fortieth of the mutex's rate.
const BAR: f64 = 1.0 / 40.0;

/// Acquire and release, uncontended, in one task.
pub(crate) async fn pairs(scale: Scale) -> Result<Row> {
    let client = Client::new(Memory::new());
    let lock = client.lock("bench");
    let mutex = tokio::sync::Mutex::new(());
    let ours = || {
        rate(scale.memory, BATCH, || async {
            for _ in 0..BATCH {
                lock.acquire().await?.release().await?;
            }
            Ok(())
        })
    };
    let peer = || {
        rate(scale.memory, BATCH, || async {
            for _ in 0..BATCH {
                drop(black_box(black_box(&mutex).lock().await));
            }
            Ok(())
        })
    };
    let rates = alternate(scale.rounds, ours, peer).await?;
    client.close().await?;
    Ok(Row {
        what: "memory: acquire + release".into(),
        ours: per_second(rates.ours),
        peer: format!("{} tokio Mutex", per_second(rates.peer)),
        ratio: Some(rates.ratio),
        bar: "ratio ≥ 0.025".into(),
        met: rates.ratio.median >= BAR,
        values: vec![("ours_per_second", rates.ours), ("peer_per_second", rates.peer)],
    })
}
