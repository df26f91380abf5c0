//! New connections that differ from the one before.

use std::io::Write;
use std::time::Duration;

use futures_util::future::try_join_all;
use testbed::{FAR, until, within};

use super::harness::Harness;

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
