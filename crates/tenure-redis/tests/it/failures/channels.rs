//! C14–C17. Messages that are lost, come in masses or wake too many.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tenure_core::Client;
use testbed::{FAR, Rule, Way, done, until_true, within};

use crate::harness::{Harness, about, leasing, polling, waiting, woken_only};

/// Long enough for what was to happen.
const A_WHILE: Duration = Duration::from_millis(150);

const CHANNEL: &str = "redisson_lock__channel:{x}";

fn subscribers(harness: &Harness, channel: &str) -> i64 {
    harness.cmd(&["PUBSUB", "NUMSUB", channel]).items()[1].int().unwrap()
}

async fn listens(harness: &Harness, n: i64) {
    until_true("it listens", || subscribers(harness, CHANNEL) == n).await;
}

/// C14. A wake-up that is lost costs the poll cap, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_message_costs_a_poll() {
    let harness = Harness::start();
    let network = harness.network();
    let poll = Duration::from_millis(600);
    // Nothing else brings it in: the holder's lease does not end.
    let (holder, client) =
        (harness.client_with(leasing(FAR)).await, network.client_with(polling(poll)).await);
    let held = holder.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { client.lock("x").acquire().await });
    waiting(&holder, "x", 1).await;
    listens(&harness, 1).await;
    network.proxy.set(Way::ToClient, Rule::DropPushes);
    held.release().await.unwrap();
    let guard = done("its next look", waiter).await.unwrap();
    until_true("lost", || network.proxy.counts().iter().map(|c| c.pushes_dropped).sum::<u64>() == 1).await;
    // Its own release is a message too.
    drop(guard);
}

/// C14. Subscriptions cut at random while a lock goes from hand to hand: everybody who may have missed a message looks.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_cut_all_the_time_lose_no_wake_up() {
    let harness = Harness::start();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(harness.client_with(woken_only()).await);
    }
    let mut killer = harness.redis.client().unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let killed = Arc::new(AtomicI64::new(0));
    let kills = killed.clone();
    let killing = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(7)).is_err() {
            let more = killer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap().int().unwrap();
            kills.fetch_add(more, SeqCst);
        }
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
            let killed = killed.clone();
            tokio::spawn(async move {
                let mut rounds = 0;
                while rounds < 40 || killed.load(SeqCst) < 10 {
                    rounds += 1;
                    lock.acquire().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        done("nobody sleeps on", task).await;
    }
    stop.send(()).unwrap();
    killing.join().unwrap();
}

/// C15. A subscriber that the server threw out for being slow looks after it came back.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_thrown_out_by_a_flood_looks_again() {
    let harness = Harness::configured(&["client-output-buffer-limit pubsub 64kb 0 0"]);
    let (holder, client) = (harness.client_with(woken_only()).await, harness.client_with(woken_only()).await);
    let held = holder.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { client.lock("x").acquire().await });
    listens(&harness, 1).await;
    let flood = "x".repeat(1_000_000);
    for _ in 0..5 {
        // Each throws it out as soon as it is there.
        until_true("it came back", || harness.number(&["PUBLISH", CHANNEL, &flood]) == 1).await;
    }
    held.release().await.unwrap();
    drop(done("told by its return", waiter).await.unwrap());
}

/// C15. Nor is anybody held up by many small messages about nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_messages_delays_nobody_else() {
    let harness = Harness::start();
    let (holder, client) = (harness.client_with(woken_only()).await, harness.client_with(woken_only()).await);
    let held = [holder.lock("x").acquire().await.unwrap(), holder.lock("y").acquire().await.unwrap()];
    let waiters = ["x", "y"].map(|name| {
        let lock = client.lock(name);
        tokio::spawn(async move { lock.acquire().await })
    });
    listens(&harness, 1).await;
    until_true("it listens", || subscribers(&harness, "redisson_lock__channel:{y}") == 1).await;
    let mut flood = harness.redis.client().unwrap();
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
    drop(done("the other name", waits_y).await.unwrap());
    x.release().await.unwrap();
    drop(done("the flooded name", waits_x).await.unwrap());
    stop.send(()).unwrap();
    flooding.join().unwrap();
}

/// C16. A thousand names waited for need one connection to listen, and no channel stays when nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_channels_share_one_connection_and_go() {
    const NAMES: usize = 1000;
    let harness = Harness::start();
    let client = harness.client_with(polling(FAR)).await;
    let mut fill = harness.redis.client().unwrap();
    for n in 0..NAMES {
        fill.cmd(&["HSET", &format!("x{n}"), "somebody:1", "1"]).unwrap();
        fill.cmd(&["PEXPIRE", &format!("x{n}"), "600000"]).unwrap();
    }
    let waiters: Vec<_> = (0..NAMES)
        .map(|n| {
            let lock = client.lock(format!("x{n}"));
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    let channels = |harness: &Harness| harness.cmd(&["PUBSUB", "CHANNELS"]).items().len();
    until_true("all listen", || channels(&harness) == NAMES).await;
    let listeners = harness.cmd(&["CLIENT", "LIST", "TYPE", "pubsub"]).text();
    assert_eq!(listeners.lines().count(), 1, "{listeners}");
    for n in 0..NAMES {
        fill.cmd(&["DEL", &format!("x{n}")]).unwrap();
        fill.cmd(&["PUBLISH", &format!("redisson_lock__channel:{{x{n}}}"), "0"]).unwrap();
    }
    for waiter in waiters {
        done("woken", waiter).await;
    }
    until_true("no channel is left", || channels(&harness) == 0).await;
}

/// C17. A release with a thousand waiters behind it costs as many commands as with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_one_of_a_thousand() {
    let harness = Harness::start();
    // Each release goes to the server.
    let mut settings = woken_only();
    settings.local_handover = None;
    let clients: [Client; 2] =
        [harness.client_with(settings.clone()).await, harness.client_with(settings).await];
    let held = clients[0].lock("x").acquire().await.unwrap();
    let mut monitor = harness.redis.monitor().unwrap();
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..1000 {
        let (lock, entered) = (clients[n % 2].lock("x"), entered.clone());
        tokio::spawn(async move { entered.send(lock.acquire().await.unwrap()) });
    }
    waiting(&clients[0], "x", 2).await;
    listens(&harness, 2).await;
    // Those who came first have looked; all others wait behind them without a look of their own.
    until_true("nobody looks any more", || {
        std::thread::sleep(A_WHILE);
        monitor.drain().unwrap().is_empty()
    })
    .await;
    let mut held = held;
    for _ in 0..5 {
        held.release().await.unwrap();
        held = within("the next one", inside.recv()).await.expect("granted");
    }
    let seen = monitor.drain().unwrap();
    // A release, and an attempt of each client; the one that got in has another behind it.
    let cost = about(&seen, "x").len();
    assert!(cost <= 5 * 6, "{cost} commands for five releases");
}
