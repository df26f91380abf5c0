//! Masters die, and others take over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Client, Durability, Error, Guard, Settings};
use tenure_redis::{Address, Options, Redis, Sentinels, Topology};
use testbed::{RedisOptions, Replicated};

const LEASE: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(30);

fn address(text: &str) -> Address {
    let (host, port) = text.rsplit_once(':').expect("a port");
    Address::tcp(host, port.parse().expect("a number"))
}

async fn client(topology: Topology) -> Client {
    let backend = Redis::open(Options::new(topology)).await.expect("it opens");
    let mut settings = Settings::default();
    settings.lease = LEASE;
    Client::with(Arc::new(backend), settings)
}

fn at(port: u16) -> Topology {
    Topology::Standalone(Address::tcp("127.0.0.1", port))
}

async fn within<F: Future>(limit: Duration, what: &str, work: F) -> F::Output {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// C1. What takes over at the master's address never heard of the grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_not_replicated_is_lost_within_a_period_and_the_next_fence_is_larger() {
    let server = testbed::Redis::start(RedisOptions::default()).expect("a server");
    let (a, b) = (client(at(server.port())).await, client(at(server.port())).await);
    let first = a.lock("x").acquire().await.expect("free");
    server.kill().expect("it dies");
    server.restart_empty().expect("another one is there");
    let second = within(PATIENCE, "the second gets in", b.lock("x").acquire()).await.expect("free");
    let lost = within(LEASE / 3 + Duration::from_secs(2), "the first learns it", first.lost()).await;
    assert!(second.is_held(), "{lost}");
    assert!(second.fence() > first.fence(), "{:?} after {:?}", second.fence(), first.fence());
    second.release().await.expect("held");
}

/// C1. The link to the replica is stalled: the grant is refused, and nothing stays behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_too_few_replicas_have_is_refused_and_undone() {
    let servers = Replicated::start(1).expect("a master and a replica");
    let client = client(at(servers.master().port())).await;
    let lock = client.lock("x").durability(Durability::Replicas(1));
    lock.acquire().await.expect("the replica follows").release().await.expect("held");
    servers.replicas()[0].stop().expect("stopped");
    let refused = within(PATIENCE, "it ends", lock.try_acquire()).await;
    let Err(error) = refused else { panic!("granted without a replica: {refused:?}") };
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let free =
        || servers.master().cmd(&["EXISTS", "x", "tenure_about:{x}"]).expect("an answer").int() == Some(0);
    let start = Instant::now();
    while !free() {
        assert!(start.elapsed() < LEASE, "something stays behind");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    servers.replicas()[0].resume().expect("resumed");
    let again = within(PATIENCE, "it is granted again", lock.acquire()).await;
    again.expect("the replica follows again").release().await.expect("held");
}

/// A store without replicas says so.
#[tokio::test]
async fn a_store_without_replicas_refuses_to_wait_for_them() {
    let client = Client::new(tenure_core::Memory::new());
    let refused = client.lock("x").durability(Durability::Replicas(1)).try_acquire().await;
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}

/// 50 held and 50 waited for while `fail` takes the master away: each guard is proved again or lost and told so, each
/// waiter goes on.
async fn survives(topology: Topology, fail: impl FnOnce() + Send + 'static) {
    const N: usize = 50;
    let (holders, waiters) = (client(topology.clone()).await, client(topology).await);
    let mut held = Vec::new();
    for i in 0..N {
        held.push(holders.lock(format!("n{i}")).acquire().await.expect("free"));
    }
    let waiting: Vec<_> = (0..N)
        .map(|i| {
            let lock = waiters.lock(format!("n{i}"));
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    let seen = holders.list("n", 1000).await.expect("a listing");
    assert_eq!(seen.iter().filter(|s| !s.holders.is_empty()).count(), N);
    tokio::task::spawn_blocking(fail).await.expect("another master");

    // One lease later every guard knows what it is.
    let known = tokio::time::Instant::now() + LEASE + Duration::from_secs(1);
    tokio::time::sleep_until(known).await;
    let mut lost = 0;
    let owners: Vec<(usize, Guard)> = held.into_iter().enumerate().collect();
    for (i, guard) in owners {
        if guard.is_held() {
            let holder = within(PATIENCE, "an answer", holders.lock(format!("n{i}")).holder()).await;
            let holder = holder.expect("an answer").map(|h| h.id);
            assert_eq!(holder, Some(guard.id().to_string()), "n{i} says held");
            within(PATIENCE, "released", guard.release()).await.expect("held");
        } else {
            lost += 1;
            assert!(guard.release().await.is_err_and(|e| e.is_lost()), "n{i} was told");
        }
    }
    println!("{lost} of {N} were lost");
    for (i, waiter) in waiting.into_iter().enumerate() {
        let guard = within(PATIENCE, &format!("the waiter of n{i} goes on"), waiter).await.expect("no panic");
        within(PATIENCE, "released", guard.expect("granted").release()).await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_held_and_fifty_waited_for_survive_the_master_behind_sentinels() {
    let servers = Arc::new(testbed::Sentinels::start().expect("sentinels"));
    let addresses = servers.addresses().iter().map(|a| address(a)).collect();
    let topology = Topology::Sentinel(Sentinels {
        addresses,
        master: servers.name().to_owned(),
        user: None,
        password: None,
    });
    let all = servers.clone();
    survives(topology, move || {
        let master = all.master().expect("a master");
        let old = master.port();
        master.stop().expect("it stands still");
        all.wait_for_new_master(old, PATIENCE).expect("another master");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_held_and_fifty_waited_for_survive_a_master_of_a_cluster() {
    let servers = Arc::new(testbed::Cluster::start().expect("a cluster"));
    let addresses = servers.addresses().iter().map(|a| address(a)).collect();
    let all = servers.clone();
    survives(Topology::Cluster(addresses), move || {
        let old = all.kill_master_of("n0").expect("it dies");
        all.wait_for_fail_over("n0", old, PATIENCE).expect("another master");
    })
    .await;
}
