//! How many commands and connections it takes: what is not sent cannot go wrong.

use std::time::Duration;

use tenure_core::Owner;

use crate::bench::{Bench, PATIENCE, about, eventually, polling, scripts, settings, within};

/// An acquire and a release that nobody contends with are one command each.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_acquire_and_release_are_two_commands() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in crate::bench::templates(&client, "once") {
        lock.acquire().await.unwrap().release().await.unwrap();
        let mut monitor = bench.redis.monitor().unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let seen = monitor.drain().unwrap();
        let sent: Vec<_> = seen.iter().filter(|s| !s.is_in_script()).map(|s| s.name()).collect();
        assert_eq!(sent, ["EVALSHA", "EVALSHA"], "{name}");
    }
}

/// What is held twice by one owner is one field with a count, as Redisson has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_held_twice_is_one_field_with_two() {
    let bench = Bench::start();
    let client = bench.client().await;
    let lock = client.lock("x").owner(&Owner::new());
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    assert_eq!(bench.cmd(&["HGETALL", "x"]).texts(), [outer.id().to_string(), "2".into()]);
    inner.release().await.unwrap();
    assert_eq!(bench.cmd(&["HGETALL", "x"]).texts(), [outer.id().to_string(), "1".into()]);
    outer.release().await.unwrap();
    assert!(!bench.exists("x"));
}

/// A12. Ten thousand who wait for one name in one process: three connections, and nothing sent from one poll to the
/// next.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiters_are_quiet() {
    const WAITERS: usize = 10_000;
    let bench = Bench::start();
    let poll = Duration::from_secs(3);
    let client = bench.client_with(polling(poll)).await;
    // By somebody who never renews, so that all that is sent is of the waiters.
    bench.cmd(&["HSET", "x", "somebody:1", "1"]);
    bench.cmd(&["PEXPIRE", "x", "600000"]);
    let mut monitor = bench.redis.monitor().unwrap();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = client.lock("x");
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    let mut looks = Vec::new();
    // Each has looked once for itself; after that only polls of the first are left, one at a time.
    eventually("two polls with nothing between them", async || {
        looks.extend(about(&monitor.drain().unwrap(), "x").iter().map(|s| s.at));
        looks.len() > WAITERS
            && looks.last_chunk().is_some_and(|[a, b]: &[f64; 2]| b - a > poll.as_secs_f64() * 0.9)
    })
    .await;
    let all = bench.cmd(&["CLIENT", "LIST"]).text();
    let ours: Vec<_> = all.lines().filter(|l| l.contains("name=tenure")).collect();
    assert!(ours.len() <= 3, "{ours:#?}");
    for waiter in waiters {
        waiter.abort();
    }
}

/// A thousand locks are renewed by ten scripts a period, also in a client that has taken and released many others.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_locks_are_renewed_by_ten_scripts() {
    const LOCKS: usize = 1000;
    let bench = Bench::start();
    let mut long = settings();
    long.lease = Duration::from_secs(9);
    let period = long.lease / 3;
    let client = bench.client_with(long).await;
    let before: Vec<_> = (0..20)
        .map(|n| {
            let lock = client.lock(format!("earlier-{n}"));
            tokio::spawn(async move {
                for _ in 0..250 {
                    lock.acquire().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for task in before {
        within(PATIENCE * 2, "five thousand pairs", task).await.unwrap();
    }
    let taking: Vec<_> = (0..LOCKS)
        .map(|n| {
            let lock = client.lock(format!("x{n}"));
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        })
        .collect();
    let mut held = Vec::new();
    for guard in taking {
        held.push(guard.await.unwrap());
    }
    let mut monitor = bench.redis.monitor().unwrap();
    let mut renewals: Vec<(f64, usize)> = Vec::new();
    let span = period.as_secs_f64();
    // From half a period after the first renewal, a whole period long.
    eventually("two periods and more", async || {
        for seen in scripts(&monitor.drain().unwrap()) {
            let keys: usize = seen.words[2].parse().unwrap();
            // After the keys one argument, then five for each lock.
            renewals.push((seen.at, (seen.words.len() - 3 - keys - 1) / 5));
        }
        renewals.first().is_some_and(|first| renewals.iter().any(|r| r.0 > first.0 + 1.5 * span))
    })
    .await;
    let first = renewals[0].0;
    let one: Vec<_> = renewals.iter().filter(|r| (0.5..1.5).contains(&((r.0 - first) / span))).collect();
    assert_eq!(one.iter().map(|r| r.1).sum::<usize>(), LOCKS, "each once: {one:?}");
    assert!(one.len() <= LOCKS / 100, "{one:?}");
    assert!(held.iter().all(tenure_core::Guard::is_held));
}
