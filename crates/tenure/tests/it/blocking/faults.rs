//! Answers that are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tenure::blocking::{Client, Guard};
use tenure::testing::{Call, Fate, Faults};
use tenure::{Error, Settings};
use testbed::wait_until_true;

use super::harness::{Store, elsewhere, is_free, within};

const LEASE: Duration = Duration::from_secs(5);
/// Enough for the calls that are answered.
const ENOUGH: Duration = Duration::from_secs(1);

/// A client whose commands have this fate.
fn through(call_timeout: Duration, plan: impl Fn(Call<'_>) -> Fate + Send + Sync + 'static) -> Client {
    let mut settings = Settings::default();
    (settings.lease, settings.call_timeout) = (LEASE, call_timeout);
    let faults = Faults::new(Store::memory().backend, plan);
    Client::new(tenure::Client::with(Arc::new(faults), settings))
}

/// Once: the first command that is asked about.
fn once(of: fn(&Call<'_>) -> bool, fate: Fate) -> impl Fn(Call<'_>) -> Fate {
    let done = AtomicBool::new(false);
    move |call| if of(&call) && !done.swap(true, SeqCst) { fate } else { Fate::default() }
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    within("lost answers", || {
        let lost = Fate { reply_lost: true, ..Fate::default() };
        let minute = Duration::from_secs(60);
        let acquires = through(minute, once(|c| matches!(c, Call::TryAcquire(_)), lost));
        let releases = through(minute, once(|c| matches!(c, Call::Release(_)), lost));
        for client in [acquires, releases] {
            let guard = client.lock("x").acquire().unwrap();
            assert_eq!(client.lock("x").holders().unwrap().len(), 1);
            guard.release().expect("the first one was executed");
            assert!(is_free(&client, "x"));
        }
    });
}

#[test]
fn a_store_that_does_not_answer_is_an_error() {
    within("no answer", || {
        let client = through(Duration::from_millis(200), |_| Fate { refused: true, ..Fate::default() });
        assert!(matches!(client.lock("x").acquire(), Err(Error::Unavailable { .. })));
        assert!(matches!(client.lock("x").try_acquire(), Err(Error::Unavailable { .. })));
        let client = through(Duration::from_millis(200), |_| Fate { request_lost: true, ..Fate::default() });
        assert!(matches!(client.lock("x").acquire(), Err(Error::Unknown { .. })));
    });
}

#[test]
fn a_release_that_is_not_answered_is_unknown_and_ends_with_the_lease() {
    within("no release", || {
        let deaf = Arc::new(AtomicBool::new(true));
        let is_deaf = deaf.clone();
        let client = through(ENOUGH, move |call| Fate {
            request_lost: matches!(call, Call::Release(_)) && is_deaf.load(SeqCst),
            ..Fate::default()
        });
        let guard = client.lock("x").acquire().unwrap();
        let error = guard.release().unwrap_err();
        assert!(error.is_unknown(), "{error}");
        deaf.store(false, SeqCst);
        wait_until_true("the lease ends", || is_free(&client, "x"));
    });
}

#[test]
fn threads_exclude_each_other_on_a_bad_network() {
    within("chaos", || {
        let chaos = Faults::chaos(Store::memory().backend, 7);
        let client = Client::new(tenure::Client::new(chaos));
        let number = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (lock, number) = (client.lock("x"), number.clone());
                thread::spawn(move || {
                    for _ in 0..10 {
                        let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
                        let seen = number.load(SeqCst);
                        thread::yield_now();
                        number.store(seen + 1, SeqCst);
                        drop(inner);
                        outer.release().unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(number.load(SeqCst), 40);
        elsewhere(move || client.lock("x").acquire().and_then(Guard::release).unwrap());
    });
}

#[test]
fn work_that_the_store_does_not_hear_of_is_no_success() {
    within("once", || {
        let mut settings = Settings::default();
        settings.lease = Duration::from_millis(200);
        let plan = |call: Call<'_>| Fate { refused: matches!(call, Call::Renew(_)), ..Fate::default() };
        let faults = Faults::new(Store::memory().backend, plan);
        let client = Client::new(tenure::Client::with(Arc::new(faults), settings));
        let hour = Duration::from_secs(3600);
        let done = client.once("x", hour).run(|_| Ok::<_, Error>(1)).expect_err("it will be done again");
        assert!(done.is_unknown() && done.to_string().contains("keep x"), "{done}");
        assert_eq!(client.lock("y").at_least(hour).run(|_| Ok::<_, Error>(2)), Ok(2), "known from the start");
    });
}
