//! ZooKeeper: compared with Curator, and with the bare driver that our client is built on.

mod bare;
mod handover;

use interop::{Curator, CuratorOptions};
use testbed::{ZooKeeper, ZooKeeperOptions};
use tokio::runtime::Handle;

use self::bare::Bare;
use crate::contended::{self, Contest};
use crate::jvms::Jvms;
use crate::pairs::{on, own_names, row};
use crate::report::Row;
use crate::rounds::alternate;
use crate::turns::Turns;
use crate::{Result, Scale};

/// Runs all benchmarks on ZooKeeper.
pub(crate) async fn rows(scale: Scale, workers: &Handle) -> Result<Vec<Row>> {
    let log = in_memory()?;
    let server = ZooKeeper::start(ZooKeeperOptions {
        lines: vec![format!("dataLogDir={}", log.path().display())],
        // With the optimizing compiler, as on a long-running server.
        jvm: vec!["-XX:TieredStopAtLevel=4".into(), "-Xmx512m".into()],
        ..ZooKeeperOptions::default()
    })?;
    let curator = curator(&server).await?;
    let mut rows = Vec::new();
    for tasks in [1, 64] {
        eprintln!("zookeeper: {tasks} …");
        rows.push(beside_curator(&server, scale, &curator, tasks, workers).await?);
        rows.push(beside_bare(&server, scale, tasks, workers).await?);
    }
    eprintln!("zookeeper: one name …");
    let contest = Contest {
        store: "zookeeper",
        url: &server.url(),
        turns: Turns::BUSY,
        peer: "Curator",
        bar: 1.0,
        longest: None,
    };
    rows.extend(contended::rows(contest, scale, &curator).await?);
    eprintln!("zookeeper: hand-overs …");
    rows.push(handover::beside_curator(&server, scale, &curator).await?);
    Ok(rows)
}

/// A folder in memory for the server's transaction log, so that no disk is measured; on disk if there is none.
fn in_memory() -> Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).map_err(Into::into)
}

async fn curator(server: &ZooKeeper) -> Result<Jvms<Curator>> {
    let (address, options) = (server.address(), CuratorOptions { optimised: true, ..Default::default() });
    Ok(Jvms([Curator::start(&address, &options).await?, Curator::start(&address, &options).await?]))
}

async fn beside_curator(
    server: &ZooKeeper,
    scale: Scale,
    curator: &Jvms<Curator>,
    tasks: usize,
    workers: &Handle,
) -> Result<Row> {
    let client = tenure::connect(&server.url()).await?;
    let ours = || {
        let client = client.clone();
        on(Some(workers), async move { own_names(&client, tasks, scale.peer).await })
    };
    let peer = || curator.own_names("jmany", tasks, scale.peer);
    let rates = alternate(scale.peer_rounds, ours, peer).await?;
    client.close().await?;
    Ok(row(named(tasks), rates, "Curator", 1.0))
}

/// Without a bar: shows which part of a pair is spent in the server and the driver.
async fn beside_bare(server: &ZooKeeper, scale: Scale, tasks: usize, workers: &Handle) -> Result<Row> {
    let client = tenure::connect(&server.url()).await?;
    let bare = workers.spawn(Bare::connect(server.address(), tasks)).await??;
    let ours = || {
        let client = client.clone();
        on(Some(workers), async move { own_names(&client, tasks, scale.redis).await })
    };
    let peer = || {
        let bare = bare.clone();
        async move { Ok(workers.spawn(async move { bare.pairs(scale.redis).await }).await??) }
    };
    let rates = alternate(scale.rounds, ours, peer).await?;
    client.close().await?;
    Ok(Row { bar: String::new(), met: true, ..row(named(tasks), rates, "bare driver", 0.0) })
}

fn named(tasks: usize) -> String {
    let tasks = if tasks == 1 { "one task".to_owned() } else { format!("{tasks} tasks") };
    format!("zookeeper: {tasks}")
}
