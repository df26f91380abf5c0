//! Calls that wait to be sent at the same moment go as one script call. What goes wrong with one of them, or with all.
//!
//! Each test runs on one thread: tasks that are spawned together all make their call before anything more is written.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Attempt, Backend, Released};
use tenure_core::{Claim, Error, Kind, Result};
use tenure_redis::Redis;
use testbed::{Cut, done, until_true};

use crate::harness::{Harness, claim, open, warm};

/// All outputs, in order, of tasks that begin together.
async fn together<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    let mut outputs = Vec::new();
    for task in tasks {
        outputs.push(done("one of several", task).await);
    }
    outputs
}

async fn acquire(backend: &Arc<Redis>, claims: &[Claim]) -> Vec<Result<Attempt>> {
    let each = claims.iter().cloned().map(|claim| {
        let backend = backend.clone();
        async move { backend.try_acquire(&claim).await }
    });
    together(each).await
}

async fn release(backend: &Arc<Redis>, claims: &[Claim]) -> Vec<Result<Released>> {
    let each = claims.iter().cloned().map(|claim| {
        let backend = backend.clone();
        async move { backend.release(&claim, 0).await }
    });
    together(each).await
}

fn claims(word: &str, n: usize, kind: Kind) -> Vec<Claim> {
    (0..n).map(|i| claim(&format!("{word}{i}"), kind)).collect()
}

fn is_freed(released: &Result<Released>) -> bool {
    matches!(released, Ok(Released::Freed))
}

fn is_granted(attempt: &Result<Attempt>) -> bool {
    matches!(attempt, Ok(Attempt::Granted { .. }))
}

/// Of forty calls the first leaves at once, and the others in two. The time is read once in each.
#[tokio::test]
async fn what_waits_together_is_sent_as_one_call() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let read = Kind::Read { under_write: None };
    let permit = Kind::Permit { n: 1, limit: 3 };
    for (word, kind) in [
        ("lock", Kind::Lock),
        ("fair", Kind::FairLock),
        ("read", read),
        ("write", Kind::Write),
        ("p", permit),
    ] {
        let names = claims(word, 40, kind);
        // From now on the server has the scripts.
        for _ in 0..2 {
            assert!(acquire(&backend, &names).await.iter().all(is_granted), "{word}");
            assert!(release(&backend, &names).await.iter().all(is_freed), "{word}");
        }
        let mut monitor = harness.redis.monitor().unwrap();
        assert!(acquire(&backend, &names).await.iter().all(is_granted), "{word}");
        let seen = monitor.drain().unwrap();
        let sent = seen.iter().filter(|s| !s.is_in_script()).count();
        let times = seen.iter().filter(|s| s.name() == "TIME").count();
        assert_eq!(sent, 3, "{word}");
        if kind == Kind::Lock {
            assert_eq!(times, 3);
            for claim in &names {
                assert_eq!(harness.holders(claim.name.as_str()), [claim.id.to_string()]);
            }
        }
        let mut monitor = harness.redis.monitor().unwrap();
        assert!(release(&backend, &names).await.iter().all(is_freed), "{word}");
        let sent = monitor.drain().unwrap().iter().filter(|s| !s.is_in_script()).count();
        assert_eq!(sent, 3, "{word}");
    }
}

/// Each has an answer of its own: of one name a single one is granted, and the others know who has it.
#[tokio::test]
async fn one_name_is_granted_once() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    for round in 0..3 {
        let same: Vec<_> = (0..20).map(|_| claim("x", Kind::Lock)).collect();
        let answers = acquire(&backend, &same).await;
        let holder = same.iter().zip(&answers).filter(|(_, a)| is_granted(a)).map(|(c, _)| c);
        let holder: Vec<_> = holder.collect();
        assert_eq!(holder.len(), 1, "{round}: {answers:?}");
        let behind = |a: &Result<Attempt>| matches!(a, Ok(Attempt::Busy { behind: Some(id), .. }) if *id == holder[0].id);
        assert_eq!(answers.iter().filter(|a| behind(a)).count(), 19, "{round}: {answers:?}");
        let released = release(&backend, &same).await;
        assert_eq!(released.iter().filter(|r| is_freed(r)).count(), 1, "{round}");
    }
}

/// Those who queue in one call have places of their own, in the order of the queue: the gate watches for the first.
#[tokio::test]
async fn those_who_queue_together_have_places_of_their_own() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    for kind in [Kind::FairLock, Kind::Write] {
        let name = format!("{kind:?}");
        let held = claim(&name, kind);
        assert!(is_granted(&backend.try_acquire(&held).await));
        let wait = Some(Duration::from_secs(3600));
        let same: Vec<_> = (0..40).map(|_| Claim { wait, ..claim(&name, kind) }).collect();
        let places: Vec<_> = (acquire(&backend, &same).await.into_iter())
            .map(|answer| match answer {
                Ok(Attempt::Busy { position: Some(position), .. }) => position,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(places.windows(2).all(|two| two[0] < two[1]), "{kind:?}: {places:?}");
    }
}

/// A key of another program fails its own claim alone, whether it is to be acquired or released.
#[tokio::test]
async fn a_foreign_key_fails_alone() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let names = claims("x", 16, Kind::Lock);
    for _ in 0..2 {
        harness.cmd(&["RPUSH", "x7", "theirs"]);
        for (i, attempt) in acquire(&backend, &names).await.iter().enumerate() {
            match i {
                7 => {
                    let error = attempt.as_ref().unwrap_err().to_string();
                    assert!(error.contains("\"x7\" is a list of another program"), "{error}");
                }
                _ => assert!(is_granted(attempt), "{i}: {attempt:?}"),
            }
        }
        for (i, released) in release(&backend, &names).await.iter().enumerate() {
            match i {
                7 => assert!(matches!(released, Err(Error::Config(_))), "{released:?}"),
                _ => assert!(is_freed(released), "{i}: {released:?}"),
            }
        }
        harness.cmd(&["DEL", "x7"]);
    }
}

/// A server without memory refuses what wants some, and not what gives some back.
#[tokio::test]
async fn releases_pass_while_there_is_no_memory_for_acquires() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let (held, wanted) = (claims("held", 20, Kind::Lock), claims("wanted", 20, Kind::Lock));
    assert!(acquire(&backend, &held).await.iter().all(is_granted));
    harness.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let releases = tokio::spawn({
        let backend = backend.clone();
        async move { release(&backend, &held).await }
    });
    let attempts = acquire(&backend, &wanted).await;
    for attempt in &attempts {
        assert!(matches!(attempt, Err(Error::Unavailable { .. })), "{attempt:?}");
    }
    let released = done("releases", releases).await;
    assert!(released.iter().all(is_freed), "{released:?}");
    harness.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(acquire(&backend, &wanted).await.iter().all(is_granted));
}

/// A server refuses a whole call for one key that the user may not access: then each is sent alone.
#[tokio::test]
async fn a_key_that_is_not_allowed_fails_alone() {
    let harness = Harness::start();
    let keys = ["~mine*", "~tenure_fence:{mine*", "~tenure_about:{mine*", "~tenure_waiters:{mine*"];
    let rights = [&["ACL", "SETUSER", "u", "on", "nopass", "&*", "+@all"][..], &keys].concat();
    harness.cmd(&rights);
    let mut options = harness.options();
    options.user = Some("u".to_owned());
    options.password = Some(tenure_redis::Secret::from("any"));
    let backend = open(options).await;
    let mut names = claims("mine", 16, Kind::Lock);
    names[9] = claim("theirs", Kind::Lock);
    for (i, attempt) in acquire(&backend, &names).await.iter().enumerate() {
        match i {
            9 => {
                let error = attempt.as_ref().unwrap_err().to_string();
                assert!(error.contains("the server does not allow it"), "{error}");
            }
            _ => assert!(is_granted(attempt), "{i}: {attempt:?}"),
        }
    }
    for (i, released) in release(&backend, &names).await.iter().enumerate() {
        assert_eq!(released.is_ok(), i != 9, "{i}: {released:?}");
    }
    assert!(!harness.exists("mine3") && !harness.exists("theirs"));
}

/// Scripts that the server has forgotten are sent again, to each call its own.
#[tokio::test]
async fn scripts_are_forgotten_between_calls() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let names = claims("x", 40, Kind::Lock);
    for _ in 0..3 {
        harness.cmd(&["SCRIPT", "FLUSH"]);
        assert!(acquire(&backend, &names).await.iter().all(is_granted));
        harness.cmd(&["SCRIPT", "FLUSH"]);
        assert!(release(&backend, &names).await.iter().all(is_freed));
    }
    assert!(names.iter().all(|claim| !harness.exists(claim.name.as_str())));
}

/// The reply to a call for many is lost, whole or from some byte on: each of them is unknown, and is repeated under its
/// id.
#[tokio::test]
async fn a_lost_reply_is_unknown_to_each() {
    let harness = Harness::start();
    for cut in [Cut::BeforeRequest, Cut::AfterRequest, Cut::InReply(1), Cut::InReply(100), Cut::InReply(500)]
    {
        let network = harness.network();
        let backend = open(network.options()).await;
        let (warm, names) = (claims("warm", 40, Kind::Lock), claims("x", 40, Kind::Lock));
        acquire(&backend, &warm).await;
        release(&backend, &warm).await;
        network.proxy.cut_once("x20", cut);
        let attempts = acquire(&backend, &names).await;
        assert_eq!(network.proxy.cuts_left(), 0);
        // With the twentieth 31 others.
        let unknown = attempts.iter().filter(|a| a.as_ref().is_err_and(Error::is_unknown)).count();
        let granted = attempts.iter().filter(|a| is_granted(a)).count();
        assert!(unknown >= 32 && unknown + granted <= 40, "{cut:?}: {attempts:?}");
        let executed = names.iter().filter(|claim| harness.exists(claim.name.as_str())).count();
        assert!(matches!(cut, Cut::BeforeRequest) || executed >= 33, "{cut:?}: {executed}");
        assert!(acquire(&backend, &names).await.iter().all(is_granted), "repeated");
        for claim in &names {
            assert_eq!(harness.holders(claim.name.as_str()), [claim.id.to_string()], "{cut:?}");
        }
        let released = release(&backend, &names).await;
        // Some cannot be certain of it, because the attempt that was cut off may still come.
        assert!(released.iter().all(is_freed), "{cut:?}: {released:?}");
    }
}

/// Futures that are dropped after their calls have joined others are undone, and nobody else is.
#[tokio::test]
async fn what_is_dropped_among_others_is_undone() {
    let harness = Harness::start();
    let client = harness.client().await;
    warm(&client).await;
    for _ in 0..10 {
        let tasks: Vec<_> = (0..20)
            .map(|i| {
                let lock = client.lock(format!("x{i}"));
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        // All have made their call, and none has its answer.
        tokio::task::yield_now().await;
        let mut guards = Vec::new();
        for (i, task) in tasks.into_iter().enumerate() {
            match i % 3 {
                1 => task.abort(),
                _ => guards.push((i, done("a grant", task).await.unwrap())),
            }
        }
        until_true("what was dropped is free", || {
            (0..20).filter(|i| i % 3 == 1).all(|i| !harness.exists(&format!("x{i}")))
        })
        .await;
        for (i, guard) in guards {
            assert!(guard.is_held());
            assert_eq!(harness.holders(&format!("x{i}")), [guard.id().to_string()]);
            guard.release().await.unwrap();
        }
    }
}
