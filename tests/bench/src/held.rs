//! Locks that are held and renewed.

use std::time::Duration;

use crate::Result;
use crate::bars::RENEWAL;
use crate::run::Run;
use crate::servers::Servers;
use crate::sides::{PLAIN, TENURE};

/// What a renewal costs the server, inside of the calls: of locks with a short lease, over whole periods.
pub(crate) async fn renewal(run: &mut Run, servers: &Servers) -> Result<()> {
    const HELD: usize = 1000;
    let (lease, rounds) = if run.plan.quick { (2, 1) } else { (6, 6) };
    let period = Duration::from_secs(lease) / 3;
    for side in [TENURE, PLAIN] {
        run.progress.at("W4 renewal", side.name);
        let peer = side.start_with(servers, &format!("lease={lease}s")).await?;
        peer.call("bench", &format!("bench.hold plain renewed-{} {HELD}", side.name.replace(' ', "-")))
            .await?;
        // Locks acquired one after the other are renewed in batches from their first renewal on.
        tokio::time::sleep(period * 2).await;
        for _ in 0..rounds {
            let before = servers.commands()?;
            tokio::time::sleep(period).await;
            let done = servers.commands()? - before;
            let renewals = HELD as f64;
            run.samples.push("W4 renewal", RENEWAL, side.name, (done.all - done.scripts) / renewals);
            run.samples.push("W4 renewal", "calls a renewal", side.name, done.scripts / renewals);
        }
        peer.call("bench", "bench.free").await?;
    }
    Ok(())
}
