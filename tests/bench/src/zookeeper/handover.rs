//! Hand-over from one process's release to another's grant, compared with two JVMs with Curator.

use interop::Curator;
use testbed::ZooKeeper;

use crate::handover::{ASLEEP, between, ours_once, pair, values};
use crate::jvms::Jvms;
use crate::report::{Row, millis};
use crate::stats::{Spread, percentile};
use crate::{Result, Scale};

/// Judged by the median.
pub(crate) async fn beside_curator(server: &ZooKeeper, scale: Scale, curator: &Jvms<Curator>) -> Result<Row> {
    let mut pair = pair(&server.url()).await?;
    let (mut ours, mut peer, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..=scale.turns {
        let mine = ours_once(&mut pair, scale.handovers).await?;
        let theirs = curators_once(curator, scale.handovers).await?;
        // The first turn is a warm-up.
        if turn > 0 {
            ratios.push(percentile(&mine, 0.5) / percentile(&theirs, 0.5));
            ours.extend(mine);
            peer.extend(theirs);
        }
    }
    for worker in pair {
        worker.end().await?;
    }
    let ratio = Spread::of(&ratios);
    Ok(Row {
        what: format!("zookeeper: hand-over, {} times", ours.len()),
        ours: millis(&ours),
        peer: format!("{} Curator", millis(&peer)),
        ratio: Some(ratio),
        bar: "p50 ≤ Curator's".into(),
        met: ratio.median <= 1.0,
        values: values(&ours, &peer),
    })
}

/// Returns the milliseconds of each hand-over.
async fn curators_once(curator: &Jvms<Curator>, times: usize) -> Result<Vec<f64>> {
    const ENTER: &str = "enter-at plain handed";
    const LEAVE: &str = "leave-at plain handed";
    let mut took = Vec::new();
    let [holder, waiter] = &curator.0;
    let (mut holder, mut waiter) = (holder, waiter);
    holder.call("handed", ENTER).await?;
    for _ in 0..times {
        let granted = waiter.spawn("handed", ENTER);
        tokio::time::sleep(ASLEEP).await;
        let released = holder.call("handed", LEAVE).await?.parse()?;
        took.push(between(released, granted.answer().await?.parse()?));
        (holder, waiter) = (waiter, holder);
    }
    holder.call("handed", LEAVE).await?;
    Ok(took)
}
