//! C32, C33. The release of a fair lock grants to the first of the queue, if that is watching.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Backend, Claim, Client, Guard, Kind, Lock, Result, Settings};
use testbed::{FAR, Rule, Way, done, until_true};
use tokio::task::JoinHandle;

use crate::harness::{
    Harness, LEASE, LONG, SHORT, about, claim, granted, polling, renewed, settings, warm, woken_only,
};

/// Waits in a task of its own. Returns once a release may grant to each of `n` waiters.
async fn watching(harness: &Harness, lock: Lock, n: usize) -> JoinHandle<Result<Guard>> {
    let task = tokio::spawn(async move { lock.acquire().await });
    let may = |record: &&String| record.starts_with('-') && !record.starts_with("- ");
    until_true("all are watching", || {
        harness.cmd(&["HVALS", "tenure_about:{x}"]).texts().iter().filter(may).count() == n
    })
    .await;
    task
}

/// A lease that outlasts any pause of the machine, in queue positions that last as long.
fn lasting() -> Settings {
    let mut settings = settings();
    (settings.lease, settings.poll) = (LONG, Some(LONG));
    settings
}

/// The waiter sends nothing: what it holds is valid for no longer than the server keeps it, and is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn the_release_is_the_only_command() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(lasting()).await, harness.client_with(lasting()).await);
    warm(&client).await;
    let held = client.lock("x").fair().acquire().await.unwrap();
    let (id, fence) = (held.id(), held.fence());
    let waiter = watching(&harness, other.lock("x").fair(), 1).await;
    let mut monitor = harness.redis.monitor().unwrap();
    held.release().await.unwrap();
    let guard = done("granted", waiter).await.unwrap();
    assert!(harness.covers("x", &guard), "{:?}, {:?} left", guard.remaining(), harness.left("x"));
    assert!(guard.fence() > fence && guard.id() != id);
    assert_eq!(about(&monitor.drain().unwrap(), "x").len(), 1);
    assert!(guard.is_held());
    guard.release().await.unwrap();
    let left: Vec<_> = harness.keys().into_iter().filter(|key| key.contains("{x}")).collect();
    assert_eq!(left, ["tenure_fence:{x}"]);
}

/// Its validity counts from the attempt that the store answered before, not from the signal, which may come late.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_comes_late_makes_no_hold_longer() {
    // Far more than is taken off for clocks that differ.
    const LATE: Duration = Duration::from_secs(3);
    let harness = Harness::start();
    let network = harness.network();
    let (client, other) = (harness.client_with(lasting()).await, network.client_with(lasting()).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let waiter = watching(&harness, other.lock("x").fair(), 1).await;
    network.proxy.set(Way::ToClient, Rule::Delay(LATE));
    held.release().await.unwrap();
    let guard = done("granted", waiter).await.unwrap();
    assert!(harness.covers("x", &guard), "{:?}, {:?} left", guard.remaining(), harness.left("x"));
    network.proxy.heal();
    guard.release().await.unwrap();
}

/// Who is granted to and does not come keeps others out for as long as it would have been waited for, and no longer: its
/// hold ends with its place, or with its lease if that is shorter.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_waiter_holds_for_what_its_place_had_left() {
    let harness = Harness::start();
    let (client, dead) = (harness.client_with(polling(SHORT)).await, harness.backend().await);
    for (lease, stamp) in [(FAR, LONG), (LONG, LONG * 2)] {
        let held = client.lock("x").fair().acquire().await.unwrap();
        let place = Claim { lease, stamp, ..watched("x") };
        assert!(!granted(&*dead, &place).await);
        held.release().await.unwrap();
        assert_eq!(harness.number(&["HEXISTS", "x", &place.id.to_string()]), 1);
        assert!(harness.left("x") <= LONG, "{:?} left", harness.left("x"));
        // Its time passes.
        harness.cmd(&["PEXPIRE", "x", "100"]);
        client.lock("x").fair().acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(harness.keys(), ["tenure_fence:{x}"]);
}

/// A message that is lost must not cost a place: nothing is granted that could end before the waiter looks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_lease_is_not_granted_by_a_release() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(lasting()).await, harness.backend().await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let place = Claim { lease: LONG / 2, stamp: LONG * 2, ..watched("x") };
    assert!(!granted(&*other, &place).await);
    held.release().await.unwrap();
    assert!(!harness.exists("x"));
    assert_eq!(head(&harness), place.id.to_string());
    assert!(granted(&*other, &place).await);
    other.release(&place, 0).await.unwrap();
}

/// The first in the queue.
fn head(harness: &Harness) -> String {
    harness.cmd(&["LINDEX", "redisson_lock_queue:{x}", "0"]).text()
}

/// A server without memory still answers those who wait, and a release that cannot draw a fence still wakes.
#[tokio::test(flavor = "multi_thread")]
async fn neither_memory_nor_the_fence_stands_in_the_way() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(lasting()).await, harness.backend().await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let place = watched("x");
    assert!(!granted(&*other, &place).await);
    harness.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(!granted(&*other, &Claim { watched: Some(2), ..place.clone() }).await);
    harness.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    other.release(&place, 0).await.unwrap();
    let waiter = watching(&harness, harness.client_with(woken_only()).await.lock("x").fair(), 1).await;
    harness.cmd(&["DEL", "tenure_fence:{x}"]);
    harness.cmd(&["HSET", "tenure_fence:{x}", "a", "b"]);
    held.release().await.unwrap();
    assert!(!harness.exists("x"));
    assert!(done("it looks by itself", waiter).await.is_err());
}

/// What is detached lasts for its lease, although it was granted for less.
#[tokio::test(flavor = "multi_thread")]
async fn a_detached_hold_has_its_whole_lease() {
    let harness = Harness::start();
    let place = LEASE - SHORT;
    let (client, other) =
        (harness.client_with(lasting()).await, harness.client_with(polling(place / 3)).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let waiter = watching(&harness, other.lock("x").fair(), 1).await;
    held.release().await.unwrap();
    let id = done("granted", waiter).await.unwrap().detach();
    until_true("extended", || harness.left("x") > place).await;
    assert!(other.lock("x").release_by(id).await.unwrap());
}

/// A claim of a caller that says it is watching.
fn watched(name: &str) -> Claim {
    Claim { wait: Some(FAR), watched: Some(1), ..claim(name, Kind::FairLock) }
}

/// Who gives up at that moment passes it on to the next.
#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_passes_it_on() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(woken_only()).await, harness.backend().await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let place = watched("x");
    assert!(!granted(&*other, &place).await);
    let next = harness.client_with(woken_only()).await;
    let waiter = watching(&harness, next.lock("x").fair(), 2).await;
    held.release().await.unwrap();
    assert_eq!(harness.number(&["HEXISTS", "x", &place.id.to_string()]), 1);
    other.release(&place, 0).await.unwrap();
    done("the next", waiter).await.unwrap().release().await.unwrap();
}

/// A signal that names another attempt than the last is a hint: a hold that it speaks of may be over.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_for_an_earlier_attempt_is_not_believed() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(lasting()).await, harness.client_with(lasting()).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let waiter = watching(&harness, other.lock("x").fair(), 1).await;
    let id = harness.cmd(&["LINDEX", "redisson_lock_queue:{x}", "0"]).text();
    let mut monitor = harness.redis.monitor().unwrap();
    let channel = format!("redisson_lock__channel:{{x}}:{id}");
    for message in ["granted 99 1 60000", "granted 1", "granted", "granted 1 2 x", "hello"] {
        assert_eq!(harness.number(&["PUBLISH", &channel, message]), 1);
        let mut seen = Vec::new();
        until_true("it asks the store", || {
            seen.extend(monitor.drain().unwrap());
            !about(&seen, "x").is_empty()
        })
        .await;
        assert!(!waiter.is_finished(), "{message}");
    }
    held.release().await.unwrap();
    done("granted", waiter).await.unwrap().release().await.unwrap();
}

/// What needs more than the store was asked for asks for it: a fixed lease, and a minimum.
#[tokio::test(flavor = "multi_thread")]
async fn terms_of_ones_own_are_kept() {
    // Longer than what its place has left, which is nine seconds, and not so long that this alone is too little.
    const OWN: Duration = Duration::from_secs(24);
    let harness = Harness::start();
    let mut short = settings();
    short.poll = Some(SHORT * 3);
    let (client, other) = (harness.client_with(lasting()).await, harness.client_with(short).await);
    for lock in [other.lock("x").fair().lease(OWN), other.lock("x").fair().at_least(LONG)] {
        let held = client.lock("x").fair().acquire().await.unwrap();
        let waiter = watching(&harness, lock, 1).await;
        held.release().await.unwrap();
        let guard = done("granted", waiter).await.unwrap();
        assert!(harness.left("x") > Duration::from_secs(9), "{:?} left", harness.left("x"));
        assert!(harness.covers("x", &guard));
        guard.release().await.unwrap();
        harness.cmd(&["DEL", "x"]);
    }
}

/// A hold that was granted for less than its lease has its lease soon.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_renewed() {
    let harness = Harness::start();
    // A place lasts for three polls.
    let place = LEASE - SHORT;
    let (client, other) =
        (harness.client_with(lasting()).await, harness.client_with(polling(place / 3)).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let waiter = watching(&harness, other.lock("x").fair(), 1).await;
    held.release().await.unwrap();
    let guard = done("granted", waiter).await.unwrap();
    renewed([&guard]).await;
    assert!(harness.left("x") > place, "{:?} left", harness.left("x"));
    guard.release().await.unwrap();
}

/// The message is lost with the subscription: whoever subscribes again looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_message_is_made_up_for_by_the_next_subscription() {
    let harness = Harness::start();
    let network = harness.network();
    let (client, other) = (harness.client_with(woken_only()).await, network.client_with(woken_only()).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let waiter = watching(&harness, other.lock("x").fair(), 1).await;
    network.proxy.set(Way::ToClient, Rule::DropPushes);
    held.release().await.unwrap();
    until_true("granted there", || harness.exists("x")).await;
    assert!(!waiter.is_finished());
    network.proxy.heal();
    harness.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    done("granted", waiter).await.unwrap().release().await.unwrap();
}

/// Several processes with several tasks each: everybody gets in, one at a time, and in the order of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn many_take_turns() {
    const TURNS: usize = 50;
    let harness = Harness::start();
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let client: Client = harness.client_with(woken_only()).await;
        for _ in 0..4 {
            let (lock, inside) = (client.lock("x").fair(), inside.clone());
            tasks.push(tokio::spawn(async move {
                let mut fences = Vec::new();
                for _ in 0..TURNS {
                    let guard = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    fences.push(guard.fence().unwrap());
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
                assert!(fences.is_sorted());
                fences.len()
            }));
        }
    }
    for task in tasks {
        assert_eq!(done("all turns", task).await, TURNS);
    }
    assert_eq!(harness.keys(), ["tenure_fence:{x}"]);
}
