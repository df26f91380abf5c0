//! The crate `redis`: our scripts over its multiplexed connection, compared with our store over our own connection.
//! Nothing above the store takes part, so the connections are what differs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Value};
use tenure::backend::{Attempt, Backend, Claim, Kind};
use tenure::{ClientId, Error, HoldId, Name};
use testbed::{Redis, RedisOptions};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::bare::{Pair, Recorder, first_command};
use crate::pairs::{on, row, runtime_name};
use crate::report::Row;
use crate::rounds::alternate;
use crate::{Result, Scale};

const TASKS: [usize; 3] = [1, 16, 256];

pub(crate) async fn rows(scale: Scale, workers: &Handle) -> Result<Vec<Row>> {
    let server = Redis::start(RedisOptions::default())?;
    let client = ClientId::new();
    let names = (0..TASKS[TASKS.len() - 1]).map(|i| Name::new(format!("many{i}")));
    let claims = names.map(|name| Ok(Claim::of(HoldId { client, n: 1 }, name?, Kind::Lock)));
    let claims: Vec<Claim> = claims.collect::<tenure::Result<_>>()?;
    let pairs = record(&server, &claims).await?;
    let mut rows = Vec::new();
    for workers in [None, Some(workers)] {
        for tasks in TASKS {
            rows.push(beside(&server, scale, &claims[..tasks], &pairs[..tasks], workers).await?);
        }
    }
    Ok(rows)
}

/// Records what our store sends for each claim.
async fn record(server: &Redis, claims: &[Claim]) -> Result<Vec<Pair>> {
    let recorder = Recorder::start(server.port())?;
    let store = tenure::open(&recorder.url).await?;
    let mut pairs = Vec::new();
    for claim in claims.iter().take(1).chain(claims) {
        store.try_acquire(claim).await?;
        store.release(claim, 0).await?;
        pairs.push(recorder.take_pair());
    }
    // The first call of a script sends its text.
    pairs.remove(0).ok();
    pairs.into_iter().collect()
}

/// Without a bar: shows what a connection of our own costs or saves.
async fn beside(
    server: &Redis,
    scale: Scale,
    claims: &[Claim],
    pairs: &[Pair],
    workers: Option<&Handle>,
) -> Result<Row> {
    let store = tenure::open(&server.url()).await?;
    let url = server.url();
    let connection = on(workers, async move {
        let client = ::redis::Client::open(url).map_err(failed)?;
        client.get_multiplexed_async_connection().await.map_err(failed)
    });
    let connection = connection.await?;
    let ours = || {
        let (store, claims) = (store.clone(), claims.to_vec());
        on(workers, async move {
            let begin = Instant::now();
            let task = |claim| tokio::spawn(over_ours(store.clone(), claim, begin + scale.redis));
            per_second(claims.into_iter().map(task).collect(), begin).await
        })
    };
    let peer = || {
        let (connection, pairs) = (connection.clone(), pairs.to_vec());
        on(workers, async move {
            let begin = Instant::now();
            let task = |pair| tokio::spawn(over_redis_rs(connection.clone(), pair, begin + scale.redis));
            per_second(pairs.into_iter().map(task).collect(), begin).await
        })
    };
    let rates = alternate(scale.rounds, ours, peer).await?;
    let tasks = if claims.len() == 1 { "one task".to_owned() } else { format!("{} tasks", claims.len()) };
    let what = format!("redis: connection, {tasks}, {}", runtime_name(workers));
    store.close(Duration::from_secs(1)).await?;
    Ok(Row { bar: String::new(), met: true, ..row(what, rates, "crate redis", 0.0) })
}

/// Number of pairs until `end`.
async fn over_ours(store: Arc<dyn Backend>, mut claim: Claim, end: Instant) -> tenure::Result<f64> {
    let mut done = 0.0;
    while Instant::now() < end {
        let Attempt::Granted { .. } = store.try_acquire(&claim).await? else {
            return Err(Error::Config("the lock was not granted".into()));
        };
        store.release(&claim, 0).await?;
        claim.id.n += 1;
        done += 1.0;
    }
    Ok(done)
}

/// Number of pairs until `end`. The commands are encoded once, which leaves the connection less work than ours has.
async fn over_redis_rs(
    mut connection: MultiplexedConnection,
    pair: Pair,
    end: Instant,
) -> tenure::Result<f64> {
    let [acquire, release] = [command(&pair.acquire), command(&pair.release)];
    let mut done = 0.0;
    while Instant::now() < end {
        let reply: Value = acquire.query_async(&mut connection).await.map_err(failed)?;
        if !matches!(&reply, Value::Array(parts) if parts.first() == Some(&Value::Int(1))) {
            return Err(Error::Config(format!("the lock was not granted: {reply:?}")));
        }
        release.query_async::<Value>(&mut connection).await.map_err(failed)?;
        done += 1.0;
    }
    Ok(done)
}

fn command(recorded: &[u8]) -> Cmd {
    let mut command = Cmd::new();
    for word in first_command(recorded).into_iter().flat_map(|(words, _)| words) {
        command.arg(word);
    }
    command
}

async fn per_second(tasks: Vec<JoinHandle<tenure::Result<f64>>>, begin: Instant) -> tenure::Result<f64> {
    let mut done = 0.0;
    for task in tasks {
        done += task.await.map_err(|e| Error::Config(e.to_string()))??;
    }
    Ok(done / begin.elapsed().as_secs_f64())
}

fn failed(error: ::redis::RedisError) -> Error {
    Error::Config(error.to_string())
}
