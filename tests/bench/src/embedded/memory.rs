//! The memory store compared with tokio's mutex: the cost of leases, fences and a shared ledger alone.

use std::hint::black_box;

use tenure::{Client, Memory};

use super::{Scale, alternate, rate};
use crate::Result;
use crate::run::Run;
use crate::sides::{MEMORY, MUTEX};

const BATCH: u32 = 500;

/// Acquire and release, uncontended, in one task.
pub(crate) async fn pairs(run: &mut Run, scale: Scale) -> Result<()> {
    let client = Client::new(Memory::new());
    let lock = client.lock("bench");
    let mutex = tokio::sync::Mutex::new(());
    let ours = || {
        rate(scale.time, BATCH, || async {
            for _ in 0..BATCH {
                lock.acquire().await?.release().await?;
            }
            Ok(())
        })
    };
    let peer = || {
        rate(scale.time, BATCH, || async {
            for _ in 0..BATCH {
                drop(black_box(black_box(&mutex).lock().await));
            }
            Ok(())
        })
    };
    let (ours, peer) = ((MEMORY.name, ours), (MUTEX.name, peer));
    alternate(run, "embedded memory", scale.rounds, ours, peer).await?;
    Ok(client.close().await?)
}
