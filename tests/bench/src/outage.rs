//! What each call does while the store is down: how long until it fails. Server killed: connections are refused. Server
//! stopped: it does not answer. Prints the table of docs/production.md.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tenure::{Client, Error, Owner, distributed_lock};
use testbed::{Redis, RedisOptions, Server, ZooKeeper, ZooKeeperOptions};
use tokio::task::JoinSet;

use crate::Result;

/// How often each call is made, each time by another client.
const CLIENTS: usize = 5;
/// How long the store has been down when the calls are made: their clients have noticed by then.
const BEFORE: Duration = Duration::from_secs(1);

#[distributed_lock(key = "x", wait = "2s", client = client)]
async fn waits_two_seconds(client: &Client) -> tenure::Result<()> {
    Ok(())
}

#[distributed_lock(key = "x", wait = "0s", client = client)]
async fn does_not_wait(client: &Client) -> tenure::Result<()> {
    Ok(())
}

#[distributed_lock(key = "x", client = client)]
async fn waits(client: &Client) -> tenure::Result<()> {
    Ok(())
}

type Answer = Pin<Box<dyn Future<Output = tenure::Result<()>> + Send>>;

/// A call: its name in the table, and the call itself, by a client that has used the store before.
type Call = (&'static str, fn(Client) -> Answer);

macro_rules! call {
    ($name:expr, |$client:ident| $call:expr) => {
        ($name, |$client| Box::pin(async move { $call.await.map(drop) }))
    };
}

const CALLS: &[Call] = &[
    call!("`try_acquire`", |client| client.lock("x").try_acquire()),
    call!("`try_acquire_for(100ms)`", |client| client.lock("x").try_acquire_for(Duration::from_millis(100))),
    call!("`try_acquire_for(2s)`", |client| client.lock("x").try_acquire_for(Duration::from_secs(2))),
    call!("`acquire`", |client| client.lock("x").acquire()),
    call!("the attribute with `wait = \"2s\"`", |client| waits_two_seconds(&client)),
    call!("the attribute with `wait = \"0s\"`", |client| does_not_wait(&client)),
    call!("the attribute without `wait`", |client| waits(&client)),
    call!("`try_acquire` of a counting semaphore", |client| client.counting_semaphore("n").try_acquire(1)),
    call!("`release` of a counting semaphore", |client| client.counting_semaphore("n").release(1)),
    call!("`is_locked`, as `holders`, `list` and others", |client| client.lock("x").is_locked()),
    call!("`count` of a latch, as `available` of a counting semaphore", |client| client
        .latch("latch")
        .count()),
];

/// A re-entry needs a hold, which is taken before the store goes down.
const REENTRY: &str = "`try_acquire` by which a named owner re-enters its lock";
const CONNECT: &str = "`connect`";

/// How long a call took until it failed: the shortest and the longest.
struct Took {
    call: &'static str,
    /// It needed no server.
    succeeded: bool,
    shortest: Duration,
    longest: Duration,
}

pub(crate) fn outage() -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let redis = || Redis::start(RedisOptions::default());
        let zookeeper = || ZooKeeper::start(ZooKeeperOptions::default());
        print(&[
            down(redis()?, Redis::url, |redis| redis.kill()).await?,
            down(redis()?, Redis::url, |redis| redis.stop()).await?,
            down(zookeeper()?, ZooKeeper::url, |zookeeper| zookeeper.kill()).await?,
            down(zookeeper()?, ZooKeeper::url, |zookeeper| zookeeper.stop()).await?,
        ]);
        Ok(0)
    })
}

/// Makes each call while the server is down.
async fn down<S: Deref<Target = Server>>(
    server: S,
    url: impl Fn(&S) -> String,
    take_down: impl Fn(&S) -> testbed::Result<()>,
) -> Result<Vec<Took>> {
    let url = url(&server);
    let client = async || {
        let client = tenure::connect(&url).await?;
        client.lock("warm").acquire().await?.release().await?;
        client.counting_semaphore("n").release(1).await?;
        Ok::<_, Error>(client)
    };
    let mut ready: Vec<(&'static str, Answer)> = Vec::new();
    for i in 0..CLIENTS {
        for (name, call) in CALLS {
            ready.push((name, call(client().await?)));
        }
        let (client, me) = (client().await?, Owner::new());
        let lock = client.lock(format!("re-entered {i}")).owner(&me);
        let held = lock.acquire().await?;
        ready.push((
            REENTRY,
            Box::pin(async move {
                let entered = lock.try_acquire().await;
                held.detach();
                entered.map(drop)
            }),
        ));
        let url = url.clone();
        ready.push((CONNECT, Box::pin(async move { tenure::connect(&url).await.map(drop) })));
    }
    take_down(&server)?;
    tokio::time::sleep(BEFORE).await;
    let mut calls = JoinSet::new();
    for (name, call) in ready {
        calls.spawn(async move {
            let asked = Instant::now();
            (name, call.await, asked.elapsed())
        });
    }
    let mut all: Vec<Took> = Vec::new();
    while let Some(done) = calls.join_next().await {
        let (call, answer, took) = done?;
        let succeeded = match answer {
            Err(Error::Unavailable { .. } | Error::Unknown { .. }) => false,
            // A session that lives by its own clock needs no server for that.
            Ok(()) if call == REENTRY => true,
            other => return Err(format!("{call}: {other:?} of a store that is down").into()),
        };
        match all.iter_mut().find(|known| known.call == call) {
            Some(known) => {
                (known.shortest, known.longest) = (known.shortest.min(took), known.longest.max(took));
            }
            None => all.push(Took { call, succeeded, shortest: took, longest: took }),
        }
    }
    Ok(all)
}

fn print(outages: &[Vec<Took>]) {
    println!("| call | Redis killed | Redis stopped | ZooKeeper killed | ZooKeeper stopped |");
    println!("| --- | --- | --- | --- | --- |");
    let calls = [CONNECT].into_iter().chain(CALLS.iter().map(|(name, _)| *name)).chain([REENTRY]);
    for call in calls {
        let cells = outages.iter().flatten().filter(|took| took.call == call).map(Took::text);
        println!("| {call} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

impl Took {
    fn text(&self) -> String {
        if self.succeeded {
            return "granted at once".to_owned();
        }
        let tenths = |d: Duration| format!("{:.1}", d.as_secs_f64());
        match (tenths(self.shortest), tenths(self.longest)) {
            (_, longest) if longest == "0.0" => format!("{} ms", self.longest.as_millis().max(1)),
            (shortest, longest) if shortest == longest => format!("{longest} s"),
            (shortest, longest) => format!("{shortest} to {longest} s"),
        }
    }
}
