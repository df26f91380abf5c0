//! How many commands and connections it takes: what is not sent cannot go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Backend, Released, Renewal};
use tenure_core::{Claim, Kind, Owner};
use testbed::{FAR, done, until_true};

use crate::harness::{Harness, LEASE, about, claim, granted, leasing, polling, renewed, scripts, templates};

/// An acquire and a release that nobody contends with are one command each.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_acquire_and_release_are_two_commands() {
    let harness = Harness::start();
    let client = harness.client().await;
    for (name, lock) in templates(&client, "once") {
        lock.acquire().await.unwrap().release().await.unwrap();
        let mut monitor = harness.redis.monitor().unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let seen = monitor.drain().unwrap();
        let sent: Vec<_> = seen.iter().filter(|s| !s.is_in_script()).map(|s| s.name()).collect();
        assert_eq!(sent, ["EVALSHA", "EVALSHA"], "{name}");
    }
}

/// The names of the commands that the server ran meanwhile, those inside scripts included.
async fn commands(harness: &Harness, work: impl Future<Output = ()>) -> Vec<String> {
    let mut monitor = harness.redis.monitor().unwrap();
    work.await;
    monitor.drain().unwrap().iter().map(testbed::Seen::name).collect()
}

/// What a pair costs the server: nine commands on the hash layout. If it must cost more, say so here.
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_is_nine_commands() {
    let harness = Harness::start();
    let client = harness.client().await;
    for leads in [false, true] {
        let lock = client.lock("x");
        let election = client.election("y");
        // From now on the server knows the scripts.
        lock.acquire().await.unwrap().release().await.unwrap();
        let seen = commands(&harness, async {
            match leads {
                false => lock.acquire().await.unwrap().release().await.unwrap(),
                true => election.campaign().await.unwrap().release().await.unwrap(),
            }
        });
        let mut wanted =
            vec!["EVALSHA", "PTTL", "TIME", "SET", "HSET", "PEXPIRE", "EVALSHA", "HDEL", "PUBLISH"];
        if leads {
            // Observers are told.
            wanted.insert(6, "PUBLISH");
            wanted.push("PUBLISH");
        }
        assert_eq!(seen.await, wanted, "election: {leads}");
    }
}

/// A renewal is a script with two commands, and names the key of the lock alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_three_commands() {
    let harness = Harness::start();
    let client = harness.client_with(leasing(Duration::from_secs(3))).await;
    let held = client.lock("x").acquire().await.unwrap();
    renewed([&held]).await;
    let mut seen = commands(&harness, renewed([&held])).await;
    // Of the watch over fail-overs.
    seen.retain(|name| !matches!(&**name, "CLIENT" | "INFO"));
    let info = harness.redis.info("server").unwrap();
    let version: u32 = info["redis_version"].split('.').next().unwrap().parse().unwrap();
    // Older ones cannot compare.
    let wanted = ["EVALSHA", "HMGET", "PEXPIRE"];
    assert!(version < 7 || seen.chunks(wanted.len()).all(|one| one == wanted), "{seen:?}");
}

/// What is held twice by one owner is one field with a count, as Redisson has it, and one with its record.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_held_twice_is_one_field_with_two() {
    let harness = Harness::start();
    let client = harness.client().await;
    let lock = client.lock("x").owner(&Owner::new());
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    let count = || harness.cmd(&["HGET", "x", &outer.id().to_string()]).text();
    assert_eq!((count().as_str(), harness.number(&["HLEN", "x"])), ("2", 2));
    inner.release().await.unwrap();
    assert_eq!((count().as_str(), harness.holders("x")), ("1", vec![outer.id().to_string()]));
    outer.release().await.unwrap();
    assert!(!harness.exists("x"));
}

/// A12. Ten thousand who wait for one name in one process: three connections, and nothing sent from one poll to the
/// next.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiters_are_quiet() {
    const WAITERS: usize = 10_000;
    let harness = Harness::start();
    let poll = Duration::from_secs(1);
    let client = harness.client_with(polling(poll)).await;
    // By somebody who never renews, so that all that is sent is of the waiters.
    harness.cmd(&["HSET", "x", "somebody:1", "1"]);
    harness.cmd(&["PEXPIRE", "x", "600000"]);
    let mut monitor = harness.redis.monitor().unwrap();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = client.lock("x");
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    let mut looks = Vec::new();
    // Those who came before the first answer have looked for themselves, each once; after that only polls of the first are
    // left, one at a time.
    until_true("two polls with nothing between them", || {
        looks.extend(about(&monitor.drain().unwrap(), "x").iter().map(|s| s.at));
        looks.last_chunk().is_some_and(|[a, b]: &[f64; 2]| b - a > poll.as_secs_f64() * 0.9)
    })
    .await;
    assert!(looks.len() < WAITERS + WAITERS / 10, "{} looks", looks.len());
    let all = harness.cmd(&["CLIENT", "LIST"]).text();
    let ours: Vec<_> = all.lines().filter(|l| l.contains("name=tenure")).collect();
    assert!(ours.len() <= 3, "{ours:#?}");
    for waiter in waiters {
        waiter.abort();
    }
}

/// The signs of life of those who wait: a script for a hundred of them, which does no more than one for a single one.
#[tokio::test]
async fn stamping_places_takes_few_commands() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let read = Kind::Read { under_write: None };
    for (word, holds, kind) in [
        ("fair", Kind::FairLock, Kind::FairLock),
        ("write", Kind::Write, Kind::Write),
        ("read", Kind::Write, read),
    ] {
        let cost = async |n: usize| {
            let name = format!("{word}-{n}");
            assert!(granted(&*backend, &claim(&name, holds)).await);
            let mut places = Vec::new();
            for _ in 0..n {
                let place = Claim { wait: Some(FAR), ..claim(&name, kind) };
                assert!(!granted(&*backend, &place).await);
                places.push(Arc::new(place));
            }
            let before = harness.executed();
            let answers = backend.renew(&places).await.unwrap();
            assert!(answers.iter().all(|answer| *answer == Renewal::Queued), "{answers:?}");
            harness.executed() - before
        };
        let (few, many) = (cost(100).await, cost(400).await);
        assert!(few < 50 && many < 4 * 50, "{kind:?}: {few} commands for 100, {many} for 400");
    }
}

/// C26. The first of a fair queue gets in with as many commands before four hundred others as before a hundred, although
/// the scores of all of them change.
#[tokio::test]
async fn a_fair_grant_takes_few_commands() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let cost = async |n: usize| {
        let name = format!("fair-{n}");
        let holder = claim(&name, Kind::FairLock);
        assert!(granted(&*backend, &holder).await);
        let places: Vec<_> =
            (0..n).map(|_| Claim { wait: Some(FAR), ..claim(&name, Kind::FairLock) }).collect();
        for place in &places {
            assert!(!granted(&*backend, place).await);
        }
        let score = || {
            harness.cmd(&[
                "ZSCORE",
                &format!("redisson_lock_timeout:{{{name}}}"),
                &places[n - 1].id.to_string(),
            ])
        };
        assert_eq!(backend.release(&holder, 0).await.unwrap(), Released::Freed);
        let (score_before, before) = (score(), harness.executed());
        assert!(granted(&*backend, &places[0]).await);
        let executed = harness.executed() - before;
        assert_ne!(score(), score_before);
        executed
    };
    let (few, many) = (cost(100).await, cost(400).await);
    assert!(few < 50 && many < 50, "{few} commands before 100, {many} before 400");
}

/// A reader that leaves does not have to ask after all the others.
#[tokio::test]
async fn readers_leave_without_a_look_at_all_others() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let cost = async |n: usize| {
        let name = format!("read-{n}");
        let mut readers = Vec::new();
        for _ in 0..n {
            readers.push(claim(&name, Kind::Read { under_write: None }));
            assert!(granted(&*backend, readers.last().unwrap()).await);
        }
        // However long that took, each of them may be the one that lasts longest.
        let times = readers.iter().map(|r| format!("{{{name}}}:{}:rwlock_timeout:1", r.id));
        for key in times.chain([name.clone()]) {
            harness.cmd(&["PEXPIREAT", &key, "9000000000000"]);
        }
        let before = harness.executed();
        for reader in &readers {
            assert_eq!(backend.release(reader, 0).await.unwrap(), Released::Freed);
        }
        assert!(!harness.exists(&name));
        harness.executed() - before
    };
    let (few, many) = (cost(100).await, cost(400).await);
    assert!(few < 100 * 20 && many < 400 * 20, "{few} commands for 100, {many} for 400");
}

/// A thousand locks are renewed by ten scripts a period, also in a client that has taken and released many others.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_locks_are_renewed_by_ten_scripts() {
    const LOCKS: usize = 1000;
    let harness = Harness::start();
    let client = harness.client().await;
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
        done("five thousand pairs", task).await;
    }
    let taking: Vec<_> = (0..LOCKS)
        .map(|n| {
            let lock = client.lock(format!("x{n}"));
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        })
        .collect();
    let mut held = Vec::new();
    for guard in taking {
        held.push(done("a thousand locks", guard).await);
    }
    let mut monitor = harness.redis.monitor().unwrap();
    // In which scripts, and when, each of them is renewed.
    let mut sent = 0;
    let mut renewals: BTreeMap<String, Vec<(usize, f64)>> =
        held.iter().map(|guard| (guard.id().to_string(), Vec::new())).collect();
    until_true("all are renewed a hundred at a time, and no sooner than they have to be", || {
        assert!(held.iter().all(tenure_core::Guard::is_held));
        let all = monitor.drain().unwrap();
        // What is sent by its text was not known by its hash: the same renewal again.
        for script in scripts(&all).into_iter().filter(|s| s.name() == "EVALSHA") {
            for id in &script.words {
                if let Some(of) = renewals.get_mut(id) {
                    of.push((sent, script.at));
                }
            }
            sent += 1;
        }
        // Those taken one after the other are soon renewed together: after one time on a machine that is not busy.
        let rounds = renewals.values().map(Vec::len).min().unwrap_or(0);
        (1..rounds).any(|n| {
            let scripts: BTreeSet<_> = renewals.values().map(|r| r[n].0).collect();
            let soonest = renewals.values().map(|r| r[n].1 - r[n - 1].1).fold(f64::MAX, f64::min);
            scripts.len() <= LOCKS / 100 && soonest > LEASE.as_secs_f64() / 5.0
        })
    })
    .await;
}
