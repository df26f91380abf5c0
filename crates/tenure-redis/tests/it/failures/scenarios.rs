//! Scenarios that a lock on Redis built in the obvious way does not survive, on real connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Attempt, Renewal};
use tenure_core::{Backend, Claim, Client, Durability, Fence, Kind, LostReason, Owner, multi};
use tenure_redis::{Address, Fences, Options, Topology};
use testbed::{Cluster, Cut, FAR, Replicated, Rule, Way, done, has_grown, key_in, until, until_true, within};

use crate::harness::{
    Harness, LEASE, LONG, Network, SHORT, about, claim, granted, leasing, open, options, polling, settings,
    take, warmed,
};

/// Begins to acquire, and drops that when it has reached a network which does not let it through.
async fn dropped_on_its_way(network: &Network, lock: &tenure_core::Lock) {
    let sent = || network.proxy.counts().iter().map(|c| c.commands).sum::<u64>();
    let before = sent();
    tokio::select! {
        guard = lock.acquire() => panic!("{guard:?}"),
        () = until_true("it was sent", || sent() > before) => {}
    }
}

/// S1. A release that hangs on its connection and is repeated on another arrives once more after its owner has acquired
/// anew: it finds nothing of its own id, and takes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn s1_a_release_that_arrives_late_does_not_free_the_next_hold() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.hasty_client(settings()).await;
    let lock = client.lock("x").owner(&Owner::new()).lease(FAR);
    let old = lock.acquire().await.unwrap();
    let id = old.id().to_string();
    for connection in 0..network.proxy.accepted() {
        network.proxy.set_for(connection, Way::ToServer, Rule::Stall);
    }
    // Given up on the connection that hangs, and repeated over a new one.
    within("repeated", old.release()).await.unwrap();
    let new = lock.acquire().await.unwrap();
    let mut monitor = harness.redis.monitor().unwrap();
    network.proxy.heal();
    let mut late = Vec::new();
    until_true("the old one arrives", || {
        late.extend(monitor.drain().unwrap());
        about(&late, "x").iter().any(|s| s.words.contains(&id))
    })
    .await;
    assert_eq!(harness.holders("x"), [new.id().to_string()]);
    assert!(new.is_held());
    new.release().await.unwrap();
}

/// S2. The undo of an acquire that was dropped on its way goes behind it, on the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn s2_an_undo_does_not_overtake_the_acquire() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let mut monitor = harness.redis.monitor().unwrap();
    network.proxy.set_for(0, Way::ToServer, Rule::Stall);
    dropped_on_its_way(&network, &client.lock("x").lease(FAR)).await;
    network.proxy.heal();
    let mut all = Vec::new();
    until_true("both were executed", || {
        all.extend(monitor.drain().unwrap());
        about(&all, "x").len() >= 2
    })
    .await;
    until_true("nothing is held", || !harness.exists("x")).await;
}

/// S2. If the connection died, the acquire may still arrive after its undo: it is undone again, until its lease is over.
#[tokio::test(flavor = "multi_thread")]
async fn s2_an_acquire_that_arrives_after_its_undo_is_undone_again() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.hasty_client(settings()).await;
    for connection in 0..network.proxy.accepted() {
        network.proxy.set_for(connection, Way::ToServer, Rule::Stall);
    }
    let mut monitor = harness.redis.monitor().unwrap();
    dropped_on_its_way(&network, &client.lock("x").lease(FAR)).await;
    // An undo over a new connection has found nothing.
    let mut all = Vec::new();
    until_true("undone before it arrived", || {
        all.extend(monitor.drain().unwrap());
        !about(&all, "x").is_empty()
    })
    .await;
    assert!(!harness.exists("x"));
    network.proxy.heal();
    all.clear();
    until_true("it arrives and is taken back", || {
        all.extend(monitor.drain().unwrap());
        let created = all.iter().any(|s| s.is_in_script() && s.name() == "HSET" && s.words[1] == "x");
        created && !harness.exists("x")
    })
    .await;
}

/// S5. A JVM that reads with us renews the hash to its own thirty seconds and dies. Our reader's lease is longer: it
/// puts the hash right in time, although it is not renewed itself.
#[tokio::test(flavor = "multi_thread")]
async fn s5_a_reader_outlives_a_jvm_that_shortened_the_hash() {
    let harness = Harness::start();
    // Shorter than thirty seconds, which a test does not have.
    let watchdog = LEASE;
    let mut options = harness.options();
    options.redisson_watchdog = watchdog;
    let (client, other) = (Client::with(open(options).await, settings()), harness.client().await);
    let long = client.rwlock("x").read().lease(FAR).acquire().await.unwrap();
    let renewed = client.rwlock("y").read().acquire().await.unwrap();
    assert!(harness.left("x") > LONG);
    for name in ["x", "y"] {
        harness.cmd(&["HSET", name, "8a5b0d0e-26c3-4d5f-9d4b-000000000000:1", "1"]);
        harness.cmd(&["PEXPIRE", name, &watchdog.as_millis().to_string()]);
    }
    // What has ended does not come back: this is in time or never.
    until_true("put right", has_grown(Duration::ZERO, || harness.left("y"))).await;
    assert!(renewed.is_held());
    until_true("put right before it ends", || harness.left("x") > LONG).await;
    assert!(other.rwlock("x").write().try_acquire().await.unwrap().is_none());
    assert!(long.is_held());
}

/// S5. A hash that is gone is a lost read lock, also where the reader's own key still lives.
#[tokio::test(flavor = "multi_thread")]
async fn s5_a_reader_whose_hash_is_gone_is_told() {
    let harness = Harness::start();
    let client = harness.client().await;
    let guard = client.rwlock("x").read().acquire().await.unwrap();
    harness.cmd(&["PEXPIRE", "x", "1"]);
    let lost = within("its next renewal", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
}

/// S8. Counts whose answers are lost are counted once.
#[tokio::test(flavor = "multi_thread")]
async fn s8_counts_whose_replies_are_lost_count_once() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let latch = client.latch("counted-latch");
    for cut in [Cut::BeforeRequest, Cut::AfterRequest, Cut::InReply(2)] {
        network.proxy.cut_once("counted-latch", cut);
        assert!(latch.try_set_count(3).await.unwrap(), "{cut:?}");
        network.proxy.cut_once("counted-latch", cut);
        latch.count_down().await.unwrap();
        assert_eq!(harness.number(&["GET", "counted-latch"]), 2, "{cut:?}");
        assert!(latch.delete().await.unwrap());

        let seats = client.counting_semaphore("counted-seats");
        assert!(seats.try_set(5).await.unwrap());
        network.proxy.cut_once("counted-seats", cut);
        assert!(seats.try_acquire(2).await.unwrap(), "{cut:?}");
        assert_eq!(harness.number(&["GET", "counted-seats"]), 3, "{cut:?}");
        network.proxy.cut_once("counted-seats", cut);
        seats.release(1).await.unwrap();
        assert_eq!(harness.number(&["GET", "counted-seats"]), 4, "{cut:?}");
        assert!(seats.delete().await.unwrap());
        assert_eq!(network.proxy.cuts_left(), 0);
    }
}

/// S8. A take that was dropped on its way gives back what it took, if it took anything, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn s8_a_take_dropped_on_its_way_is_undone_once() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let seats = client.counting_semaphore("seats");
    assert!(seats.try_set(5).await.unwrap());
    network.proxy.set(Way::ToServer, Rule::Jitter(Duration::from_millis(20)));
    network.proxy.set(Way::ToClient, Rule::Jitter(Duration::from_millis(20)));
    let mut kept = 0;
    for round in 0..20_u64 {
        let taken = tokio::time::timeout(Duration::from_millis(round * 3), seats.acquire(1)).await;
        if taken.is_ok() {
            kept += 1;
            seats.release(1).await.unwrap();
        }
    }
    assert!(kept < 20, "some are dropped");
    network.proxy.heal();
    until_true("all are back, and no more", || harness.number(&["GET", "seats"]) == 5).await;
    client.close().await.unwrap();
    assert_eq!(harness.number(&["GET", "seats"]), 5);
}

fn fence_of(attempt: Attempt) -> Fence {
    match attempt {
        Attempt::Granted { fence: Some(fence), .. } => fence,
        other => panic!("{other:?}"),
    }
}

/// S11. Fences have a key of their own with a TTL; Redisson's counter is not touched, or only on request, and then it
/// never ends.
#[tokio::test(flavor = "multi_thread")]
async fn s11_redissons_counter_never_gets_a_ttl() {
    let harness = Harness::start();
    harness.cmd(&["SET", "redisson_lock_token:{x}", "41"]);
    let client = harness.client().await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(guard.fence().unwrap().0 > 1_000_000);
    guard.release().await.unwrap();
    assert_eq!(harness.cmd(&["GET", "redisson_lock_token:{x}"]).text(), "41");
    assert!(harness.number(&["PTTL", "tenure_fence:{x}"]) > 0);

    let mut shared = harness.options();
    shared.fences = Fences::Redisson;
    let client = Client::with(open(shared).await, settings());
    for expected in [42, 43] {
        let guard = client.lock("x").acquire().await.unwrap();
        assert_eq!(guard.fence(), Some(Fence(expected)));
        guard.release().await.unwrap();
    }
    assert_eq!(harness.number(&["PTTL", "redisson_lock_token:{x}"]), -1);
    assert_eq!(harness.number(&["INCR", "redisson_lock_token:{x}"]), 44, "as a JVM would");
}

/// S11. A clock that went back gives one more than the last, in full: no number of sixteen digits is rounded.
#[tokio::test(flavor = "multi_thread")]
async fn s11_fences_grow_by_one_when_the_clock_went_back() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut last = 9_007_199_254_740_993_u64;
    harness.cmd(&["SET", "tenure_fence:{x}", &last.to_string()]);
    for _ in 0..3 {
        let guard = client.lock("x").acquire().await.unwrap();
        assert_eq!(guard.fence(), Some(Fence(last + 1)));
        last += 1;
        guard.release().await.unwrap();
    }
    assert_eq!(harness.cmd(&["GET", "tenure_fence:{x}"]).text(), last.to_string());
}

/// S11. An attempt that is repeated finds its own fence, also where others have got larger ones since.
#[tokio::test(flavor = "multi_thread")]
async fn s11_a_repeated_reader_has_its_own_fence() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    for kind in [Kind::Read { under_write: None }, Kind::Permit { n: 1, limit: 3 }] {
        let [first, second] = [
            claim(kind.family().to_string().as_str(), kind),
            claim(kind.family().to_string().as_str(), kind),
        ];
        let fence = fence_of(backend.try_acquire(&first).await.unwrap());
        assert!(fence_of(backend.try_acquire(&second).await.unwrap()) > fence);
        assert_eq!(fence_of(backend.try_acquire(&first).await.unwrap()), fence);
    }
}

/// S12. A JVM whose clock is ahead takes back what has ended by its own clock: ours stand there with some slack. And a
/// repeat of three permits takes no more than three.
#[tokio::test(flavor = "multi_thread")]
async fn s12_permits_have_slack_for_clocks_ahead_and_ids_that_repeat() {
    let harness = Harness::start();
    let network = harness.network();
    // Whoever waited for the slack, too, would not get in here.
    let with_slack = |mut options: Options| {
        options.permit_slack = FAR;
        options
    };
    let client = warmed(with_slack(network.options()), settings()).await;
    let lease = SHORT * 3;
    network.proxy.cut_once("seats", Cut::AfterRequest);
    let before = harness.time();
    let guard = client.semaphore("seats", 5).permits(3).lease(lease).acquire().await.unwrap();
    assert_eq!(network.proxy.cuts_left(), 0);
    assert_eq!((harness.number(&["GET", "seats"]), harness.number(&["ZCARD", "{seats}:timeout"])), (2, 3));
    // What a clock says that is ahead by a second less than the slack, just before they end.
    let ahead = before + (FAR - Duration::from_secs(1) + lease).as_secs_f64() * 1e3;
    let swept = harness.cmd(&["ZRANGEBYSCORE", "{seats}:timeout", "0", &ahead.to_string()]);
    assert!(swept.items().is_empty(), "a JVM that much ahead would take them");
    // Here they end when they end all the same.
    let other = Client::with(open(with_slack(harness.options())).await, settings());
    drop(client);
    guard.detach();
    drop(within("their own lease", other.semaphore("seats", 5).acquire_many(5)).await.unwrap());
}

/// L4. One server under two addresses, two names in opposite orders: neither waits while it holds.
#[tokio::test(flavor = "multi_thread")]
async fn l4_two_orders_under_two_addresses_do_not_deadlock() {
    let harness = Harness::start();
    let by_socket = Options::new(Topology::Standalone(Address::Unix(harness.redis.socket())));
    let clients = [Client::with(open(by_socket).await, settings()), harness.client().await];
    let tasks = [["a", "b"], ["b", "a"]].into_iter().zip(clients).map(|(names, client)| {
        tokio::spawn(async move {
            for _ in 0..20 {
                let both = multi(names.map(|name| client.lock(name))).acquire().await.unwrap();
                tokio::task::yield_now().await;
                both.release().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        done("both come to an end", task).await;
    }
}

/// L6. A writer of ours that waits keeps our new readers out; one that died does so for its stamp only.
#[tokio::test(flavor = "multi_thread")]
async fn l6_a_dead_writer_keeps_readers_out_for_its_stamp_only() {
    let harness = Harness::start();
    // It looks again when it was told to, not by its poll.
    let (client, dead) = (harness.client_with(polling(FAR)).await, harness.backend().await);
    let reader = client.rwlock("x").read().acquire().await.unwrap();
    let mut writer = claim("x", Kind::Write);
    (writer.wait, writer.stamp) = (Some(FAR), FAR);
    assert!(!granted(&*dead, &writer).await);
    assert!(client.rwlock("x").read().try_acquire().await.unwrap().is_none(), "it came first");
    harness.ends_stamps("x", Duration::from_millis(500));
    drop(within("its stamp", client.rwlock("x").read().acquire()).await.unwrap());
    drop(reader);
}

/// L7. A renewal that arrived, and whose answer came after the end: nobody holds, and nobody waits for a lease.
#[tokio::test(flavor = "multi_thread")]
async fn l7_a_lost_guard_does_not_leave_the_name_locked() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client_with(leasing(SHORT)).await;
    let guard = take(&client.lock("x")).await;
    network.proxy.set(Way::ToClient, Rule::Stall);
    within("its own clock", guard.lost()).await;
    // As if renewals had gone on arriving.
    harness.cmd(&["PEXPIRE", "x", "600000"]);
    network.proxy.heal();
    drop(within("given back", harness.client().await.lock("x").acquire()).await.unwrap());
}

/// L8. A release that ran, and whose answer was lost, is a release and no error; one that came too late is lost.
#[tokio::test(flavor = "multi_thread")]
async fn l8_a_repeated_release_is_no_stranger() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let guard = client.lock("twice-released").acquire().await.unwrap();
    network.proxy.cut_once("twice-released", Cut::AfterRequest);
    guard.release().await.unwrap();
    assert_eq!(network.proxy.cuts_left(), 0);
    let guard = client.lock("x").acquire().await.unwrap();
    harness.cmd(&["DEL", "x"]);
    assert!(guard.release().await.unwrap_err().is_lost());
}

/// L9. A latch that opens and is set anew before its waiter can look has opened.
#[tokio::test(flavor = "multi_thread")]
async fn l9_a_latch_set_anew_at_once_has_opened() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(polling(FAR)).await, harness.client().await);
    let latch = other.latch("x");
    assert!(latch.try_set_count(1).await.unwrap());
    let waiter = tokio::spawn(async move { client.latch("x").wait().await });
    until_true("it listens", || {
        harness.cmd(&["PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{x}"]).items()[1].int()
            == Some(1)
    })
    .await;
    // In one go, as a script of a JVM might: the waiter sees nothing but the message.
    let script =
        "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0') redis.call('SET', KEYS[1], '5')";
    harness.cmd(&["EVAL", script, "1", "x", "redisson_countdownlatch__channel__{x}"]);
    done("opened", waiter).await.unwrap();
}

/// X1. What was granted and copied is asked for once more over a connection that has written nothing yet, while the
/// replica stands still: WAIT alone would count the copy of the first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn x1_a_repeat_of_a_durable_attempt_waits_for_its_copies() {
    let world = Replicated::start(1).unwrap();
    let one = Claim { durability: Durability::Replicas(1), ..claim("x", Kind::Lock) };
    let first = open(options(world.master().port())).await;
    until("granted", || async { matches!(first.try_acquire(&one).await, Ok(Attempt::Granted { .. })) }).await;
    let replica = &world.replicas()[0];
    replica.stop().unwrap();
    let second = open(options(world.master().port())).await;
    let again = Claim { lease: LONG * 2, ..one };
    let answer = second.try_acquire(&again).await;
    assert!(!matches!(answer, Ok(Attempt::Granted { .. })), "{answer:?} without a copy");
    replica.resume().unwrap();
    until("granted", || async { matches!(second.try_acquire(&again).await, Ok(Attempt::Granted { .. })) })
        .await;
    let left = replica.cmd(&["PTTL", "x"]).unwrap().int().unwrap();
    assert!(left > LONG.as_millis() as i64, "the replica has it: {left}");
}

/// X7. A script serves one slot, so names in many slots are renewed by as many scripts; each node reads them together.
#[tokio::test(flavor = "multi_thread")]
async fn x7_names_in_many_slots_are_renewed_together() {
    const NAMES: u16 = 90;
    let cluster = Cluster::start().unwrap();
    let address = |node: &testbed::Redis| Address::tcp("127.0.0.1", node.port());
    let nodes = cluster.nodes().iter().map(address).collect();
    let backend = open(Options::new(Topology::Cluster(nodes))).await;
    let mut claims = Vec::new();
    for n in 0..NAMES {
        let one = claim(&key_in(n * (16384 / NAMES), "x"), Kind::Lock);
        let answer = async || backend.try_acquire(&one).await;
        until("granted", || async { matches!(answer().await, Ok(Attempt::Granted { .. })) }).await;
        claims.push(Arc::new(Claim { lease: LONG * 2, ..one }));
    }
    let renewed = async || {
        let answers = backend.renew(&claims).await;
        matches!(answers, Ok(all) if all.iter().all(|one| matches!(one, Renewal::Held { .. })))
    };
    // From now on every node knows the script, and its connection is open.
    until("renewed", &renewed).await;
    let count = |section: &str, field: &str| -> BTreeMap<u16, u64> {
        let number = |info: &BTreeMap<String, String>| {
            let value = info.get(field).map_or("0", |value| value.as_str());
            value.trim_start_matches("calls=").split(',').next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        cluster.nodes().iter().map(|node| (node.port(), number(&node.info(section).unwrap()))).collect()
    };
    let scripts = || count("commandstats", "cmdstat_evalsha");
    let reads = || count("stats", "total_reads_processed");
    let (scripts_before, reads_before) = (scripts(), reads());
    assert!(renewed().await);
    let (scripts_after, reads_after) = (scripts(), reads());
    let more = |after: &BTreeMap<u16, u64>, before: &BTreeMap<u16, u64>| -> Vec<u64> {
        after.iter().map(|(port, n)| n - before[port]).filter(|n| *n > 0).collect()
    };
    let scripts = more(&scripts_after, &scripts_before);
    assert_eq!((scripts.len(), scripts.iter().sum::<u64>()), (3, u64::from(NAMES)), "{scripts:?}");
    // What a node reads beside them is the questions of this test, and signs of life.
    let reads = more(&reads_after, &reads_before);
    assert!(reads.iter().all(|n| *n < u64::from(NAMES) / 6), "{reads:?} for {scripts:?} scripts");
    for one in &claims {
        let left = cluster.node_of(one.name.as_str()).unwrap().cmd(&["PTTL", one.name.as_str()]);
        assert!(left.unwrap().int().unwrap() > LONG.as_millis() as i64);
    }
}
