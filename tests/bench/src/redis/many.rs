//! 64 tasks on 64 names, through one connection.

use interop::Jvm;
use testbed::Redis;
use tokio::runtime::Handle;

use super::bare::{Bare, record};
use crate::jvms::Jvms;
use crate::pairs::{on, own_names, row, runtime_name};
use crate::report::Row;
use crate::rounds::alternate;
use crate::{Result, Scale};

const TASKS: usize = 64;

/// Compared with a bare socket that pipelines all commands.
pub(crate) async fn beside_bare(server: &Redis, scale: Scale, workers: Option<&Handle>) -> Result<Row> {
    let names: Vec<String> = (0..TASKS).map(|i| format!("many{i}")).collect();
    let pairs = record(server.port(), "redisson", &names).await?;
    let mut socket = Bare::connect(server.port())?;
    let client = tenure::connect(&server.url()).await?;
    let ours = || {
        let client = client.clone();
        on(workers, async move { own_names(&client, TASKS, scale.redis).await })
    };
    let peer = || std::future::ready(socket.pipelined(&pairs, scale.redis));
    let rates = alternate(scale.rounds, ours, peer).await?;
    client.close().await?;
    Ok(row(format!("redis: 64 tasks, {}", runtime_name(workers)), rates, "bare pipelined socket", 0.70))
}

/// Compared with Redisson with 64 threads.
pub(crate) async fn beside_redisson(
    server: &Redis,
    scale: Scale,
    peers: &Jvms<Jvm>,
    workers: &Handle,
) -> Result<Row> {
    let client = tenure::connect(&server.url()).await?;
    let ours = || {
        let client = client.clone();
        on(Some(workers), async move { own_names(&client, TASKS, scale.peer).await })
    };
    let peer = || peers.own_names("jmany", TASKS, scale.peer);
    let rates = alternate(scale.peer_rounds, ours, peer).await?;
    client.close().await?;
    Ok(row("redis: 64 tasks".into(), rates, "Redisson", 6.0))
}
