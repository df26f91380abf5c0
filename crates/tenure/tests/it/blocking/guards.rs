//! What a guard of a thread says, and how it ends.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use tenure::blocking::{Client, Guard, MultiGuard, Observer};
use tenure::{Error, LostReason};
use testbed::{wait_until, wait_until_true};

use super::harness::{Store, elsewhere, is_free, on_each, until_renewed, within};

const LIMIT: Duration = Duration::from_millis(30);
/// A lease whose renewal is waited for.
const RENEWED: Duration = Duration::from_secs(9);

#[track_caller]
fn is_lost(error: Error, reason: LostReason) {
    match error {
        Error::Lost(lost) => assert_eq!(lost.reason, reason, "{lost}"),
        other => panic!("not lost: {other}"),
    }
}

#[test]
fn others_may_look_at_a_guard() {
    fn shared<T: Sync>() {}
    fn sent<T: Send>() {}
    shared::<Guard>();
    shared::<MultiGuard>();
    sent::<Client>();
    sent::<Observer>();
}

#[test]
fn a_dropped_guard_is_free_for_the_next_line() {
    on_each(|store| {
        let client = store.client();
        for _ in 0..20 {
            drop(client.lock("x").acquire().unwrap());
            assert!(is_free(&client, "x"));
        }
    });
}

#[test]
fn a_limit_ends_waiting() {
    on_each(|store| {
        let lock = store.client().lock("x");
        let held = lock.acquire().unwrap();
        let other = lock.clone();
        let (got, took) = elsewhere(move || {
            let begun = Instant::now();
            (other.try_acquire_for(LIMIT).unwrap().is_some(), begun.elapsed())
        });
        assert!(!got && took >= LIMIT, "{got} after {took:?}");
        wait_until_true("its place is gone", || lock.waiters().unwrap().is_empty());
        held.release().unwrap();
    });
}

#[test]
fn a_lease_ends() {
    on_each(|store| {
        let client = store.client();
        assert_eq!(client.lock("y").acquire().unwrap().lost_for(Duration::ZERO), None);
        // An answer that comes after a second is none: it is asked for again.
        let short = client.lock("x").lease(Duration::from_secs(1));
        let guard = wait_until("it is taken", || match short.acquire() {
            Err(error) if error.is_transient() => None,
            taken => Some(taken.unwrap()),
        });
        assert!(guard.remaining() <= Duration::from_secs(1));
        is_lost(guard.ensure(Duration::from_secs(5)).unwrap_err(), LostReason::Expired);
        assert_eq!(guard.lost().reason, LostReason::Expired);
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert!(guard.lost_for(Duration::ZERO).is_some());
        let next = client.lock("x").acquire().unwrap();
        is_lost(guard.release().unwrap_err(), LostReason::Expired);
        assert!(next.is_held(), "the late release took nothing away");
        next.release().unwrap();
    });
}

#[test]
fn a_hold_has_its_longest_time() {
    on_each(|store| {
        let client = store.client();
        let guard = client.lock("x").max_hold(LIMIT).acquire().unwrap();
        let lost = guard.lost_for(Duration::MAX).expect("it ends");
        assert_eq!(lost.reason, LostReason::MaxHold);
        wait_until_true("it is free", || is_free(&client, "x"));
    });
}

#[test]
fn taken_by_force() {
    on_each(|store| {
        let lock = store.client_with(RENEWED).lock("x");
        let guard = lock.acquire().unwrap();
        assert_eq!(guard.lost_for(LIMIT), None);
        assert!(lock.force_release().unwrap());
        assert_eq!(guard.lost().reason, LostReason::Gone, "the next renewal tells");
        is_lost(guard.release().unwrap_err(), LostReason::Gone);

        let guard = lock.acquire().unwrap();
        let holder = lock.holder().unwrap().expect("this thread");
        assert_eq!(holder.hold_id(), Some(guard.id()));
        assert!(lock.release_from(&holder).unwrap());
        is_lost(guard.release().unwrap_err(), LostReason::Gone);
        assert!(!lock.force_release().unwrap());
    });
}

#[test]
fn renewed_while_the_thread_computes() {
    on_each(|store| {
        let client = store.client_with(RENEWED);
        let guard = client.lock("x").acquire().unwrap();
        let (mut number, mut least) = (1_u64, guard.remaining());
        while guard.remaining() <= least {
            least = guard.remaining();
            for _ in 0..10_000 {
                number = black_box(number.wrapping_mul(6_364_136_223_846_793_005));
            }
            assert!(guard.is_held());
        }
        assert!(!is_free(&client, "x"));
        guard.release().unwrap();
    });
}

/// Nobody can release it any more, but somebody may rely on it: it is not given away.
#[test]
fn one_that_is_leaked_outlives_its_thread() {
    on_each(|store| {
        let client = store.client_with(RENEWED);
        let lock = client.lock("x");
        elsewhere(move || std::mem::forget(lock.acquire().unwrap()));
        let left = || client.lock("x").holder().unwrap().expect("held").left.expect("leased");
        for _ in 0..2 {
            until_renewed(left);
        }
        assert!(!is_free(&client, "x"));
        client.close().unwrap();
        assert!(is_free(&store.client(), "x"), "closing ends it");
    });
}

#[test]
fn one_that_is_detached_is_not_entered_again() {
    on_each(|store| {
        let lock = store.client().lock("x").lease(Duration::from_secs(60));
        let id = lock.acquire().unwrap().detach();
        assert!(lock.try_acquire().unwrap().is_none());
        assert!(lock.release_by(id).unwrap());
        lock.acquire().unwrap().release().unwrap();
    });
}

#[test]
fn closing_ends_what_is_held_and_who_waits() {
    on_each(|store| {
        let client = store.client();
        let held = client.lock("x").acquire().unwrap();
        let latch = client.latch("l");
        latch.try_set_count(1).unwrap();
        let (lock, fair) = (client.lock("x"), client.lock("f").fair());
        let kept = fair.acquire().unwrap();
        let waiting = [
            thread::spawn(move || lock.acquire().map(drop)),
            thread::spawn(move || fair.acquire().map(drop)),
            thread::spawn(move || latch.wait()),
        ];
        for name in ["x", "f"] {
            wait_until_true("they wait", || !client.lock(name).waiters().unwrap().is_empty());
        }
        client.close().unwrap();
        for thread in waiting {
            assert_eq!(within("a waiter", || thread.join().unwrap()), Err(Error::Closed));
        }
        assert_eq!(held.lost().reason, LostReason::Closed);
        is_lost(held.release().unwrap_err(), LostReason::Closed);
        drop(kept);
        assert_eq!(client.lock("x").acquire().unwrap_err(), Error::Closed);
        assert_eq!(client.lock("x").try_acquire_for(LIMIT).unwrap_err(), Error::Closed);
        assert_eq!(client.list("", 10).unwrap_err(), Error::Closed);
        client.close().unwrap();
        assert!(is_free(&store.client(), "x"));
    });
}

#[test]
fn invalid_input_is_refused() {
    within("bad input", || {
        let error = tenure::blocking::connect("memry:").unwrap_err().to_string();
        assert!(error.contains("did you mean memory:?"), "{error}");
        let client = Store::memory().client();
        assert!(matches!(client.lock("").acquire(), Err(Error::Config(_))));
        assert!(matches!(client.lock("").name(), Err(Error::Config(_))));
        let short = client.lock("x").lease(Duration::from_millis(1));
        assert!(matches!(short.try_acquire(), Err(Error::Config(_))));
        assert!(matches!(client.semaphore("s", 2).acquire_many(3), Err(Error::Config(_))));
        assert!(matches!(client.latch("l").try_set_count(0), Err(Error::Config(_))));
        assert!(matches!(tenure::blocking::multi([]).acquire(), Err(Error::Config(_))));
        assert!(matches!(client.lock("x").revoke(), Err(Error::Unsupported { .. })));
        let guard = client.lock("x").acquire().unwrap();
        assert!(matches!(guard.revoked(), Err(Error::Unsupported { .. })));
        assert!(matches!(guard.revoked_for(LIMIT), Err(Error::Unsupported { .. })));
    });
}
