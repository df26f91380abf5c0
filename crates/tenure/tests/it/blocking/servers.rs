//! On real servers: the way to them does not depend on a runtime of the caller's.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tenure::Settings;
use tenure::blocking::{Client, Guard, connect_with};
use testbed::{PATIENCE, Redis, RedisOptions, ZooKeeper, ZooKeeperOptions, wait_until_true};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;

use super::harness::{elsewhere, is_free, until_renewed, within};

fn clients(url: &str) -> [Client; 2] {
    let mut settings = Settings::default();
    settings.lease = Duration::from_secs(9);
    [(); 2].map(|()| connect_with(url, settings.clone()).unwrap())
}

/// What holds on both.
fn serves(url: &str) {
    let [client, other] = clients(url);
    let lock = client.lock("x");
    let outer = lock.acquire().unwrap();
    let inner = lock.acquire().unwrap();
    assert_eq!(inner.reentry_count(), 2);
    assert!(!is_free(&client, "x") && !is_free(&other, "x"));

    // Renewed while the thread computes, or sleeps as here.
    until_renewed(|| outer.remaining());

    let theirs = other.lock("x");
    let waits = thread::spawn(move || {
        let guard = theirs.acquire().unwrap();
        let fence = guard.fence();
        guard.release().unwrap();
        fence
    });
    wait_until_true("it waits", || !lock.waiters().unwrap().is_empty());
    inner.release().unwrap();
    let before = outer.fence();
    outer.release().unwrap();
    wait_until_true("it is let in", || waits.is_finished());
    assert!(waits.join().unwrap() > before);

    let guard = lock.acquire().unwrap();
    assert!(other.lock("x").force_release().unwrap());
    assert!(guard.lost_for(PATIENCE).is_some());
    assert!(guard.release().unwrap_err().is_lost());
    beside_a_runtime_that_stands_still(&client);
    client.close().unwrap();
    other.close().unwrap();
}

/// Its only thread waits for the very job that asks the store.
fn beside_a_runtime_that_stands_still(client: &Client) {
    let client = client.clone();
    elsewhere(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (done, answer) = mpsc::channel();
            spawn_blocking(move || {
                let pair = client.lock("x").acquire().and_then(Guard::release);
                done.send(pair).unwrap();
            });
            answer.recv_timeout(PATIENCE).expect("in time").unwrap();
        });
    });
}

#[test]
fn redis() {
    within("redis", || {
        let server = Redis::start(RedisOptions::default()).unwrap();
        serves(&server.url());
    });
}

#[test]
fn zookeeper() {
    within("zookeeper", || {
        let server = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
        serves(&server.url());

        // A request to give way.
        let [client, other] = clients(&server.url());
        let guard = client.lock("y").acquire().unwrap();
        assert!(!guard.revoked_for(Duration::from_millis(100)).unwrap());
        let asked = thread::spawn(move || other.lock("y").revoke().unwrap());
        guard.revoked().unwrap();
        assert!(asked.join().unwrap());
        assert!(guard.revoked_for(Duration::ZERO).is_ok());
        guard.release().unwrap();
    });
}
