//! For how long a hold counts, here and in the store.

use std::time::Duration;

use tenure_core::Owner;
use testbed::{Rule, Way};

use crate::harness::{Harness, LONG};

/// A15, B3. Validity counts from the question: what the answer took is taken off it.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_answer_shortens_the_validity() {
    // Far more than is taken off for clocks that differ.
    const LATE: Duration = Duration::from_secs(1);
    const LEASE: Duration = Duration::from_secs(20);
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    network.proxy.set(Way::ToClient, Rule::Delay(LATE));
    let guard = client.lock("x").lease(LEASE).acquire().await.unwrap();
    assert!(guard.remaining() <= LEASE - LATE, "{:?} left", guard.remaining());
    // And of a re-entry.
    let lock = client.lock("y").owner(&Owner::new());
    let _outer = lock.clone().lease(LEASE / 2).acquire().await.unwrap();
    let inner = lock.lease(LEASE).acquire().await.unwrap();
    assert!(inner.remaining() <= LEASE - LATE, "{:?} left", inner.remaining());
}

/// S4. The release of an inner guard extends what stays, as Redisson's does: by the lease, if less than that is left.
#[tokio::test(flavor = "multi_thread")]
async fn an_inner_release_extends_what_stays() {
    let harness = Harness::start();
    let client = harness.client().await;
    let lock = client.lock("x").owner(&Owner::new()).lease(LONG * 10);
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    harness.cmd(&["PEXPIRE", "x", "60000"]);
    inner.release().await.unwrap();
    assert!(harness.left("x") > LONG, "{:?} left", harness.left("x"));
    outer.release().await.unwrap();
    assert!(!harness.exists("x"));
}
