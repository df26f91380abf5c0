//! New connections that differ from the one before.

use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tenure_core::{Client, Error, Owner, Settings};
use tenure_zookeeper::{Options, ZooKeeper};
use testbed::{FAR, Proxy, Rule, Way, done, io_cause, until, within};

use super::harness::{A_WHILE, Harness, options, wait_for};

/// A reconfigured server grants a shorter session timeout, which from then on also applies to existing holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_grants_less_than_before_is_believed() {
    const LESS: Duration = Duration::from_secs(15);
    let harness = Harness::start();
    let client = harness.lasting().await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(guard.remaining() > LESS, "{:?}", guard.remaining());
    let config = harness.zk.instance().folder().join("zoo.cfg");
    let mut config = std::fs::OpenOptions::new().append(true).open(config).unwrap();
    writeln!(config, "maxSessionTimeout={}", LESS.as_millis()).unwrap();
    harness.zk.restart().unwrap();
    until("less is left", || async { guard.remaining() <= LESS }).await;
    assert!(guard.is_held());
    // The next renewal applies it.
    let mut left = guard.remaining();
    until("it is renewed", || {
        let before = std::mem::replace(&mut left, guard.remaining());
        assert!(guard.is_held() && left <= LESS);
        std::future::ready(left > before)
    })
    .await;
    guard.release().await.unwrap();
}

/// There are more watches than fit into one request. A new connection restores all of them.
#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_watched_is_watched_again() {
    const MANY: u64 = 1500;
    let harness = Harness::start();
    let network = harness.network();
    // No renewal finds out during the test.
    let client = network.client(FAR).await;
    let name = |i: u64| format!("{i:04}-{}", "x".repeat(200));
    let guards = try_join_all((0..MANY).map(async |i| client.lock(name(i)).acquire().await)).await.unwrap();
    until("all are watched", || async { harness.zk.watches().unwrap() >= MANY }).await;
    network.down();
    network.up();
    // The watches of the old connection end with it.
    until("all are watched again", || async {
        harness.zk.sessions().unwrap().len() == 1 && harness.zk.watches().unwrap() >= MANY
    })
    .await;
    assert!(guards.iter().all(tenure_core::Guard::is_held));
    for lost in [0, 777, 1499] {
        let path = format!("/{}", name(lost));
        let mut raw = harness.raw();
        let node = raw.children(&path).unwrap().remove(0);
        raw.delete(&format!("{path}/{node}"), None).unwrap();
        raw.close().unwrap();
        within("it is told", guards[lost as usize].lost()).await;
    }
}

/// A client that waits half an hour for anything.
async fn patient(mut options: Options) -> Client {
    let mut settings = Settings::default();
    options.timeout = FAR;
    (settings.lease, settings.call_timeout, settings.outage, settings.poll) = (FAR, FAR, FAR, Some(FAR));
    Client::with(Arc::new(ZooKeeper::open(options).await.unwrap()), settings)
}

/// A41. No call waits that did not ask to, and the session goes on meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_all_refuse_are_told_of_at_once() {
    let harness = Harness::start();
    let network = harness.network();
    let client = patient(options(network.proxy.port(), FAR)).await;
    let me = Owner::new();
    let (mine, seats) = (client.lock("mine").owner(&me), client.counting_semaphore("seats"));
    let guard = mine.acquire().await.unwrap();
    seats.try_set(5).await.unwrap();
    network.down();
    // A request on its way when the connection is cut may have been executed.
    until("the end of the connection is noticed", || async {
        let told = within("at once", client.lock("x").is_locked()).await.unwrap_err();
        matches!(told, Error::Unavailable { .. })
    })
    .await;
    let refused = |error: Error| {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_eq!(io_cause(&error), ErrorKind::ConnectionRefused, "{error}");
    };
    refused(within("a try", client.lock("x").try_acquire()).await.unwrap_err());
    refused(within("a fair try", client.lock("x").fair().try_acquire()).await.unwrap_err());
    refused(within("permits", client.semaphore("permits", 2).try_acquire()).await.unwrap_err());
    refused(within("a latch", client.latch("latch").count()).await.unwrap_err());
    refused(within("a list", client.list("", 10)).await.unwrap_err());
    // They take turns, and none of them waits for the verdict on each of the others.
    let takes = within("takes", join_all((0..20).map(|_| seats.try_acquire(1)))).await;
    takes.into_iter().for_each(|told| refused(told.unwrap_err()));
    // What is held needs no server: the session lives by our own clock.
    drop(within("a re-entry", mine.try_acquire()).await.unwrap().expect("its own"));
    let (waits, gives) = (
        wait_for(client.lock("x")),
        tokio::spawn({
            let seats = seats.clone();
            async move { seats.release(1).await }
        }),
    );
    tokio::time::sleep(A_WHILE).await;
    assert!(!waits.is_finished() && !gives.is_finished());
    network.up();
    drop(done("who waits", waits).await.unwrap());
    done("what shall take effect", gives).await.unwrap();
    assert_eq!(seats.available().await.unwrap(), 6);
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert_eq!(harness.zk.sessions().unwrap().len(), 1, "the session of the beginning");
}

/// A41. An ensemble without a leader closes connections. Calls wait for it, although other servers refuse them.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_accepts_connections_may_get_a_leader() {
    let harness = Harness::start();
    let network = harness.network();
    let gone = Proxy::start_zookeeper(harness.zk.port()).unwrap();
    let mut both = options(network.proxy.port(), FAR);
    both.servers.push(format!("127.0.0.1:{}", gone.port()));
    let client = patient(both).await;
    network.proxy.set(Way::ToServer, Rule::CutAfter(0));
    gone.refuse();
    gone.close_all();
    network.proxy.close_all();
    let tries = tokio::spawn({
        let lock = client.lock("x");
        async move { lock.try_acquire().await }
    });
    let before = network.proxy.accepted();
    until("it was tried again", || async { network.proxy.accepted() >= before + 5 }).await;
    assert!(!tries.is_finished());
    network.proxy.heal();
    assert!(done("the try", tries).await.unwrap().is_some());
}
