//! Masters die, and others take over.

use std::sync::Arc;

use tenure_core::{Client, Durability, Error, LostReason};
use tenure_redis::{Address, Options, Sentinels, Topology};
use testbed::{FAR, PATIENCE, RedisOptions, Replicated, done, until, until_true, within};

use crate::harness::{hasty, leasing, open, options, settings};

fn address(text: &str) -> Address {
    let (host, port) = text.rsplit_once(':').expect("a port");
    Address::tcp(host, port.parse().expect("a number"))
}

/// C1. What takes over at the master's address never heard of the grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_not_replicated_is_lost_within_a_period_and_the_next_fence_is_larger() {
    let server = testbed::Redis::start(RedisOptions::default()).expect("a server");
    let client = async || Client::with(open(options(server.port())).await, settings());
    let (a, b) = (client().await, client().await);
    let first = a.lock("x").acquire().await.expect("free");
    server.kill().expect("it dies");
    server.restart_empty().expect("another one is there");
    let second = within("the second gets in", b.lock("x").acquire()).await.expect("free");
    let lost = within("the first learns it", first.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone, "it was told before its time was over");
    assert!(second.is_held(), "{lost}");
    assert!(second.fence() > first.fence(), "{:?} after {:?}", second.fence(), first.fence());
    second.release().await.expect("held");
}

/// C1. The link to the replica is stalled: the grant is refused, and nothing stays behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_too_few_replicas_have_is_refused_and_undone() {
    let servers = Replicated::start(1).expect("a master and a replica");
    let backend = open(options(servers.master().port())).await;
    let mut hasty = hasty();
    hasty.lease = FAR;
    let (hasty, patient) = (Client::with(backend.clone(), hasty), Client::with(backend, leasing(FAR)));
    let lock = patient.lock("x").durability(Durability::Replicas(1));
    lock.acquire().await.expect("the replica follows").release().await.expect("held");
    servers.replicas()[0].stop().expect("stopped");
    let refused = hasty.lock("x").durability(Durability::Replicas(1));
    let refused = within("it ends", refused.try_acquire()).await;
    let Err(error) = refused else { panic!("granted without a replica: {refused:?}") };
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let free =
        || servers.master().cmd(&["EXISTS", "x", "tenure_about:{x}"]).expect("an answer").int() == Some(0);
    until_true("nothing stays behind", free).await;
    servers.replicas()[0].resume().expect("resumed");
    let again = within("it is granted again", lock.acquire()).await;
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
/// waiter goes on. No lease ends: whoever knows was told.
async fn survives(topology: Topology, fail: impl FnOnce() + Send + 'static) {
    const N: usize = 50;
    // With the usual patience for an answer: a master that stands still is given up after it.
    let client = async |topology| Client::with(open(Options::new(topology)).await, leasing(FAR));
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

    let mut lost = 0;
    for (i, guard) in held.into_iter().enumerate() {
        let lock = holders.lock(format!("n{i}"));
        let id = Some(guard.id().to_string());
        until("it is lost, or the new master has it", || async {
            !guard.is_held() || lock.holder().await.expect("an answer").map(|h| h.id) == id
        })
        .await;
        let held = guard.is_held();
        let released = within("released", guard.release()).await;
        if held {
            released.unwrap_or_else(|e| panic!("n{i} says held: {e}"));
        } else {
            lost += 1;
            assert!(released.is_err_and(|e| e.is_lost()), "n{i} was told");
        }
    }
    println!("{lost} of {N} were lost");
    for (i, waiter) in waiting.into_iter().enumerate() {
        let guard = done(&format!("the waiter of n{i} goes on"), waiter).await;
        within("released", guard.expect("granted").release()).await.expect("held");
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
