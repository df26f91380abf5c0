//! For how long a hold counts, here and in the store.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::Backend;
use tenure_core::{Claim, Kind, Owner};
use testbed::{Rule, Way};

use crate::harness::{Harness, LONG, claim, granted};

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

/// C31. A renewal with a shorter lease leaves what is left of a longer one, and gives a TTL to a key that has lost it.
#[tokio::test]
async fn a_renewal_never_shortens() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    for (name, kind) in [("l", Kind::Lock), ("f", Kind::FairLock), ("w", Kind::Write)] {
        let long = Claim { lease: Duration::from_secs(3600), ..claim(name, kind) };
        assert!(granted(&*backend, &long).await);
        let short = [Arc::new(Claim { lease: Duration::from_secs(60), ..long })];
        backend.renew(&short).await.unwrap();
        assert!(harness.left(name) > Duration::from_secs(600), "{name}");
        harness.cmd(&["PERSIST", name]);
        backend.renew(&short).await.unwrap();
        assert!(!harness.left(name).is_zero(), "{name}: it ends by itself");
    }
}
