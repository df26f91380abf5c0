//! C18. The fair queue, and those in it who do not come any more.

use std::time::Duration;

use tenure_core::{Backend, Claim, Kind};
use testbed::{FAR, done, until_true, within};

use crate::harness::{Harness, LONG, SHORT, about, claim, granted, polling};

const QUEUE: &str = "redisson_lock_queue:{x}";
const SCORES: &str = "redisson_lock_timeout:{x}";
const STAMPS: &str = "tenure_stamps:{x}";

/// C18. All of them are skipped at once, one stamp after the last sign of life: not one after the other, which would
/// take a hundred stamps or a hundred questions.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_dead_waiters_are_skipped_together() {
    let harness = Harness::start();
    let client = harness.client().await;
    let held = client.lock("x").fair().acquire().await.unwrap();
    let (other, dead) = (harness.client_with(polling(SHORT * 2)).await, harness.backend().await);
    for _ in 0..100 {
        let mut one = claim("x", Kind::FairLock);
        (one.wait, one.stamp) = (Some(FAR), FAR);
        assert!(!granted(&*dead, &one).await);
    }
    assert_eq!(harness.number(&["LLEN", QUEUE]), 100);
    let last = || harness.cmd(&["LINDEX", QUEUE, "-1"]).text();
    let dead = last();
    let waiter = tokio::spawn(async move { other.lock("x").fair().acquire().await });
    until_true("it waits", || last() != dead).await;
    // They all died at the same moment: otherwise it is a hundred deaths that are waited for, one by one.
    let alive = last();
    let score = harness.cmd(&["ZSCORE", STAMPS, &alive]).text();
    harness.ends_stamps("x", Duration::from_millis(1500));
    harness.cmd(&["ZADD", STAMPS, &score, &alive]);
    let mut monitor = harness.redis.monitor().unwrap();
    held.release().await.unwrap();
    done("the living one", waiter).await.unwrap().release().await.unwrap();
    assert_eq!((harness.exists(QUEUE), harness.exists(SCORES)), (false, false));
    let asked = about(&monitor.drain().unwrap(), "x").len();
    assert!(asked < 20, "asked {asked} times meanwhile");
}

/// L5. Those who wait for longer than their patience keep their places as long as they give signs of life.
#[tokio::test(flavor = "multi_thread")]
async fn the_living_keep_their_places_while_the_dead_go() {
    let harness = Harness::start();
    // A stamp lasts for three polls.
    let (client, other) =
        (harness.client().await, harness.client_with(polling(Duration::from_secs(3))).await);
    let held = client.lock("x").fair().acquire().await.unwrap();
    let backend = harness.backend().await;
    let mut dead = claim("x", Kind::FairLock);
    (dead.wait, dead.stamp) = (Some(FAR), SHORT);
    assert!(!granted(&*backend, &dead).await);
    let (enter, mut inside) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..3 {
        let (lock, enter) = (other.lock("x").fair(), enter.clone());
        tokio::spawn(async move { enter.send(lock.acquire().await) });
    }
    let queue = || {
        let all = harness.cmd(&["LRANGE", QUEUE, "0", "-1"]).texts();
        all.into_iter().filter(|id| *id != dead.id.to_string()).collect::<Vec<_>>()
    };
    until_true("they wait", || queue().len() == 3).await;
    let order = queue();
    let stamp = |id: &String| harness.cmd(&["ZSCORE", STAMPS, id]).text().parse::<f64>().unwrap();
    let first: Vec<_> = order.iter().map(stamp).collect();
    // Whoever comes now sweeps: the dead one goes, and nobody else is swept.
    testbed::until("each gave a sign of life, and the dead one is gone", || async {
        assert!(!granted(&*backend, &claim("x", Kind::FairLock)).await);
        assert_eq!(queue(), order);
        order.iter().zip(&first).all(|(id, first)| stamp(id) > *first)
            && harness.number(&["LLEN", QUEUE]) == 3
    })
    .await;
    let mut served = Vec::new();
    held.release().await.unwrap();
    for _ in 0..3 {
        let guard = within("served", inside.recv()).await.unwrap().unwrap();
        served.push(guard.id().to_string());
        guard.release().await.unwrap();
    }
    assert_eq!(served, order);
}

/// L5. One of ours that waits among JVMs stays in the past of nobody: what a JVM takes off all scores when it acquires,
/// ours have put on before, as the layout says.
#[tokio::test(flavor = "multi_thread")]
async fn scores_contain_the_patience_of_all_before() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let before = harness.time();
    assert!(granted(&*backend, &claim("x", Kind::FairLock)).await);
    let after = harness.time();
    let mut waits = Vec::new();
    for seconds in [20, 300, 40] {
        let mut one = claim("x", Kind::FairLock);
        one.wait = Some(Duration::from_secs(seconds));
        assert!(!granted(&*backend, &one).await);
        waits.push(one);
    }
    let score =
        |n: usize| harness.cmd(&["ZSCORE", SCORES, &waits[n].id.to_string()]).text().parse::<f64>().unwrap();
    // What the holder has left, and the patience of each up to itself. Times are whole milliseconds there.
    let ahead = [20.0, 320.0, 360.0].map(|s| s * 1000.0 + LONG.as_millis() as f64);
    for (n, ahead) in ahead.into_iter().enumerate() {
        let (score, slack) = (score(n), 10.0);
        let right = before + ahead - slack..=after + ahead + slack;
        assert!(right.contains(&score), "{n}: {score} is not in {right:?}");
    }
    // Whoever leaves takes off its own, and of those behind it only.
    let earlier = [score(0), score(2)];
    backend.release(&waits[1], 0).await.unwrap();
    assert_eq!([score(0), score(2)], [earlier[0], earlier[1] - 300_000.0]);
}

/// L5. What grants take off the scores may be put off while all who wait are ours: a JVM that waits with them has it taken
/// off its own score by the next grant.
#[tokio::test(flavor = "multi_thread")]
async fn scores_are_put_right_where_a_jvm_waits() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let places: Vec<_> = (0..20).map(|_| Claim { wait: Some(FAR), ..claim("x", Kind::FairLock) }).collect();
    for place in &places {
        assert_eq!(granted(&*backend, place).await, place.id == places[0].id);
    }
    let score = |id: &str| harness.cmd(&["ZSCORE", SCORES, id]).text().parse::<f64>().unwrap();
    let last = places[19].id.to_string();
    let first = score(&last);
    let grant = async |n: usize| {
        assert!(backend.release(&places[n], 0).await.is_ok());
        assert!(granted(&*backend, &places[n + 1]).await);
    };
    grant(0).await;
    grant(1).await;
    assert_eq!(score(&last), first, "two of twenty are put off");
    harness.cmd(&["RPUSH", QUEUE, "jvm:1"]);
    harness.cmd(&["ZADD", SCORES, &format!("{}", score(&last) + 300_000.0), "jvm:1"]);
    grant(2).await;
    assert_eq!(score(&last), first - 3.0 * 300_000.0);
    assert_eq!(score("jvm:1"), first - 2.0 * 300_000.0);
    // Nothing is left of it once they are gone.
    for place in &places[3..] {
        assert!(backend.release(place, 0).await.is_ok());
    }
    assert_eq!(harness.number(&["HEXISTS", "tenure_about:{x}", "owed"]), 0);
}
