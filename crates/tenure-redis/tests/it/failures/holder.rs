//! A. Holder and process, as far as Redis has something of its own to lose: the rest is shown by the conformance suite.

use std::time::Duration;

use tenure_core::{Claim, Kind};
use testbed::{FAR, done, until, within};

use crate::harness::{Harness, SHORT, claim, granted, leasing, templates};

/// A2. Whatever a dead client held or waited for ends by itself: each of its keys has a time to live, none longer than
/// what it asked for, and everybody gets in after one lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_client_leaves_only_what_ends_by_itself() {
    let harness = Harness::start();
    // Without a client above it nobody renews, releases or stamps: as dead as a killed process.
    let dead = harness.backend().await;
    let kinds = [
        ("lock", Kind::Lock),
        ("leader", Kind::Leader),
        ("fair", Kind::FairLock),
        ("read", Kind::Read { under_write: None }),
        ("write", Kind::Write),
        ("permits", Kind::Permit { n: 2, limit: 2 }),
    ];
    // Whoever had to wait for their patience, and not for their stamps, would not get in here.
    let wait = Duration::from_secs(600);
    let claim = |name, kind| Claim { lease: SHORT, stamp: SHORT, ..claim(name, kind) };
    for (name, kind) in kinds {
        assert!(granted(&*dead, &claim(name, kind)).await, "{name}");
        for _ in 0..3 {
            let kind = if name == "read" { Kind::Write } else { kind };
            let mut waits = claim(name, kind);
            waits.wait = Some(wait);
            // Whether it is told to wait, or gets it since the first one is over already: both die.
            granted(&*dead, &waits).await;
        }
    }
    for key in harness.keys() {
        let left = harness.number(&["PTTL", &key]);
        // How many permits there are is no leftover: it stays until it is forgotten. So do Redisson's ends of them,
        // which whoever asks next takes away. The last fence is kept for a day.
        let stays = ["permits", "tenure_number:{permits}", "{permits}:timeout"].contains(&key.as_str());
        // Redisson's queue has none, and is emptied by whoever comes next.
        let queue = key.starts_with("redisson_lock_queue") || key.starts_with("redisson_lock_timeout");
        let asked = wait * 3 + SHORT * 2;
        let most = if key.starts_with("tenure_fence") { 86_400_000 } else { asked.as_millis() as i64 };
        let gone = left == -2;
        assert!(gone || stays || queue || (0..=most).contains(&left), "{key} lives for {left} ms");
    }
    let client = harness.client().await;
    let heirs = [
        client.lock("lock"),
        client.lock("leader"),
        client.lock("fair").fair(),
        client.rwlock("read").write(),
        client.rwlock("write").read(),
        client.semaphore("permits", 2).permits(2),
    ];
    let heirs =
        heirs.map(|lock| tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() }));
    for heir in heirs {
        done("the next one", heir).await;
    }
    // What is left of those who waited blocks nobody, is not shown, and goes with its TTL.
    until("nobody is shown", || async {
        let all = client.list("", 100).await.unwrap();
        all.iter().all(|s| s.holders.is_empty() && s.waiters.is_empty())
    })
    .await;
    let stays = |key: &str| ["permits", "tenure_number:{permits}"].contains(&key);
    let endless: Vec<_> =
        harness.keys().into_iter().filter(|k| !stays(k) && harness.number(&["PTTL", k]) == -1).collect();
    assert!(endless.is_empty(), "{endless:?}");
}

/// A5. Dropped at any moment while its commands are on a slow way, an acquire leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_dropped_on_a_slow_network_leaves_nothing() {
    let harness = Harness::start();
    let network = harness.network();
    // What is freed is freed by an undo: no lease ends here.
    let client = network.client_with(leasing(FAR)).await;
    network.proxy.set(testbed::Way::ToServer, testbed::Rule::Jitter(Duration::from_millis(20)));
    network.proxy.set(testbed::Way::ToClient, testbed::Rule::Jitter(Duration::from_millis(20)));
    for round in 0..12_u64 {
        for (_, lock) in templates(&client, "dropped") {
            // Beginning, on its way there, on its way back, and held: each is met by some rounds.
            let _ = tokio::time::timeout(Duration::from_millis(round * 5), lock.acquire()).await;
        }
    }
    network.proxy.heal();
    let other = harness.client().await;
    for (name, lock) in templates(&other, "dropped") {
        within(&name, lock.acquire()).await.unwrap().release().await.unwrap();
    }
    client.close().await.unwrap();
    for snapshot in other.list("", 1000).await.unwrap() {
        assert!(snapshot.holders.is_empty() && snapshot.waiters.is_empty(), "{snapshot:?}");
    }
}

/// A6. A release whose future is dropped while it is on its way is a release.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_dropped_on_a_slow_network_goes_on() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    for (name, lock) in templates(&client, "left") {
        let guard = lock.clone().lease(FAR).acquire().await.unwrap();
        network.proxy.set(testbed::Way::ToServer, testbed::Rule::Stall);
        let release = tokio::time::timeout(Duration::from_millis(1), guard.release()).await;
        assert!(release.is_err(), "{name}: it is stalled");
        network.proxy.heal();
        until("free", || async { lock.holders().await.is_ok_and(|h| h.is_empty()) }).await;
    }
}
