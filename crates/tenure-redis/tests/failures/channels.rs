//! C14–C17. Messages that are lost, come in masses or wake too many.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tenure_core::{Client, Settings};
use testbed::{Rule, Way};

use crate::bench::{Bench, LEASE, PATIENCE, about, done, eventually, polling, waiting, within};

/// Nobody is woken by a clock: leases and polls take longer than the tests.
fn woken_only() -> Settings {
    let mut settings = polling(PATIENCE * 3);
    settings.lease = PATIENCE * 3;
    settings
}

const CHANNEL: &str = "redisson_lock__channel:{x}";

fn subscribers(bench: &Bench, channel: &str) -> i64 {
    bench.cmd(&["PUBSUB", "NUMSUB", channel]).items()[1].int().unwrap()
}

async fn listens(bench: &Bench, n: i64) {
    eventually("it listens", async || subscribers(bench, CHANNEL) == n).await;
}

/// C14. A wake-up that is lost costs the poll cap, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_message_costs_a_poll() {
    let bench = Bench::start();
    let network = bench.network();
    let poll = Duration::from_millis(600);
    let (holder, client) = (bench.client().await, network.client_with(polling(poll)).await);
    let held = holder.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { client.lock("x").acquire().await });
    waiting(&holder, "x", 1).await;
    listens(&bench, 1).await;
    network.proxy.set(Way::ToClient, Rule::DropPushes);
    held.release().await.unwrap();
    let guard = within(poll * 3, "its next look", waiter).await.unwrap().unwrap();
    assert_eq!(network.proxy.counts().iter().map(|c| c.pushes_dropped).sum::<u64>(), 1);
    // Its own release is a message too.
    drop(guard);
}

/// C14. Subscriptions cut at random while a lock goes from hand to hand: everybody who may have missed a message looks.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_cut_all_the_time_lose_no_wake_up() {
    let bench = Bench::start();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(bench.client_with(woken_only()).await);
    }
    let mut killer = bench.redis.client().unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let killing = std::thread::spawn(move || {
        let mut killed = 0;
        while stopped.recv_timeout(Duration::from_millis(7)).is_err() {
            killed += killer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap().int().unwrap();
        }
        killed
    });
    let tasks: Vec<_> = clients
        .iter()
        .flat_map(|client| {
            [
                client.lock("x"),
                client.lock("fair").fair(),
                client.rwlock("rw").write(),
                client.rwlock("rw").read(),
            ]
        })
        .map(|lock| {
            tokio::spawn(async move {
                for _ in 0..40 {
                    lock.acquire().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        done("nobody sleeps on", task).await;
    }
    stop.send(()).unwrap();
    assert!(killing.join().unwrap() > 0);
}

/// C15. A subscriber that the server threw out for being slow looks after it came back.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_thrown_out_by_a_flood_looks_again() {
    let bench = Bench::configured(&["client-output-buffer-limit pubsub 64kb 0 0"]);
    let (holder, client) = (bench.client_with(woken_only()).await, bench.client_with(woken_only()).await);
    let held = holder.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { client.lock("x").acquire().await });
    listens(&bench, 1).await;
    let flood = "x".repeat(1_000_000);
    for _ in 0..5 {
        // Each throws it out as soon as it is there.
        eventually("it came back", async || bench.number(&["PUBLISH", CHANNEL, &flood]) == 1).await;
    }
    held.release().await.unwrap();
    drop(within(LEASE * 2, "told by its return", waiter).await.unwrap().unwrap());
}

/// C15. Nor is anybody held up by many small messages about nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_messages_delays_nobody_else() {
    let bench = Bench::start();
    let (holder, client) = (bench.client_with(woken_only()).await, bench.client_with(woken_only()).await);
    let held = [holder.lock("x").acquire().await.unwrap(), holder.lock("y").acquire().await.unwrap()];
    let waiters = ["x", "y"].map(|name| {
        let lock = client.lock(name);
        tokio::spawn(async move { lock.acquire().await })
    });
    listens(&bench, 1).await;
    eventually("it listens", async || subscribers(&bench, "redisson_lock__channel:{y}") == 1).await;
    let mut flood = bench.redis.client().unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let flooding = std::thread::spawn(move || {
        while stopped.try_recv().is_err() {
            for _ in 0..200 {
                flood.send(&["PUBLISH", CHANNEL, "7"]).unwrap();
            }
            for _ in 0..200 {
                flood.receive().unwrap();
            }
        }
    });
    let [x, y] = held;
    y.release().await.unwrap();
    let [waits_x, waits_y] = waiters;
    drop(within(LEASE * 2, "the other name", waits_y).await.unwrap().unwrap());
    x.release().await.unwrap();
    drop(within(LEASE * 2, "the flooded name", waits_x).await.unwrap().unwrap());
    stop.send(()).unwrap();
    flooding.join().unwrap();
}

/// C16. A thousand names waited for need one connection to listen, and no channel stays when nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_channels_share_one_connection_and_go() {
    const NAMES: usize = 1000;
    let bench = Bench::start();
    let client = bench.client_with(polling(PATIENCE * 3)).await;
    let mut fill = bench.redis.client().unwrap();
    for n in 0..NAMES {
        fill.cmd(&["HSET", &format!("x{n}"), "somebody:1", "1"]).unwrap();
        fill.cmd(&["PEXPIRE", &format!("x{n}"), "60000"]).unwrap();
    }
    let waiters: Vec<_> = (0..NAMES)
        .map(|n| {
            let lock = client.lock(format!("x{n}"));
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    let channels = |bench: &Bench| bench.cmd(&["PUBSUB", "CHANNELS"]).items().len();
    eventually("all listen", async || channels(&bench) == NAMES).await;
    let listeners = bench.cmd(&["CLIENT", "LIST", "TYPE", "pubsub"]).text();
    assert_eq!(listeners.lines().count(), 1, "{listeners}");
    for n in 0..NAMES {
        fill.cmd(&["DEL", &format!("x{n}")]).unwrap();
        fill.cmd(&["PUBLISH", &format!("redisson_lock__channel:{{x{n}}}"), "0"]).unwrap();
    }
    for waiter in waiters {
        done("woken", waiter).await;
    }
    eventually("no channel is left", async || channels(&bench) == 0).await;
}

/// C17. A release with a thousand waiters behind it costs as many commands as with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_one_of_a_thousand() {
    let bench = Bench::start();
    let clients: [Client; 2] = [bench.client_with(woken_only()).await, bench.client_with(woken_only()).await];
    let held = clients[0].lock("x").acquire().await.unwrap();
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..1000 {
        let (lock, entered) = (clients[n % 2].lock("x"), entered.clone());
        tokio::spawn(async move { entered.send(lock.acquire().await.unwrap()) });
    }
    waiting(&clients[0], "x", 2).await;
    listens(&bench, 2).await;
    // All of them have looked once, and then only those in front of each client.
    let mut monitor = bench.redis.monitor().unwrap();
    let mut quiet = Instant::now();
    eventually("all wait", async || {
        if !about(&monitor.drain().unwrap(), "x").is_empty() {
            quiet = Instant::now();
        }
        quiet.elapsed() > Duration::from_millis(300)
    })
    .await;
    let mut held = held;
    for _ in 0..5 {
        held.release().await.unwrap();
        held = within(LEASE, "the next one", inside.recv()).await.expect("granted");
    }
    let seen = monitor.drain().unwrap();
    // A release, and an attempt of each client; the one that got in has another behind it.
    let cost = about(&seen, "x").len();
    assert!(cost <= 5 * 6, "{cost} commands for five releases");
}
