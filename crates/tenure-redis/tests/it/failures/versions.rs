//! Processes from before and after a change of the scripts share a store. The scripts of before are in `tests/before`,
//! as they were sent.

use std::time::Duration;

use tenure_core::backend::{Attempt, Backend, Released, Renewal};
use tenure_core::{Claim, Kind};
use testbed::Value;

use crate::harness::{Harness, claim, granted, open};

const ACQUIRE: &str = include_str!("../../before/lock_acquire.lua");
const RELEASE: &str = include_str!("../../before/lock_release.lua");
const RENEW: &str = include_str!("../../before/renew.lua");

const FAIR_ACQUIRE: &str = include_str!("../../before/fair_acquire.lua");
const FAIR_RELEASE: &str = include_str!("../../before/fair_release.lua");
const READ_ACQUIRE: &str = include_str!("../../before/read_acquire.lua");
const WRITE_ACQUIRE: &str = include_str!("../../before/write_acquire.lua");
const RW_RELEASE: &str = include_str!("../../before/rw_release.lua");
const PERMIT_ACQUIRE: &str = include_str!("../../before/permit_acquire.lua");
const PERMIT_RELEASE: &str = include_str!("../../before/permit_release.lua");
const PLAIN_ACQUIRE: &str = include_str!("../../before/plain_acquire.lua");
const PLAIN_RELEASE: &str = include_str!("../../before/plain_release.lua");
const PLAIN_RENEW: &str = include_str!("../../before/plain_renew.lua");

const NAME: &str = "x";
const FENCE: &str = "tenure_fence:{x}";
const ABOUT: &str = "tenure_about:{x}";
const WAITERS: &str = "tenure_waiters:{x}";
const WRITERS: &str = "tenure_writers:{x}";
const STAMPS: &str = "tenure_stamps:{x}";
const QUEUE: &str = "redisson_lock_queue:{x}";
const SCORES: &str = "redisson_lock_timeout:{x}";
const ENDS: &str = "{x}:timeout";
const OURS: &str = "tenure_permits:{x}";
const MARK: &str = "tenure_number:{x}";
const PERMITS: &str = "redisson_sc:{x}";

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

/// A hold of a process of before, of any kind but a lock.
struct Kinds<'a> {
    harness: &'a Harness,
    kind: Kind,
    id: String,
}

impl<'a> Kinds<'a> {
    fn new(harness: &'a Harness, kind: Kind) -> Self {
        Self { harness, kind, id: claim("x", kind).id.to_string() }
    }

    fn timeout(&self) -> String {
        format!("{{x}}:{}:rwlock_timeout:1", self.id)
    }

    fn eval(&self, script: &str, keys: &[&str], args: &[&str]) -> Value {
        let count = keys.len().to_string();
        self.harness.cmd(&[&["EVAL", script, &count], keys, args].concat())
    }

    fn reads(&self) -> bool {
        matches!(self.kind, Kind::Read { .. })
    }

    fn attempt(&self) -> Value {
        let (id, timeout) = (&*self.id, self.timeout());
        let begin = [id, "30000", "1", "86400000", WHO, "15000"];
        match self.kind {
            Kind::FairLock => self.eval(FAIR_ACQUIRE, &[NAME, FENCE, ABOUT, QUEUE, SCORES, STAMPS], &{
                [&begin[..], &["300000", "-"]].concat()
            }),
            Kind::Write => self.eval(WRITE_ACQUIRE, &[NAME, FENCE, ABOUT, WAITERS, WRITERS, STAMPS], &{
                [&begin[..], &["{x}"]].concat()
            }),
            Kind::Read { .. } => {
                self.eval(READ_ACQUIRE, &[NAME, FENCE, ABOUT, WAITERS, WRITERS, STAMPS, &timeout], &{
                    [&begin[..], &["", ""]].concat()
                })
            }
            _ => {
                let args = [id, "30000", "1", "1", "10000", "86400000", WHO, "15000", "PUBLISH", PERMITS];
                self.eval(PERMIT_ACQUIRE, &[NAME, ENDS, OURS, FENCE, ABOUT, WAITERS, STAMPS, MARK], &args)
            }
        }
    }

    fn try_acquire(&self) -> Option<u64> {
        let reply = self.attempt();
        (reply.items()[0].int() == Some(1)).then(|| reply.items()[1].text().parse().unwrap())
    }

    fn renew(&self) -> bool {
        let timeout = self.timeout();
        let (kind, keys) = match self.kind {
            Kind::FairLock => ("f", vec![NAME, ABOUT, SCORES, STAMPS]),
            Kind::Write => ("w", vec![NAME, ABOUT, WAITERS, STAMPS, WRITERS]),
            Kind::Read { .. } => ("r", vec![NAME, &timeout, ABOUT, WAITERS, STAMPS]),
            _ => ("p", vec![OURS, ENDS, ABOUT, WAITERS, STAMPS, NAME]),
        };
        let args = ["0", "10000", kind, "60000", "15000", "1", "1", &self.id];
        self.eval(RENEW, &keys, &args).items()[0].int() == Some(1)
    }

    fn release(&self) -> bool {
        let (id, timeout) = (&*self.id, self.timeout());
        let field = if self.reads() { self.id.clone() } else { format!("{id}:write") };
        let reply = match self.kind {
            Kind::FairLock => {
                let args = [id, "0", "30000", "PUBLISH", "redisson_lock__channel:{x}:", "86400000"];
                self.eval(FAIR_RELEASE, &[NAME, ABOUT, QUEUE, SCORES, STAMPS, FENCE], &args)
            }
            Kind::Write | Kind::Read { .. } => {
                let last = if self.reads() { &*timeout } else { NAME };
                let args = [id, &field, "0", "30000", "PUBLISH", "redisson_rwlock:{x}", "{x}"];
                self.eval(RW_RELEASE, &[NAME, ABOUT, WAITERS, WRITERS, STAMPS, last], &args)
            }
            _ => {
                let args = [id, "1", "PUBLISH", PERMITS, "10000"];
                self.eval(PERMIT_RELEASE, &[NAME, ENDS, OURS, ABOUT, WAITERS, STAMPS], &args)
            }
        };
        reply.int() == Some(1)
    }
}

/// As for locks, of every kind, and for both halves of a read/write lock.
#[tokio::test]
async fn every_kind_is_shared_with_processes_of_before() {
    const READ: Kind = Kind::Read { under_write: None };
    const PERMIT: Kind = Kind::Permit { n: 1, limit: 1 };
    for (one, other) in [
        (Kind::FairLock, Kind::FairLock),
        (Kind::Write, Kind::Write),
        (READ, Kind::Write),
        (Kind::Write, READ),
        (PERMIT, PERMIT),
    ] {
        let harness = Harness::start();
        let backend = harness.backend().await;
        let mut last = 0;
        for round in 0..3 {
            let said = format!("{one:?} and {other:?}, round {round}");
            // One of before holds, and one of now waits.
            let (before, now) = (Kinds::new(&harness, one), claim("x", other));
            let old = before.try_acquire().unwrap_or_else(|| panic!("{said}: free"));
            assert!(old > last, "{said}");
            assert_eq!(before.try_acquire(), Some(old), "{said}: a repeat");
            let waiting = Claim { wait: Some(Duration::MAX), ..now.clone() };
            assert!(!granted(&*backend, &waiting).await, "{said}");
            assert!(before.renew(), "{said}");
            assert_eq!(backend.release(&waiting, 0).await.unwrap(), Released::Freed, "{said}: its place");
            // Its hold is known to both by its id.
            let same = Claim { id: before.id.parse().unwrap(), ..claim("x", one) };
            let renewed = backend.renew(&[std::sync::Arc::new(same.clone())]).await.unwrap();
            assert!(matches!(renewed[0], Renewal::Held { .. }), "{said}: {renewed:?}");
            match round {
                0 => assert_eq!(backend.release(&same, 0).await.unwrap(), Released::Freed, "{said}"),
                _ => assert!(before.release(), "{said}"),
            }
            assert!(!before.release(), "{said}: only once");

            // The other way round.
            let (now, before) = (claim("x", one), Kinds::new(&harness, other));
            last = fence(&*backend, &now).await;
            assert!(last > old, "{said}");
            assert_eq!(before.try_acquire(), None, "{said}");
            let renewed = backend.renew(&[std::sync::Arc::new(now.clone())]).await.unwrap();
            assert!(matches!(renewed[0], Renewal::Held { .. }), "{said}: {renewed:?}");
            assert!(before.release(), "{said}: its place");
            assert!(!before.release(), "{said}: only once");
            let same = Kinds { id: now.id.to_string(), ..Kinds::new(&harness, one) };
            assert!(same.renew(), "{said}");
            match round {
                0 => assert!(same.release(), "{said}"),
                _ => assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Freed, "{said}"),
            }
            assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Gone, "{said}");
            assert!(one == PERMIT || !harness.exists("x"), "{said}");
        }
        // Readers of both share it, and keep out a writer of either.
        if one == READ {
            let (before, now) = (Kinds::new(&harness, READ), claim("x", READ));
            let first = fence(&*backend, &now).await;
            assert!(before.try_acquire().expect("shared") > first);
            assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Freed);
            assert!(!granted(&*backend, &claim("x", Kind::Write)).await);
            let now = claim("x", READ);
            fence(&*backend, &now).await;
            assert!(before.release());
            assert_eq!(Kinds::new(&harness, Kind::Write).try_acquire(), None);
            assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Freed);
        }
    }
}

/// A release of either grants to whoever of the other is first in the queue of a fair lock, or leaves it its turn.
#[tokio::test]
async fn a_fair_queue_is_shared_with_processes_of_before() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    for _ in 0..2 {
        let before = Kinds::new(&harness, Kind::FairLock);
        before.try_acquire().expect("free");
        let now = Claim { wait: Some(Duration::MAX), watched: Some(7), ..claim("x", Kind::FairLock) };
        assert!(!granted(&*backend, &now).await);
        let last = Kinds::new(&harness, Kind::FairLock);
        assert_eq!(last.try_acquire(), None);
        assert!(before.release());
        assert_eq!(harness.holders("x"), [now.id.to_string()], "granted within the release");
        let first = fence(&*backend, &now).await;
        assert_eq!(fence(&*backend, &now).await, first, "the one of that release");
        assert_eq!(last.try_acquire(), None);
        assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Freed);
        assert!(last.try_acquire().expect("its turn") > first);
        assert!(last.release());
        assert!(!harness.exists("x") && !harness.exists(QUEUE));
    }
}

/// On the plain layout: also with a token of the caller's own, for which both compare the record beside the string.
#[tokio::test]
async fn plain_locks_are_shared_with_processes_of_before() {
    let harness = Harness::start();
    let mut options = harness.options();
    options.layout = tenure_redis::Layout::Plain;
    let backend = open(options).await;
    let eval = |script: &str, args: &[&str]| {
        harness.cmd(&[&["EVAL", script, "4", NAME, ABOUT, WAITERS, STAMPS], args].concat())
    };
    for token in [None, Some("me")] {
        for round in 0..3 {
            let id = claim("x", Kind::Lock).id.to_string();
            let word = token.unwrap_or(&id);
            let acquire =
                |stamp| eval(PLAIN_ACQUIRE, &[word, &id, "30000", "1", WHO, stamp]).items()[0].int();
            let release =
                || eval(PLAIN_RELEASE, &[word, &id, "0", "30000", "PUBLISH", "tenure_lock:{x}"]).int();
            let renew = || eval(PLAIN_RENEW, &["0", word, &id, "60000", "15000"]).items()[0].int();
            let now = Claim { token: token.map(Into::into), ..claim("x", Kind::Lock) };
            assert_eq!(acquire(""), Some(1), "{token:?}");
            let waiting = Claim { wait: Some(Duration::MAX), ..now.clone() };
            assert!(!granted(&*backend, &waiting).await && !granted(&*backend, &now).await);
            assert_eq!(renew(), Some(1));
            assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Freed, "its place");
            assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Gone, "not that of another");
            assert_eq!(release(), Some(1));

            assert!(granted(&*backend, &now).await);
            assert_eq!(acquire("15000"), Some(0));
            assert_eq!(renew(), Some(2), "its place");
            assert_eq!(release(), Some(1), "its place");
            assert_eq!(release(), Some(0), "not that of another");
            let renewed = backend.renew(&[std::sync::Arc::new(now.clone())]).await.unwrap();
            assert!(matches!(renewed[0], Renewal::Held { .. }), "{renewed:?}");
            // Whoever has the id can release it.
            let own = now.id.to_string();
            let args = [token.unwrap_or(&own), &own, "0", "30000", "PUBLISH", "tenure_lock:{x}"];
            match round {
                0 => assert_eq!(eval(PLAIN_RELEASE, &args).int(), Some(1)),
                _ => assert_eq!(backend.release(&now, 0).await.unwrap(), Released::Freed),
            }
            assert_eq!(harness.keys(), Vec::<String>::new(), "{token:?}: nothing is left");
        }
    }
}
