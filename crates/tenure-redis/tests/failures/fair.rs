//! C18. The fair queue, and those in it who do not come any more.

use std::time::{Duration, Instant};

use tenure_core::{Backend, Kind};

use crate::bench::{Bench, LEASE, PATIENCE, about, claim, eventually, granted, polling, within};

const QUEUE: &str = "redisson_lock_queue:{x}";
const SCORES: &str = "redisson_lock_timeout:{x}";
const STAMPS: &str = "tenure_stamps:{x}";

/// A hundred waiters who died together, in front of one who lives: their places last for `stamp` from now.
async fn behind_a_hundred_dead(bench: &Bench, stamp: Duration) {
    let dead = bench.backend().await;
    for _ in 0..100 {
        let mut one = claim("x", Kind::FairLock);
        (one.wait, one.stamp) = (Some(Duration::from_secs(300)), PATIENCE * 3);
        assert!(!granted(&*dead, &one).await);
    }
    assert_eq!(bench.number(&["LLEN", QUEUE]), 100);
    // At the same moment: otherwise it is a hundred deaths that are waited for, one by one.
    let script = "local t = redis.call('TIME') local over = t[1] * 1000 + ARGV[1]
        for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], over, id) end";
    bench.cmd(&["EVAL", script, "1", STAMPS, &stamp.as_millis().to_string()]);
}

/// C18. All of them are skipped at once, one stamp after the last sign of life: not one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_dead_waiters_are_skipped_together() {
    let bench = Bench::start();
    let client = bench.client().await;
    let held = client.lock("x").fair().acquire().await.unwrap();
    let (other, stamp) = (bench.client().await, Duration::from_millis(2500));
    behind_a_hundred_dead(&bench, stamp).await;
    let last = || bench.cmd(&["LINDEX", QUEUE, "-1"]).text();
    let dead = last();
    let waiter = tokio::spawn(async move { other.lock("x").fair().acquire().await });
    eventually("it waits", async || last() != dead).await;
    let mut monitor = bench.redis.monitor().unwrap();
    held.release().await.unwrap();
    let begin = Instant::now();
    within(stamp * 2, "the living one", waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(begin.elapsed() < stamp + stamp / 2, "{:?}", begin.elapsed());
    assert_eq!((bench.exists(QUEUE), bench.exists(SCORES)), (false, false));
    let asked = about(&monitor.drain().unwrap(), "x").len();
    assert!(asked < 20, "asked {asked} times meanwhile");
}

/// L5. Those who wait for longer than their patience keep their places as long as they give signs of life.
#[tokio::test(flavor = "multi_thread")]
async fn the_living_keep_their_places_while_the_dead_go() {
    let bench = Bench::start();
    let (client, other) =
        (bench.client().await, bench.client_with(polling(Duration::from_millis(300))).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let (enter, mut inside) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..3 {
        let (lock, enter) = (other.lock("x").fair(), enter.clone());
        tokio::spawn(async move { enter.send(lock.acquire().await) });
    }
    eventually("they wait", async || bench.number(&["LLEN", QUEUE]) == 3).await;
    let order = bench.cmd(&["LRANGE", QUEUE, "0", "-1"]).texts();
    // A stamp lasts for three polls. Whoever comes now sweeps: all the same, nobody is swept.
    let begin = Instant::now();
    let backend = bench.backend().await;
    eventually("many stamps later", async || {
        assert!(!granted(&*backend, &claim("x", Kind::FairLock)).await);
        assert_eq!(bench.cmd(&["LRANGE", QUEUE, "0", "-1"]).texts(), order);
        begin.elapsed() > Duration::from_millis(2000)
    })
    .await;
    let mut served = Vec::new();
    held.release().await.unwrap();
    for _ in 0..3 {
        let guard = within(PATIENCE, "served", inside.recv()).await.unwrap().unwrap();
        served.push(guard.id().to_string());
        guard.release().await.unwrap();
    }
    assert_eq!(served, order);
}

/// L5. One of ours that waits among JVMs stays in the past of nobody: what a JVM takes off all scores when it acquires,
/// ours have put on before, as the layout says.
#[tokio::test(flavor = "multi_thread")]
async fn scores_contain_the_patience_of_all_before() {
    let bench = Bench::start();
    let backend = bench.backend().await;
    assert!(granted(&*backend, &claim("x", Kind::FairLock)).await);
    let mut waits = Vec::new();
    for seconds in [20, 300, 40] {
        let mut one = claim("x", Kind::FairLock);
        one.wait = Some(Duration::from_secs(seconds));
        assert!(!granted(&*backend, &one).await);
        waits.push(one);
    }
    let score =
        |n: usize| bench.cmd(&["ZSCORE", SCORES, &waits[n].id.to_string()]).text().parse::<f64>().unwrap();
    let now = {
        let time = bench.cmd(&["TIME"]).texts();
        time[0].parse::<f64>().unwrap() * 1000.0
    };
    // What the holder has left, and the patience of each up to itself.
    let ahead = [20.0, 320.0, 360.0].map(|s| s * 1000.0 + LEASE.as_millis() as f64);
    for (n, ahead) in ahead.into_iter().enumerate() {
        let left = score(n) - now;
        assert!((left - ahead).abs() < 3000.0, "{n}: {left} instead of {ahead}");
    }
    // Whoever leaves takes off its own, and of those behind it only.
    let before = [score(0), score(2)];
    backend.release(&waits[1], 0).await.unwrap();
    assert_eq!([score(0), score(2)], [before[0], before[1] - 300_000.0]);
}
