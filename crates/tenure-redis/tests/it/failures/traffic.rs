//! How many commands and connections it takes: what is not sent cannot go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Backend, Released, Renewal};
use tenure_core::{Claim, Kind, Owner};
use testbed::{FAR, done, until_true};

use crate::harness::{Harness, LEASE, about, claim, granted, leasing, polling, renewed, scripts, templates};

/// What each waiter of a fair lock adds to the scores behind it.
const PATIENCE_MS: f64 = 300_000.0;

/// The most commands for a contended acquisition, with some room for a machine that stands still now and then.
const CONTENDED: f64 = 30.0;

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

/// The same for the other kinds, whose first word is that of the test.
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_of_each_kind_is_few_commands() {
    let harness = Harness::start();
    let client = harness.client().await;
    let pair = async |name: &str| {
        let (_, lock) = templates(&client, "x").into_iter().find(|(n, _)| n.starts_with(name)).unwrap();
        // From now on the server knows the scripts, and the semaphore exists.
        lock.acquire().await.unwrap().release().await.unwrap();
        let work = async { lock.acquire().await.unwrap().release().await.unwrap() };
        commands(&harness, work).await.join(" ")
    };
    assert_eq!(
        pair("fair").await,
        "EVALSHA PTTL LINDEX TIME SET HSET PEXPIRE EVALSHA HDEL LINDEX",
        "nobody is told: nobody queues"
    );
    let read = "EVALSHA PTTL EXISTS TIME SET HSET SET PEXPIRE EVALSHA HRANDFIELD DEL PUBLISH";
    assert_eq!(pair("read").await, read);
    assert_eq!(
        pair("write").await,
        "EVALSHA PTTL EXISTS TIME SET HSET PEXPIRE SET EVALSHA HRANDFIELD DEL PUBLISH PUBLISH"
    );
    let permits = pair("permits").await;
    assert!(permits.split(' ').count() <= 25, "{permits}");
    // Beside others who read.
    let other = client.rwlock("read-x").read().acquire().await.unwrap();
    let beside = pair("read").await;
    assert!(beside.split(' ').count() <= 15, "{beside}");
    other.release().await.unwrap();
}

/// What waits for a lock and gets it costs a constant few commands, with what is sent for those who wait with it: two
/// processes of eight tasks each.
#[tokio::test(flavor = "multi_thread")]
async fn a_contended_acquisition_is_few_commands() {
    const EACH: u64 = 40;
    let harness = Harness::start();
    let clients = [harness.client().await, harness.client().await];
    for client in &clients {
        client.lock("warm").acquire().await.unwrap().release().await.unwrap();
    }
    let before = harness.executed();
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let lock = clients[n % 2].lock("x");
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let guard = lock.acquire().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard.release().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        done("all have had their turns", task).await;
    }
    let each = (harness.executed() - before) as f64 / (16 * EACH) as f64;
    println!("{each:.1} commands for an acquisition");
    assert!(each < CONTENDED, "{each:.1} commands for an acquisition");
}

/// A renewal of each kind is a script with few commands: two and three; permits have two sets and a record.
#[tokio::test]
async fn a_renewal_of_each_kind_is_few_commands() {
    let harness = Harness::start();
    let info = harness.redis.info("server").unwrap();
    if info["redis_version"].split('.').next().unwrap().parse::<u32>().unwrap() < 7 {
        return; // It cannot compare.
    }
    let backend = harness.backend().await;
    for (word, kind, wanted) in [
        ("fair", Kind::FairLock, "EVALSHA HMGET PEXPIRE"),
        ("read", Kind::Read { under_write: None }, "EVALSHA HMGET PEXPIRE PEXPIRE"),
        ("write", Kind::Write, "EVALSHA HMGET PEXPIRE PEXPIRE"),
    ] {
        let held = claim(word, kind);
        assert!(granted(&*backend, &held).await);
        let longer = Arc::new(Claim { lease: held.lease * 2, ..held });
        backend.renew(std::slice::from_ref(&longer)).await.unwrap();
        let longer = [Arc::new(Claim { lease: longer.lease * 2, ..(*longer).clone() })];
        let work = async { drop(backend.renew(&longer).await.unwrap()) };
        assert_eq!(commands(&harness, work).await.join(" "), wanted, "{word}");
    }
    let held = claim("permits", Kind::Permit { n: 3, limit: 5 });
    assert!(granted(&*backend, &held).await);
    let longer = [Arc::new(Claim { lease: held.lease * 2, ..held })];
    backend.renew(&longer).await.unwrap();
    let seen = commands(&harness, async { drop(backend.renew(&longer).await.unwrap()) }).await;
    assert!(seen.len() <= 14, "{seen:?}");
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
    let wanted = ["EVALSHA", "HEXISTS", "PEXPIRE"];
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

/// C26. The first of a fair queue gets in with as many commands before four hundred others as before a hundred, and
/// the scores of all of them are put right now and then.
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
        let mut last = holder;
        let (score_before, mut most) = (score().text().parse::<f64>().unwrap(), 0);
        // Scores are put right when those who have left are a quarter of the queue.
        for place in &places[..n / 3] {
            assert_eq!(backend.release(&last, 0).await.unwrap(), Released::Freed);
            let before = harness.executed();
            assert!(granted(&*backend, place).await);
            most = most.max(harness.executed() - before);
            last = place.clone();
        }
        let moved = score_before - score().text().parse::<f64>().unwrap();
        assert!(moved >= PATIENCE_MS * (n / 5) as f64, "{moved}");
        most
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
