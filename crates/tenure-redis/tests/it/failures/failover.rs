//! C1, C2, C8 behind sentinels, and C11–C13 on a cluster: the master changes, or the slot of a lock does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::backend::{Admin, Attempt, Backend, Released, Renewal};
use tenure_core::{Claim, Client, Durability, Error, Kind, LostReason, Settings, multi};
use tenure_redis::{Address, Layout, Topology};
use testbed::{
    Cluster, FAR, PATIENCE, RedisOptions, Replicated, Sentinels, done, has_grown, key_in, slot_of, until,
    until_true, within,
};

use crate::harness::{
    LONG, claim, granted, hasty, holders, leasing, open, options, polling, renewed, scripts, settings, with,
    woken_only,
};

fn addresses(all: Vec<String>) -> Vec<Address> {
    let parse =
        |a: String| a.rsplit_once(':').map(|(host, port)| Address::tcp(host, port.parse().expect("a port")));
    all.into_iter().map(|a| parse(a).expect("host and port")).collect()
}

async fn behind(sentinels: &Sentinels, settings: Settings) -> Client {
    let master = sentinels.name().to_owned();
    let addresses = addresses(sentinels.addresses());
    let topology = tenure_redis::Sentinels { addresses, master, user: None, password: None };
    Client::with(open(with(Topology::Sentinel(topology))).await, settings)
}

async fn on(cluster: &Cluster, settings: Settings) -> Client {
    Client::with(open(with(Topology::Cluster(addresses(cluster.addresses())))).await, settings)
}

/// C2. A master that stepped down with all its data: what was held is held, renewed at the new one alone, and the next
/// fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_survives_a_fail_over_that_lost_nothing() {
    let world = Sentinels::start().unwrap();
    let client = behind(&world, leasing(LONG)).await;
    let guard = client.lock("x").acquire().await.unwrap();
    let old = world.master().unwrap();
    until_true("the replicas have it", || {
        world.servers().iter().all(|s| s.cmd(&["EXISTS", "x"]).unwrap().int() == Some(1))
    })
    .await;
    world.fail_over().unwrap();
    let master = world.wait_for_new_master(old.port(), PATIENCE).unwrap();
    // Until it has heard so itself, the old one answers, and what it says is not worth anything.
    until_true("the old one steps down", || old.cmd(&["ROLE"]).is_ok_and(|r| r.texts()[0] == "slave")).await;
    // Asked for now, instead of a third of a lease later.
    master.cmd(&["PEXPIRE", "x", "30000"]).unwrap();
    client.backend().info().suspicion.raise();
    let left = || master.cmd(&["PTTL", "x"]).unwrap().int();
    until_true("renewed at the new one", || left() > Some(30_000)).await;
    assert!(guard.is_held());
    assert_eq!(holders(master, "x"), [guard.id().to_string()]);
    let fence = guard.fence();
    within("released", guard.release()).await.unwrap();
    assert_eq!(master.cmd(&["EXISTS", "x"]).unwrap().int(), Some(0));
    let next = client.lock("x").acquire().await.unwrap();
    assert!(next.fence() > fence);
}

/// C1. A master that dies before it has told its replicas: the new one knows nothing, the guard is told so, and the
/// fence of the next holder is larger.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_the_new_master_never_had_is_lost() {
    let world = Sentinels::start().unwrap();
    let client = behind(&world, leasing(FAR)).await;
    let old = world.master().unwrap();
    for replica in world.servers().iter().filter(|s| s.port() != old.port()) {
        replica.stop().unwrap();
    }
    // Those that come back would read what is in their connections: there is nothing, since these are gone.
    old.cmd(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    old.kill().unwrap();
    for replica in world.servers().iter().filter(|s| s.port() != old.port()) {
        replica.resume().unwrap();
    }
    let master = world.wait_for_new_master(old.port(), PATIENCE).unwrap();
    assert_eq!(master.cmd(&["EXISTS", "x"]).unwrap().int(), Some(0), "the test itself");
    let lost = within("proved again", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    let next = within("the next one", client.lock("x").acquire()).await.unwrap();
    assert!(next.fence() > guard.fence());
}

/// C1. A replica that lacks the last grants becomes the master: the fences of every kind go on growing.
#[tokio::test]
async fn fences_grow_on_a_replica_that_lacks_the_last_grants() {
    let world = Replicated::start(1).unwrap();
    let (master, replica) = (world.master(), &world.replicas()[0]);
    let read = Kind::Read { under_write: None };
    let permits = Kind::Permit { n: 1, limit: 9 };
    let kinds = [
        ("l", Kind::Lock),
        ("e", Kind::Leader),
        ("f", Kind::FairLock),
        ("r", read),
        ("w", Kind::Write),
        ("p", permits),
    ];
    let fence = async |backend: &tenure_redis::Redis, name: &str, kind: Kind| {
        let one = claim(name, kind);
        let Attempt::Granted { fence, .. } = backend.try_acquire(&one).await.unwrap() else {
            panic!("{name}: busy")
        };
        backend.release(&one, 0).await.unwrap();
        fence.unwrap_or_else(|| panic!("{name}: no fence"))
    };
    let first = open(options(master.port())).await;
    for (name, kind) in kinds {
        fence(&first, name, kind).await;
    }
    until_true("the replica has these", || {
        kinds.iter().all(|(name, _)| {
            replica.cmd(&["EXISTS", &format!("tenure_fence:{{{name}}}")]).unwrap().int() == Some(1)
        })
    })
    .await;
    replica.cmd(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let mut last = Vec::new();
    for (name, kind) in kinds {
        for _ in 0..3 {
            last.push((name, kind, fence(&first, name, kind).await));
        }
    }
    let second = open(options(replica.port())).await;
    for (name, kind, before) in last {
        assert!(fence(&second, name, kind).await > before, "{name}");
    }
}

/// C1. With durability, a grant that no replica has is none: it is tried again, and taken back by whoever gives up. One
/// that is given is on the replica before the caller knows of it, counted once however often it was tried.
#[tokio::test(flavor = "multi_thread")]
async fn a_durable_grant_is_on_a_replica_before_it_is_told() {
    let world = Replicated::start(1).unwrap();
    let (master, replica) = (world.master(), &world.replicas()[0]);
    let backend = open(options(master.port())).await;
    let (hasty, client) = (Client::with(backend.clone(), hasty()), Client::with(backend, leasing(LONG)));
    let durable = |client: &Client| client.lock("x").durability(Durability::Replicas(1));

    replica.stop().unwrap();
    let error = durable(&hasty).try_acquire().await.unwrap_err();
    assert!(error.is_unknown() && error.to_string().contains("0 of 1"), "{error}");
    until_true("taken back", || master.cmd(&["EXISTS", "x"]).unwrap().int() == Some(0)).await;

    let acquiring = {
        let lock = durable(&client);
        tokio::spawn(async move { lock.acquire().await })
    };
    until_true("the master has it", || master.cmd(&["EXISTS", "x"]).unwrap().int() == Some(1)).await;
    assert!(!acquiring.is_finished(), "no replica has it");
    replica.resume().unwrap();
    let guard = done("granted", acquiring).await.unwrap();
    assert_eq!(holders(replica, "x"), [guard.id().to_string()]);
    // A release is one, whether or not a replica has heard of it.
    replica.stop().unwrap();
    guard.release().await.unwrap();
    assert_eq!(master.cmd(&["EXISTS", "x"]).unwrap().int(), Some(0));
}

/// C3. Who may not wait for replicas gets no durable grant, and nothing stays behind; without durability it works. Which
/// right is missing, the doctor says.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_not_wait_for_replicas_gets_no_durable_grant() {
    let users = vec!["hurried on >x ~* &* +@all -wait".to_owned()];
    let world = Replicated::start_with(1, RedisOptions { users, ..RedisOptions::default() }).unwrap();
    let mut options = options(world.master().port());
    (options.user, options.password) = (Some("hurried".into()), Some("x".into()));
    let backend = open(options).await;
    let (hasty, client) = (Client::with(backend.clone(), hasty()), Client::with(backend, settings()));
    let durable = hasty.lock("x").durability(Durability::Replicas(1));
    let error = within("told", durable.try_acquire()).await.unwrap_err();
    assert!(error.is_unknown() || matches!(error, Error::Config(_)), "{error}");
    until_true("taken back", || world.master().cmd(&["EXISTS", "x"]).unwrap().int() == Some(0)).await;
    client.lock("x").acquire().await.unwrap().release().await.unwrap();
}

/// C8. Replicas are asked for nothing: neither who holds a lock, nor anything else.
#[tokio::test(flavor = "multi_thread")]
async fn state_is_read_at_the_master_only() {
    let world = Sentinels::start().unwrap();
    let master = world.master().unwrap().port();
    let replicas = world.servers().iter().filter(|s| s.port() != master);
    let mut monitors: Vec<_> = replicas.map(|s| s.monitor().unwrap()).collect();
    let client = behind(&world, settings()).await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(client.lock("x").is_locked().await.unwrap());
    assert_eq!(client.list("", 10).await.unwrap().len(), 1);
    assert!(client.rwlock("y").read().try_acquire().await.unwrap().is_some());
    guard.release().await.unwrap();
    for monitor in &mut monitors {
        let seen = monitor.drain().unwrap();
        let asked: Vec<_> =
            seen.iter().filter(|s| matches!(&*s.name(), "SCAN" | "HGETALL" | "SUBSCRIBE")).collect();
        assert!(scripts(&seen).is_empty() && asked.is_empty(), "{seen:?}");
    }
}

fn number_of(cluster: &Cluster, key: &str) -> usize {
    let port = cluster.node_of(key).unwrap().port();
    cluster.nodes().iter().position(|n| n.port() == port).unwrap()
}

/// C12. A slot that moves takes the lock, its waiters and their channel along: nobody loses anything, and a release is
/// heard where the slot is now.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_moves_with_its_slot() {
    let cluster = Cluster::start().unwrap();
    let (client, other) = (on(&cluster, leasing(LONG)).await, on(&cluster, woken_only()).await);
    let held = client.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("x").acquire().await });
    until("it waits", || async { !client.lock("x").waiters().await.unwrap().is_empty() }).await;
    let to = (number_of(&cluster, "x") + 1) % 3;
    cluster.move_slot(slot_of("x"), to).unwrap();
    let listeners = || {
        let asked = cluster.nodes()[to].cmd(&["PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{x}"]);
        asked.unwrap().items()[1].int() == Some(1)
    };
    until_true("it listens there", listeners).await;
    assert_eq!(holders(&cluster.nodes()[to], "x"), [held.id().to_string()]);
    let fence = held.fence();
    held.release().await.unwrap();
    let next = done("woken", waiter).await.unwrap();
    assert!(next.fence() > fence);
}

/// C12. A slot moved to and fro under load: one at a time is inside, and fences only grow.
#[tokio::test(flavor = "multi_thread")]
async fn a_moving_slot_excludes_all_the_same() {
    let cluster = Cluster::start().unwrap();
    let (inside, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(None)));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let mut settings = polling(Duration::from_millis(500));
        settings.lease = LONG;
        let client = on(&cluster, settings).await;
        for lock in [client.lock("x"), client.lock("x")] {
            let (inside, last) = (inside.clone(), last.clone());
            tasks.push(tokio::spawn(async move {
                let mut times = 0;
                while times < 60 {
                    let guard = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two inside");
                    let before = last.lock().unwrap().replace(guard.fence());
                    assert!(before < Some(guard.fence()), "{before:?} before {:?}", guard.fence());
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, SeqCst);
                    guard.release().await.unwrap();
                    times += 1;
                }
            }));
        }
    }
    for turn in 1..=4 {
        let to = turn % 3;
        if number_of(&cluster, "x") != to {
            cluster.move_slot(slot_of("x"), to).unwrap();
        }
    }
    for task in tasks {
        done("all come to an end", task).await;
    }
}

/// C11. TRYAGAIN: while its keys are partly here and partly there, a lock can be neither taken nor released. Both are
/// tried again, and what was held is held afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn keys_split_by_a_move_are_waited_for() {
    let cluster = Cluster::start().unwrap();
    let mut hasty = hasty();
    hasty.lease = LONG;
    let client = on(&cluster, hasty).await;
    let guard = client.lock("x").acquire().await.unwrap();
    let to = (number_of(&cluster, "x") + 1) % 3;
    let moving = cluster.begin_move(slot_of("x"), to).unwrap();
    moving.migrate(&["x".to_owned()]).unwrap();
    let error = client.lock("x").try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("TRYAGAIN"), "{error}");
    let releasing = tokio::spawn(guard.release());
    moving.migrate_all().unwrap();
    moving.finish().unwrap();
    done("released in the end", releasing).await.unwrap();
    assert_eq!(cluster.nodes()[to].cmd(&["EXISTS", "x"]).unwrap().int(), Some(0));
}

/// C11. A move that stops half way: what is held is renewed as long as what makes the hold is on one of both nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_left_half_way_loses_no_hold() {
    let cluster = Cluster::start().unwrap();
    let (client, other) = (on(&cluster, settings()).await, on(&cluster, settings()).await);
    let first = other.lock("{s}-waited").acquire().await.unwrap();
    let waiter = {
        let lock = client.lock("{s}-waited");
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    };
    until("it waits", || async { !client.lock("{s}-waited").waiters().await.unwrap().is_empty() }).await;
    first.release().await.unwrap();
    let mut guards = vec![done("after waiting", waiter).await];
    let rw = |name: &str| client.rwlock(name);
    for lock in [
        client.lock("{s}-lock"),
        client.lock("{s}-fair").fair(),
        rw("{s}-read").read(),
        rw("{s}-write").write(),
        client.semaphore("{s}-permits", 3).permits(2),
    ] {
        guards.push(lock.acquire().await.unwrap());
    }
    let backend = client.backend().clone();
    let split = Arc::new(claim("{s}-split", Kind::Read { under_write: None }));
    assert!(granted(&*backend, &split).await);
    let to = (number_of(&cluster, "{s}") + 1) % 3;
    let moving = cluster.begin_move(slot_of("{s}"), to).unwrap();
    renewed(&guards).await;
    // Of each hold just what makes it, and nothing of what is beside it.
    let reads = format!("{{s}}-read:{}:rwlock_timeout:1", guards[3].id());
    let moved = ["{s}-waited", "{s}-fair", "{s}-write", "{s}-read", &reads, "{s}-permits:timeout"];
    let moved = moved.into_iter().chain(["tenure_permits::{s}-permits", "{s}-split"]).map(str::to_owned);
    moving.migrate(&moved.collect::<Vec<_>>()).unwrap();
    renewed(&guards).await;
    assert!(guards.iter().all(tenure_core::Guard::is_held));
    let error = backend.renew(&[split]).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "a reader whose two keys are apart: {error}");
    moving.migrate_all().unwrap();
    moving.finish().unwrap();
    for guard in guards {
        within("released", guard.release()).await.unwrap();
    }
}

fn is_unavailable<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
}

/// Readers, and a writer that waits for them: all keys of the lock are there.
async fn read_and_waited_for(backend: &tenure_redis::Redis, readers: usize) -> (Vec<Arc<Claim>>, Claim) {
    let mut all = Vec::new();
    for _ in 0..readers {
        all.push(Arc::new(claim("x", Kind::Read { under_write: None })));
        assert!(granted(backend, all.last().unwrap()).await);
    }
    let writer = Claim { wait: Some(FAR), ..claim("x", Kind::Write) };
    assert!(!granted(backend, &writer).await);
    (all, writer)
}

/// C12. The time of a reader may move after all else. Until it is there, nobody takes the reader for dead.
#[tokio::test(flavor = "multi_thread")]
async fn no_writer_gets_in_beside_a_reader_whose_time_has_not_moved_yet() {
    let cluster = Cluster::start().unwrap();
    let backend = open(with(Topology::Cluster(addresses(cluster.addresses())))).await;
    let (readers, writer) = read_and_waited_for(&backend, 1).await;
    let moving = cluster.begin_move(slot_of("x"), (number_of(&cluster, "x") + 1) % 3).unwrap();
    let (times, rest): (Vec<_>, Vec<_>) =
        moving.keys().unwrap().into_iter().partition(|key| key.contains("rwlock_timeout"));
    assert_eq!((times.len(), rest.len()), (1, 6), "{rest:?}");
    moving.migrate(&rest).unwrap();
    is_unavailable(backend.try_acquire(&writer).await);
    moving.migrate_all().unwrap();
    moving.finish().unwrap();
    assert!(!granted(&*backend, &writer).await);
    assert!(matches!(backend.renew(&readers).await.as_deref(), Ok([Renewal::Held { .. }])));
    assert_eq!(backend.release(&readers[0], 0).await.unwrap(), Released::Freed);
    assert!(granted(&*backend, &writer).await);
}

/// C12. Nor does what needs to know of a reader whose time has moved before all else fail for good, or half way.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_reader_that_has_moved_on_is_waited_for() {
    const FOREIGN: &str = "4f3c2b1a-0000-4000-8000-000000000001:7";
    let cluster = Cluster::start().unwrap();
    let backend = open(with(Topology::Cluster(addresses(cluster.addresses())))).await;
    let (readers, writer) = read_and_waited_for(&backend, 1).await;
    // As a JVM reads.
    let node = cluster.node_of("x").unwrap();
    let time = format!("{{x}}:{FOREIGN}:rwlock_timeout:1");
    node.cmd(&["HSET", "x", FOREIGN, "1"]).unwrap();
    node.cmd(&["SET", &time, "1", "PX", &LONG.as_millis().to_string()]).unwrap();
    let moving = cluster.begin_move(slot_of("x"), (number_of(&cluster, "x") + 1) % 3).unwrap();
    moving.migrate(&[time]).unwrap();
    let before = node.cmd(&["HGETALL", "x"]).unwrap().texts();
    let (name, read) = (writer.name.clone(), Kind::Read { under_write: None });
    is_unavailable(backend.try_acquire(&writer).await);
    is_unavailable(backend.release(&readers[0], 0).await);
    is_unavailable(backend.expel(&name, read, FOREIGN).await);
    assert_eq!(node.cmd(&["HGETALL", "x"]).unwrap().texts(), before, "nothing was written");
    moving.migrate_all().unwrap();
    moving.finish().unwrap();
    assert_eq!(backend.release(&readers[0], 0).await.unwrap(), Released::Freed);
    assert!(!granted(&*backend, &writer).await, "the other reads on");
    assert_eq!(backend.expel(&name, read, FOREIGN).await.unwrap(), Released::Freed);
    assert!(granted(&*backend, &writer).await);
}

/// C11. A sign of life whose set is on the other node makes no second one, which would end the move.
#[tokio::test(flavor = "multi_thread")]
async fn signs_of_life_do_not_stand_in_the_way_of_a_slot() {
    let cluster = Cluster::start().unwrap();
    let topology = || Topology::Cluster(addresses(cluster.addresses()));
    let mut plain = with(topology());
    plain.layout = Layout::Plain;
    let (redisson, plain) = (open(with(topology())).await, open(plain).await);
    for (word, backend, kind, places) in [
        ("lock", &redisson, Kind::Lock, "tenure_waiters"),
        ("write", &redisson, Kind::Write, "tenure_waiters"),
        ("fair", &redisson, Kind::FairLock, "redisson_lock_timeout"),
        ("plain", &plain, Kind::Lock, "tenure_waiters"),
    ] {
        for stamps_first in [false, true] {
            let name = format!("{word}-{stamps_first}");
            assert!(granted(&**backend, &claim(&name, kind)).await);
            let waiter = Arc::new(Claim { wait: Some(FAR), ..claim(&name, kind) });
            assert!(!granted(&**backend, &waiter).await);
            let to = (number_of(&cluster, &name) + 1) % 3;
            let moving = cluster.begin_move(slot_of(&name), to).unwrap();
            let first = match stamps_first {
                true => vec![format!("tenure_stamps:{{{name}}}")],
                false => vec![name.clone(), format!("{places}:{{{name}}}")],
            };
            moving.migrate(&first).unwrap();
            is_unavailable(backend.renew(std::slice::from_ref(&waiter)).await);
            moving.migrate_all().unwrap_or_else(|e| panic!("{name}: {e}"));
            moving.finish().unwrap();
            assert_eq!(backend.renew(&[waiter]).await.unwrap(), [Renewal::Queued], "{name}");
        }
    }
}

/// C12. Until a slot has moved as a whole, its channels are heard on the old node only: nothing is released on the new
/// one before.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_released_where_nobody_would_hear_of_it() {
    let cluster = Cluster::start().unwrap();
    let backend = open(with(Topology::Cluster(addresses(cluster.addresses())))).await;
    let permit = Kind::Permit { n: 1, limit: 2 };
    let holders = [claim("x", permit), claim("x", permit)];
    for holder in &holders {
        assert!(granted(&*backend, holder).await);
    }
    let client = on(&cluster, woken_only()).await;
    let waiter = {
        let lock = client.semaphore("x", 2).permits(1);
        tokio::spawn(async move { lock.acquire().await })
    };
    let from = cluster.node_of("x").unwrap();
    until_true("it waits and listens", || {
        let channels = from.cmd(&["PUBSUB", "SHARDCHANNELS"]).unwrap();
        from.cmd(&["EXISTS", "tenure_stamps:{x}"]).unwrap().int() == Some(1) && channels.items().len() == 1
    })
    .await;
    let moving = cluster.begin_move(slot_of("x"), (number_of(&cluster, "x") + 1) % 3).unwrap();
    moving.migrate_all().unwrap();
    is_unavailable(backend.release(&holders[0], 0).await);
    moving.finish().unwrap();
    assert_eq!(backend.release(&holders[0], 0).await.unwrap(), Released::Freed);
    drop(done("it is told", waiter).await.unwrap());
}

/// C13. Names of a multi lock may lie in any slots: each is a lock of its own, and no command has keys of two.
#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_over_all_nodes_has_no_command_over_two_slots() {
    let cluster = Cluster::start().unwrap();
    let client = on(&cluster, settings()).await;
    let names = [100, 8000, 16000].map(|slot| key_in(slot, "part-"));
    let nodes: std::collections::BTreeSet<_> = names.iter().map(|n| number_of(&cluster, n)).collect();
    assert_eq!(nodes.len(), 3);
    let all = multi(names.iter().map(|name| client.lock(name))).acquire().await.unwrap();
    assert_eq!(all.fences().len(), 3);
    until_true("renewed together", has_grown(Duration::ZERO, || all.remaining())).await;
    all.release().await.unwrap();
    for name in &names {
        assert_eq!(cluster.node_of(name).unwrap().cmd(&["EXISTS", name]).unwrap().int(), Some(0));
    }
}
