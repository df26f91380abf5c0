//! Revocation: requests to release a lock.

use tenure_core::{Client, Error, Kind, Memory, Name};
use testbed::{done, within};

use super::harness::{A_WHILE, Harness, LONG, templates, wait_for, waiting};

/// A holder is notified of a revocation, whether it subscribes before or after, and keeps its hold. The waiter is not
/// disturbed, and is granted after the release.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_hears_that_it_is_asked() {
    let harness = Harness::start();
    let (mine, near) = (harness.client().await, harness.client().await);
    for (name, lock) in templates(&mine, "asked") {
        if name.starts_with("permits") {
            continue;
        }
        let asks = match name.starts_with("read") {
            true => near.rwlock(&name).write(),
            false => templates(&near, "asked").into_iter().find(|(n, _)| *n == name).unwrap().1,
        };
        assert!(!asks.revoke().await.unwrap(), "{name}: nobody is there to be asked");
        for listens_first in [true, false] {
            let guard = lock.acquire().await.unwrap();
            let next = wait_for(asks.clone());
            waiting(&near, &name, 1).await;
            if listens_first {
                let asked = async {
                    // Subscribing sends no request if the node is watched already, so nothing shows when it is done.
                    tokio::time::sleep(A_WHILE).await;
                    asks.revoke().await
                };
                let (heard, asked) = within(&name, async { tokio::join!(guard.revoked(), asked) }).await;
                assert!(heard.is_ok() && asked.unwrap(), "{name}");
            } else {
                assert!(asks.revoke().await.unwrap(), "{name}");
                within(&name, guard.revoked()).await.unwrap();
                within("and again", guard.revoked()).await.unwrap();
            }
            assert!(guard.is_held() && !next.is_finished(), "{name}");
            guard.release().await.unwrap();
            done(&name, next).await.unwrap().release().await.unwrap();
        }
    }
}

/// A revocation while the holder has no connection is delivered after the reconnect.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_during_a_cut_arrives_after_it() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(LONG).await, harness.client().await);
    let guard = away.lock("x").acquire().await.unwrap();
    // It subscribes, and then the connection is lost.
    assert!(tokio::time::timeout(A_WHILE, guard.revoked()).await.is_err());
    network.down();
    assert!(near.lock("x").revoke().await.unwrap());
    network.up();
    within("it hears", guard.revoked()).await.unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// Leaders and holders of permits cannot be revoked, nor can holders on other stores: each is an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_cannot_be_revoked_is_unsupported() {
    let harness = Harness::start();
    let mine = harness.client().await;
    let name = Name::new("x").unwrap();
    for kind in [Kind::Leader, Kind::Permit { n: 1, limit: 2 }] {
        let error = mine.backend().require_admin().unwrap().revoke(&name, kind).await.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
    let memory = Client::new(Memory::new());
    let guard = memory.lock("x").acquire().await.unwrap();
    let errors = [memory.lock("x").revoke().await.unwrap_err(), guard.revoked().await.unwrap_err()];
    for error in errors {
        assert!(matches!(error, Error::Unsupported { backend: "memory", .. }), "{error}");
    }
}
