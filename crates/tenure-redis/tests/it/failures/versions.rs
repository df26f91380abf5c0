//! Processes from before and after a change of the scripts share a store. The scripts of before are in `tests/before`,
//! as they were sent.

use std::time::Duration;

use tenure_core::backend::{Attempt, Backend, Released, Renewal};
use tenure_core::{Claim, Kind};
use testbed::Value;

use crate::harness::{Harness, claim, granted};

const ACQUIRE: &str = include_str!("../../before/lock_acquire.lua");
const RELEASE: &str = include_str!("../../before/lock_release.lua");
const RENEW: &str = include_str!("../../before/renew.lua");

const WHO: &str = r#"{"k":"lock","h":"before","p":1}"#;

/// A process of before, with one hold.
struct Before<'a> {
    harness: &'a Harness,
    id: String,
}

impl Before<'_> {
    fn keys(&self) -> [String; 5] {
        ["x", "tenure_fence:{x}", "tenure_about:{x}", "tenure_waiters:{x}", "tenure_stamps:{x}"]
            .map(String::from)
    }

    fn eval(&self, script: &str, keys: &[&str], args: &[&str]) -> Value {
        let count = keys.len().to_string();
        self.harness.cmd(&[&["EVAL", script, &count], keys, args].concat())
    }

    /// Its fence, if it was granted.
    fn try_acquire(&self) -> Option<u64> {
        let keys = self.keys();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let args = [&*self.id, "30000", "1", "86400000", WHO, "15000", "PUBLISH", ""];
        let reply = self.eval(ACQUIRE, &keys, &args);
        (reply.items()[0].int() == Some(1)).then(|| reply.items()[1].text().parse().unwrap())
    }

    fn renew(&self) -> bool {
        let args = ["0", "10000", "l", "60000", "15000", "0", "1", &self.id];
        self.eval(RENEW, &["x", "tenure_about:{x}"], &args).items()[0].int() == Some(1)
    }

    fn release(&self) -> bool {
        let args = [&*self.id, "0", "30000", "PUBLISH", "redisson_lock__channel:{x}", ""];
        let keys = ["x", "tenure_about:{x}", "tenure_waiters:{x}", "tenure_stamps:{x}"];
        self.eval(RELEASE, &keys, &args).int() == Some(1)
    }
}

async fn fence(backend: &dyn Backend, claim: &Claim) -> u64 {
    match backend.try_acquire(claim).await.unwrap() {
        Attempt::Granted { fence, .. } => fence.unwrap().0,
        other => panic!("{other:?}"),
    }
}

/// Each keeps the other out, fences grow over both, and each can renew and release what is its own.
#[tokio::test]
async fn locks_are_shared_with_processes_of_before() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let before = Before { harness: &harness, id: claim("x", Kind::Lock).id.to_string() };
    let mut last = 0;
    for _ in 0..3 {
        let old = before.try_acquire().expect("free");
        assert!(old > last);
        let new = claim("x", Kind::Lock);
        let waiting = Claim { wait: Some(Duration::MAX), ..new.clone() };
        assert!(!granted(&*backend, &waiting).await);
        assert!(before.renew());
        assert_eq!(backend.release(&new, 0).await.unwrap(), Released::Freed, "its place");
        assert!(before.release());

        last = fence(&*backend, &new).await;
        assert!(last > old);
        assert_eq!(before.try_acquire(), None);
        let renewed = backend.renew(&[std::sync::Arc::new(new.clone())]).await.unwrap();
        assert!(matches!(renewed[0], Renewal::Held { .. }), "{renewed:?}");
        assert!(before.release(), "its place");
        assert!(!before.release());
        assert_eq!(backend.release(&new, 0).await.unwrap(), Released::Freed);
        assert!(!harness.exists("x"));
    }
}

/// Whoever has the id of a hold can release it, also with the scripts of the other; nothing stays behind.
#[tokio::test]
async fn a_hold_of_before_is_released_by_its_id() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let new = claim("x", Kind::Lock);
    let before = Before { harness: &harness, id: new.id.to_string() };
    before.try_acquire().expect("free");
    assert_eq!(backend.release(&new, 0).await.unwrap(), Released::Freed);
    fence(&*backend, &new).await;
    assert!(before.release());
    assert!(!harness.exists("x"));
}
