//! What scripts keep beside a lock, when part of it is lost or somebody else has written there.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Attempt, Backend, CountOp, Counter, Released, Renewal};
use tenure_core::{Claim, Client, Durability, Error, Fence, Kind, LostReason, Name, OpId};
use testbed::{Replicated, done, until, within};

use crate::harness::{Harness, LONG, claim, granted, open, options, settings, waiting, woken_only};

const PERMIT: Kind = Kind::Permit { n: 1, limit: 1 };

/// A waiter that died and whose stamp was evicted would never be recognised as dead.
#[tokio::test]
async fn a_waiter_without_a_stamp_is_in_nobodys_way() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let writer = claim("x", Kind::Write);
    assert!(granted(&*backend, &writer).await);
    let dead = Claim { wait: Some(Duration::MAX), ..claim("x", Kind::Write) };
    assert!(!granted(&*backend, &dead).await);
    harness.cmd(&["DEL", "tenure_stamps:{x}"]);
    backend.release(&writer, 0).await.unwrap();
    for kind in [Kind::Read { under_write: None }, Kind::Write] {
        let next = claim("x", kind);
        assert!(granted(&*backend, &next).await, "{kind:?}");
        backend.release(&next, 0).await.unwrap();
    }
}

/// Of a lock that nobody holds or waits for, nothing is left but the last fence.
#[tokio::test]
async fn a_release_leaves_nothing_behind_but_the_fence() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let read = Kind::Read { under_write: None };
    for kind in [Kind::Lock, Kind::FairLock, Kind::Leader, read, Kind::Write] {
        let held = claim("x", kind);
        assert!(granted(&*backend, &held).await);
        assert_eq!(backend.release(&held, 0).await.unwrap(), Released::Freed);
        assert_eq!(harness.keys(), ["tenure_fence:{x}"], "{kind:?}");
    }
}

/// A waiter that is neither the first nor the last gives up: nothing of it stays among the others.
#[tokio::test]
async fn a_waiter_that_gives_up_leaves_no_queue_position() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let writer = claim("x", Kind::Write);
    assert!(granted(&*backend, &writer).await);
    let queued = [Kind::Write, Kind::Read { under_write: None }, Kind::Write]
        .map(|kind| Claim { wait: Some(Duration::MAX), ..claim("x", kind) });
    for waiter in &queued {
        assert!(!granted(&*backend, waiter).await);
    }
    backend.release(&queued[1], 0).await.unwrap();
    let left = harness.cmd(&["ZRANGE", "tenure_waiters:{x}", "0", "-1"]).texts();
    assert_eq!(left, [queued[0].id.to_string(), queued[2].id.to_string()]);
}

/// An attempt of the wrong kind takes no waiter's stamp away.
#[tokio::test]
async fn a_refused_fair_attempt_sweeps_nothing() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    assert!(granted(&*backend, &claim("x", Kind::Write)).await);
    let waiter = Claim { wait: Some(Duration::MAX), ..claim("x", Kind::Write) };
    assert!(!granted(&*backend, &waiter).await);
    // It died long ago.
    harness.cmd(&["ZADD", "tenure_stamps:{x}", "1", &waiter.id.to_string()]);
    let score = || harness.cmd(&["ZSCORE", "tenure_stamps:{x}", &waiter.id.to_string()]);
    let before = score();
    assert!(!before.is_nil());
    assert!(backend.try_acquire(&claim("x", Kind::FairLock)).await.is_err());
    assert_eq!(score(), before);
}

/// A value of another program under the name of a semaphore is not overwritten.
#[tokio::test]
async fn a_semaphore_does_not_overwrite_a_stranger() {
    let harness = Harness::start();
    harness.cmd(&["SET", "db", "hello"]);
    let client = harness.client().await;
    let said = client.semaphore("db", 3).permits(1).try_acquire().await.unwrap_err().to_string();
    assert!(said.contains("\"db\"") && said.contains("of another program"), "{said}");
    assert_eq!(harness.cmd(&["GET", "db"]).text(), "hello");
}

/// A repeat finds what it was granted. What others have taken back since, and perhaps given away, it does not take
/// again without paying.
#[tokio::test]
async fn a_repeat_does_not_take_back_a_permit_that_was_given_to_another() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let first = claim("x", PERMIT);
    assert!(granted(&*backend, &first).await);
    // As a JVM does whose clock is far ahead: it takes the permit back, and then for itself.
    harness.cmd(&["DEL", "{x}:timeout"]);
    harness.cmd(&["ZADD", "{x}:timeout", "9000000000000", "0123456789abcdef"]);
    assert!(!granted(&*backend, &first).await, "one of one, and another has it");
    backend.release(&first, 0).await.unwrap();
    assert_eq!(harness.cmd(&["GET", "x"]).text(), "0");
    assert!(!granted(&*backend, &claim("x", PERMIT)).await);
}

/// Permits of a JVM whose clock is behind end when that clock says so.
#[tokio::test]
async fn a_clock_that_is_behind_keeps_its_permits() {
    let harness = Harness::start();
    let mut options = harness.options();
    options.permit_slack = LONG;
    let backend = open(options).await;
    let one = claim("x", PERMIT);
    assert!(granted(&*backend, &one).await);
    backend.release(&one, 0).await.unwrap();
    let seconds: i64 = harness.cmd(&["TIME"]).texts()[0].parse().unwrap();
    // Taken just now for four seconds, by a clock that is five behind. Up to a minute is borne here.
    harness.cmd(&["ZADD", "{x}:timeout", &((seconds - 1) * 1000).to_string(), "0123456789abcdef"]);
    harness.cmd(&["DECR", "x"]);
    assert!(!granted(&*backend, &claim("x", PERMIT)).await);
    harness.cmd(&["ZADD", "{x}:timeout", &((seconds - 600) * 1000).to_string(), "0123456789abcdef"]);
    assert!(granted(&*backend, &claim("x", PERMIT)).await, "even a slow clock agrees");
}

/// The server walks over each permit of a hold: too many of them would hold up everybody else.
#[tokio::test]
async fn too_many_permits_at_once_are_refused() {
    let harness = Harness::start();
    let client = harness.client().await;
    let semaphore = client.semaphore("x", 100_000);
    let said = semaphore.permits(5_000).try_acquire().await.unwrap_err().to_string();
    assert!(said.contains("5000 permits") && said.contains("at most 1000"), "{said}");
    assert!(semaphore.permits(1_000).try_acquire().await.unwrap().is_some());
}

/// The fence of a grant, or of its repeat.
async fn fence(backend: &dyn Backend, claim: &Claim) -> Fence {
    match backend.try_acquire(claim).await.expect("an answer") {
        Attempt::Granted { fence, .. } => fence.unwrap_or_else(|| panic!("{}: no fence", claim.name)),
        other => panic!("{}: {other:?}", claim.name),
    }
}

/// C4. A hold whose record was evicted still has a fence: a new one, larger than all before, and the same at each repeat.
#[tokio::test]
async fn a_repeat_after_its_record_was_evicted_has_a_fence() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let read = Kind::Read { under_write: None };
    let kinds = [("l", Kind::Lock), ("f", Kind::FairLock), ("r", read), ("w", Kind::Write), ("p", PERMIT)];
    for (name, kind) in kinds {
        let one = claim(name, kind);
        let first = fence(&*backend, &one).await;
        assert_eq!(fence(&*backend, &one).await, first, "{name}: a repeat finds its grant");
        let reader = format!("{{{name}}}:{}:rwlock_timeout:1", one.id);
        let (about, writer) = (format!("tenure_about:{{{name}}}"), format!("tenure_writer:{{{name}}}"));
        let record = match kind {
            Kind::Lock | Kind::FairLock => name,
            Kind::Read { .. } => &reader,
            Kind::Write => &writer,
            _ => &about,
        };
        match kind {
            Kind::Lock | Kind::FairLock => harness.cmd(&["HDEL", name, &format!("{}:d", one.id)]),
            // As Redisson writes it, and earlier versions of ours.
            Kind::Read { .. } => harness.cmd(&["SET", &reader, "1", "KEEPTTL"]),
            _ => harness.cmd(&["DEL", record]),
        };
        let second = fence(&*backend, &one).await;
        assert!(second > first, "{name}: {second} after {first}");
        assert_eq!(fence(&*backend, &one).await, second, "{name}: it keeps that");
        assert!(!harness.left(record).is_zero(), "{name}: and the record ends by itself");
    }
    let writer = claim("under", Kind::Write);
    let first = fence(&*backend, &writer).await;
    harness.cmd(&["DEL", "tenure_writer:{under}"]);
    let reader = claim("under", Kind::Read { under_write: Some(writer.id) });
    assert!(fence(&*backend, &reader).await > first);
}

/// C25. Waiters that died all at once: the sets in which they stood expire, and their records go with the next grants, or
/// with the next waiters of a lock, although the name is never idle.
#[tokio::test]
async fn records_of_dead_waiters_go() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    for (name, kind) in [("l", Kind::Lock), ("f", Kind::FairLock), ("w", Kind::Write), ("p", PERMIT)] {
        let held = claim(name, kind);
        assert!(granted(&*backend, &held).await);
        for _ in 0..100 {
            assert!(!granted(&*backend, &Claim { wait: Some(Duration::MAX), ..claim(name, kind) }).await);
        }
        let about = format!("tenure_about:{{{name}}}");
        let records = || harness.number(&["HLEN", &about]);
        assert!(records() >= 100, "{name}: the test itself");
        for set in [
            "tenure_waiters",
            "tenure_writers",
            "tenure_stamps",
            "redisson_lock_queue",
            "redisson_lock_timeout",
        ] {
            harness.cmd(&["DEL", &format!("{set}:{{{name}}}")]);
        }
        backend.release(&held, 0).await.unwrap();
        for _ in 0..100 {
            let next = claim(name, kind);
            assert!(granted(&*backend, &next).await);
            let waiter = Claim { wait: Some(Duration::MAX), ..claim(name, kind) };
            assert!(!granted(&*backend, &waiter).await);
            backend.release(&waiter, 0).await.unwrap();
            backend.release(&next, 0).await.unwrap();
        }
        assert!(records() <= 3, "{name}: {} records of nobody", records());
    }
}

/// C25. The record of a reader ends with it, however that comes, also if others go on reading; and that of a writer.
#[tokio::test]
async fn records_of_ended_readers_go() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let read = Kind::Read { under_write: None };
    let ended: Vec<Claim> = (0..100).map(|_| claim("x", read)).collect();
    for one in &ended {
        assert!(granted(&*backend, one).await);
    }
    harness.cmd(&["DEL", "x"]);
    for one in &ended {
        harness.cmd(&["DEL", &format!("{{x}}:{}:rwlock_timeout:1", one.id)]);
    }
    let others = claim("x", read);
    assert!(granted(&*backend, &others).await);
    assert_eq!(backend.release(&ended[0], 0).await.unwrap(), Released::Gone, "it comes too late");
    for _ in 0..100 {
        let next = claim("x", read);
        assert!(granted(&*backend, &next).await);
        assert_eq!(backend.release(&next, 0).await.unwrap(), Released::Freed);
    }
    assert_eq!(harness.number(&["DBSIZE"]), 3, "the hash, its reader and the fence: {:?}", harness.keys());
    backend.release(&others, 0).await.unwrap();
    let writer = claim("x", Kind::Write);
    assert!(granted(&*backend, &writer).await);
    assert_eq!(harness.number(&["DBSIZE"]), 3, "the hash, its writer and the fence: {:?}", harness.keys());
    backend.release(&writer, 0).await.unwrap();
    assert_eq!(harness.keys(), ["tenure_fence:{x}"]);
}

/// The last reader that lives frees the lock, also where the field of one that died is still in its hash: a JVM that waits
/// to write looks at nothing else.
#[tokio::test]
async fn a_reader_that_leaves_the_dead_behind_frees_the_lock() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let [dead, alive] = [(); 2].map(|()| claim("x", Kind::Read { under_write: None }));
    assert!(granted(&*backend, &dead).await && granted(&*backend, &alive).await);
    harness.cmd(&["DEL", &format!("{{x}}:{}:rwlock_timeout:1", dead.id)]);
    assert_eq!(backend.release(&alive, 0).await.unwrap(), Released::Freed);
    assert_eq!(harness.keys(), ["tenure_fence:{x}"]);
}

/// More than a semaphore has can never be free: it is refused at once, and keeps nobody out.
#[tokio::test(flavor = "multi_thread")]
async fn more_permits_than_there_ever_will_be_are_refused() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(woken_only()).await, harness.client_with(woken_only()).await);
    let one = client.semaphore("x", 2).acquire().await.unwrap();
    let larger = other.semaphore("x", 10);
    let error = within("told", larger.acquire_many(5)).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
    let said = error.to_string();
    assert!(said.contains("5 permits") && said.contains("has 2"), "{said}");
    assert!(larger.waiters().await.unwrap().is_empty());
    let two = within("one is free", larger.acquire()).await.unwrap();
    drop((one, two));
}

/// Who waits for more than a new size has is told so, and those behind it go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_size_refuses_who_waits_for_more() {
    let harness = Harness::start();
    let (client, other) = (harness.client_with(woken_only()).await, harness.client_with(woken_only()).await);
    let semaphore = client.semaphore("x", 5);
    let three = semaphore.acquire_many(3).await.unwrap();
    let waits = |n| {
        let semaphore = other.semaphore("x", 5);
        tokio::spawn(async move { semaphore.acquire_many(n).await })
    };
    let four = waits(4);
    waiting(&client, "x", 1).await;
    semaphore.resize(2).await.unwrap();
    let error = done("told", four).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
    assert!(error.to_string().contains("4 permits") && error.to_string().contains("has 2"), "{error}");
    let two = waits(2);
    waiting(&client, "x", 1).await;
    three.release().await.unwrap();
    drop(done("two are free", two).await.unwrap());
}

/// One claim of a batch meets a key of another program. The others are renewed all the same.
#[tokio::test]
async fn a_claim_that_cannot_be_renewed_is_not_the_others_loss() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let (good, bad) = (Arc::new(claim("good", Kind::Lock)), Arc::new(claim("bad", PERMIT)));
    assert!(granted(&*backend, &good).await && granted(&*backend, &bad).await);
    harness.cmd(&["SET", "{bad}:timeout", "hello"]);
    for batch in [[bad.clone(), good.clone()], [good.clone(), bad.clone()]] {
        let answers = backend.renew(&batch).await.unwrap();
        for (claim, answer) in batch.iter().zip(answers) {
            match answer {
                Renewal::Held { .. } => assert_eq!(claim.id, good.id),
                Renewal::Unanswered => assert_eq!(claim.id, bad.id),
                other => panic!("{}: {other:?}", claim.name),
            }
        }
    }
    assert!(backend.renew(&[bad]).await.is_err(), "alone it says why");
}

/// A latch that opened and was set again while nobody could hear it: another one, whatever its count.
#[tokio::test]
async fn a_latch_knows_when_it_was_made() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let name = Name::new("x").unwrap();
    let client = tenure_core::ClientId::new();
    let mut n = 0;
    let mut count = async |op| {
        n += 1;
        backend.count(&name, Counter::Latch, op, OpId { client, n, settled: 0 }).await.unwrap()
    };
    let first = count(CountOp::Init(2)).await.born;
    assert!(first > 0);
    assert_eq!(count(CountOp::Add(-1)).await.born, first);
    assert_eq!(count(CountOp::Get).await.born, first);
    assert_eq!(count(CountOp::Add(-1)).await.after, None);
    assert!(count(CountOp::Init(2)).await.applied);
    assert!(count(CountOp::Get).await.born > first);
}

/// Who asked for copies has them renewed, too: with the only replica gone a hold ends with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_with_copies_is_lost_when_they_are() {
    let world = Replicated::start(1).unwrap();
    let client = Client::with(open(options(world.master().port())).await, settings());
    let guard = client.lock("x").durability(Durability::Replicas(1)).acquire().await.unwrap();
    let plain = client.lock("y").acquire().await.unwrap();
    world.replicas()[0].stop().unwrap();
    let lost = within("lost", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(plain.is_held(), "who asked for none goes on");
}

/// And gets its answer, when the copies are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_waits_for_its_copies() {
    let world = Replicated::start(1).unwrap();
    let backend = open(options(world.master().port())).await;
    let one = Claim { durability: Durability::Replicas(1), ..claim("x", Kind::Lock) };
    // On a busy machine the copy may come later than an answer waits for it: the same is asked again.
    until("granted", || async { matches!(backend.try_acquire(&one).await, Ok(Attempt::Granted { .. })) })
        .await;
    let again = [Arc::new(Claim { lease: LONG * 2, ..one.clone() })];
    until("renewed", || async {
        matches!(backend.renew(&again).await.as_deref(), Ok([Renewal::Held { .. }]))
    })
    .await;
    let left = world.replicas()[0].cmd(&["PTTL", "x"]).unwrap().int().unwrap();
    assert!(left > LONG.as_millis() as i64, "the replica has it: {left}");
}
