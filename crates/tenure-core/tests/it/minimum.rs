//! A minimum time is kept by the store from the grant on, whatever becomes of the guard, the client and the process.
//! On a clock that stands until it is moved.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::{Client, Clock, Error, Guard, LostReason, Owner, Result};
use testbed::{until, within};

use crate::puppet::{Act, Call, Puppet};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// The leases that a store was asked for, by attempts and by renewals.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<(Vec<Duration>, Vec<Duration>)>>);

impl Asked {
    fn of(store: &Puppet) -> Self {
        let asked = Self::default();
        let seen = asked.clone();
        store.tell(move |call| {
            let mut seen = seen.0.lock().unwrap();
            match call {
                Call::Acquire(claim) => seen.0.push(claim.lease),
                Call::Renew(claims) => seen.1.extend(claims.iter().map(|claim| claim.lease)),
                _ => {}
            }
            Act::Pass
        });
        asked
    }

    fn attempts(&self) -> Vec<Duration> {
        self.0.lock().unwrap().0.clone()
    }

    fn renewals(&self) -> Vec<Duration> {
        self.0.lock().unwrap().1.clone()
    }
}

fn store() -> (Clock, Arc<Puppet>) {
    let clock = Clock::manual();
    (clock.clone(), Puppet::new(&clock))
}

/// How long the store keeps `name` if nobody does anything.
async fn left(store: &Arc<Puppet>, name: &str) -> Duration {
    let holder = store.client(|_| {}).lock(name).holder().await.unwrap();
    holder.and_then(|holder| holder.left).unwrap_or_default()
}

#[tokio::test]
async fn it_is_in_the_store_while_the_guard_lives() {
    let (clock, store) = store();
    let asked = Asked::of(&store);
    let guard = store.client(|_| {}).lock("x").at_least(HOUR).acquire().await.unwrap();
    assert_eq!(asked.attempts(), [HOUR], "this process may be killed at any moment");
    assert_eq!(left(&store, "x").await, HOUR);
    // It is renewed and counts as held as it would without a minimum.
    assert_eq!((guard.lease(), guard.remaining()), (LEASE, LEASE));
    for renewed in 1..=3 {
        clock.advance(LEASE / 3 - SECOND);
        tokio::time::sleep(5 * SECOND / 1000).await;
        assert_eq!(asked.renewals().len(), renewed - 1, "before a third of the lease");
        clock.advance(SECOND);
        until("it is renewed", || async { asked.renewals().len() == renewed }).await;
        until("it is held for another lease", || async { guard.remaining() > LEASE * 9 / 10 }).await;
        assert!(guard.remaining() <= LEASE);
        assert_eq!(left(&store, "x").await, HOUR - LEASE / 3 * renewed as u32);
    }
}

/// The guard is lost as it would be without a minimum, and the store keeps the name for `rest`.
async fn is_lost_and_kept(
    guard: Guard,
    reason: LostReason,
    client: Client,
    store: &Arc<Puppet>,
    rest: Duration,
) {
    assert_eq!(within("it is lost", guard.lost()).await.reason, reason);
    drop(guard);
    client.close().await.unwrap();
    assert_eq!(left(store, "x").await, rest);
}

#[tokio::test]
async fn it_outlives_a_guard_that_cannot_be_renewed() {
    let (clock, store) = store();
    let client = store.client(|_| {});
    let guard = client.lock("x").at_least(HOUR).acquire().await.unwrap();
    store.tell(|call| if matches!(call, Call::Renew(_)) { Act::Fail } else { Act::Pass });
    clock.advance(LEASE);
    is_lost_and_kept(guard, LostReason::Expired, client, &store, HOUR - LEASE).await;
}

#[tokio::test]
async fn it_outlives_a_client_that_is_closed() {
    let (_, store) = store();
    let client = store.client(|_| {});
    let guard = client.lock("x").at_least(HOUR).acquire().await.unwrap();
    let other = client.lock("y").acquire().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(within("it is lost", guard.lost()).await.reason, LostReason::Closed);
    assert_eq!((left(&store, "x").await, left(&store, "y").await), (HOUR, Duration::ZERO));
    drop((guard, other));
}

#[tokio::test]
async fn a_hold_that_was_taken_away_is_not_kept() {
    let (clock, store) = store();
    let guard = store.client(|_| {}).lock("x").at_least(HOUR).acquire().await.unwrap();
    assert!(store.client(|_| {}).lock("x").force_release().await.unwrap());
    clock.advance(LEASE / 3);
    assert_eq!(within("it is lost", guard.lost()).await.reason, LostReason::Gone);
    assert_eq!(left(&store, "x").await, Duration::ZERO);
}

/// Takes something that is kept for an hour from now on, though it was taken without a minimum.
async fn keep(guard: &Guard, store: &Arc<Puppet>) {
    guard.keep_at_least(HOUR).unwrap();
    until("the store is told at once", || async { left(store, "x").await == HOUR }).await;
    assert!(guard.remaining() <= guard.lease(), "the guard itself lasts no longer");
}

#[tokio::test]
async fn it_may_be_asked_for_later() {
    let (clock, store) = store();
    let asked = Asked::of(&store);
    let client = store.client(|_| {});
    let held = client.lock("x").max_hold(LEASE / 2).acquire().await.unwrap();
    keep(&held, &store).await;
    clock.advance(LEASE / 2);
    is_lost_and_kept(held, LostReason::MaxHold, client, &store, HOUR - LEASE / 2).await;
    store.client(|_| {}).lock("x").force_release().await.unwrap();

    let client = store.client(|_| {});
    let held = client.lock("x").lease(LEASE).acquire().await.unwrap();
    let renewals = asked.renewals().len();
    keep(&held, &store).await;
    clock.advance(LEASE / 2);
    tokio::time::sleep(5 * SECOND / 1000).await;
    assert_eq!(asked.renewals().len(), renewals + 1, "a fixed lease is not renewed");
    clock.advance(LEASE / 2);
    is_lost_and_kept(held, LostReason::Expired, client, &store, HOUR - LEASE).await;
}

#[tokio::test]
async fn a_later_one_is_told_again_until_the_store_has_it() {
    let (clock, store) = store();
    let client = store.client(|_| {});
    let held = client.lock("x").lease(LEASE).acquire().await.unwrap();
    let failed = Arc::new(Mutex::new(0));
    let count = failed.clone();
    store.tell(move |call| match call {
        Call::Renew(_) => {
            *count.lock().unwrap() += 1;
            Act::Fail
        }
        _ => Act::Pass,
    });
    held.keep_at_least(HOUR).unwrap();
    until("it fails", || async { *failed.lock().unwrap() == 1 }).await;
    store.tell(|_| Act::Pass);
    until("the store is told again", || async {
        clock.advance(SECOND / 10);
        left(&store, "x").await > HOUR / 2
    })
    .await;
    assert!(held.is_held());
}

#[tokio::test]
async fn work_that_was_done_counts_for_its_period() {
    let (clock, store) = store();
    let client = store.client(|_| {});
    let once = client.once("x", 24 * HOUR).at_least(HOUR);
    let done = once.run(async |_| {
        assert_eq!(left(&store, "x").await, HOUR, "work that fails counts for no longer");
        clock.advance(SECOND);
        Ok::<_, Error>(())
    });
    assert_eq!(done.await, Ok(Some(())));
    assert_eq!(left(&store, "x").await, 24 * HOUR - SECOND);
}

#[tokio::test]
async fn an_inner_guard_may_ask_for_it() {
    let (clock, store) = store();
    let client = store.client(|_| {});
    let lock = client.lock("x").owner(&Owner::new());
    let outer = lock.acquire().await.unwrap();
    clock.advance(SECOND);
    let inner = lock.clone().at_least(HOUR).acquire().await.unwrap();
    assert_eq!(left(&store, "x").await, HOUR - SECOND, "counted from the grant");
    inner.release().await.unwrap();
    assert!(outer.remaining() <= LEASE);
    client.close().await.unwrap();
    assert_eq!(left(&store, "x").await, HOUR - SECOND);
    drop(outer);
}

#[tokio::test]
async fn a_multi_lock_that_is_not_complete_leaves_no_minimum() {
    let (_, store) = store();
    let asked = Asked::of(&store);
    let client = store.client(|_| {});
    let both = tenure_core::multi(["x", "y"].map(|name| client.lock(name).at_least(HOUR)));
    let held = client.lock("y").acquire().await.unwrap();
    assert!(both.try_acquire().await.unwrap().is_none());
    assert_eq!(asked.attempts(), [LEASE; 3], "a process that dies now blocks others for a lease");
    held.release().await.unwrap();
    let guard = both.try_acquire().await.unwrap().expect("free");
    for name in ["x", "y"] {
        until("the store is told at once", || async { left(&store, name).await == HOUR }).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn nothing_is_kept_that_nobody_got() {
    let (_, store) = store();
    let client = store.client(|_| {});
    let held = client.lock("x").acquire().await.unwrap();
    let kept = client.lock("x").at_least(HOUR);
    let mut waiting = Box::pin(kept.acquire());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    held.release().await.unwrap();
    until("it is granted", || async { left(&store, "x").await > LEASE }).await;
    drop(waiting);
    until("it is given back", || async { left(&store, "x").await.is_zero() }).await;
}

#[tokio::test]
async fn options_that_end_it_before_are_refused() {
    let (_, store) = store();
    let client = store.client(|_| {});
    let kept = client.lock("x").at_least(HOUR);
    let once = client.once("x", 24 * HOUR).at_least(HOUR).at_most(60 * SECOND);
    let multi = tenure_core::multi([client.lock("y"), kept.clone().max_hold(60 * SECOND)]);
    let refused: [Result<()>; 4] = [
        kept.clone().lease(60 * SECOND).try_acquire().await.map(drop),
        kept.clone().max_hold(60 * SECOND).try_acquire().await.map(drop),
        once.run(async |_| Ok::<_, Error>(())).await.map(drop),
        multi.try_acquire().await.map(drop),
    ];
    for refused in refused {
        match refused {
            Err(Error::Config(why)) => assert!(why.contains("60s") && why.contains("3600s"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    for fits in [kept.clone().lease(HOUR), kept.max_hold(HOUR)] {
        drop(fits.try_acquire().await.unwrap().expect("free"));
        client.lock("x").force_release().await.unwrap();
    }
}

#[tokio::test]
async fn work_that_the_store_does_not_hear_of_is_no_success() {
    let (_, store) = store();
    let client = store.client(|settings| settings.lease = SECOND / 5);
    let down = || store.tell(|call| if matches!(call, Call::Acquire(_)) { Act::Pass } else { Act::Fail });
    let once = client.once("x", HOUR);
    let done = once.run(async |_| {
        down();
        Ok::<_, Error>(())
    });
    let unheard = within("it gives up with its lease", done).await.expect_err("it will be done again");
    assert!(unheard.is_unknown() && unheard.to_string().contains("keep x"), "{unheard}");
    // What the store has known from the start needs no answer.
    assert_eq!(client.lock("y").at_least(HOUR).run(async |_| Ok::<_, Error>(1)).await, Ok(1));
}

#[tokio::test]
async fn a_period_is_counted_from_the_call() {
    let (clock, store) = store();
    let slow = clock.clone();
    store.tell(move |call| {
        if matches!(call, Call::Acquire(_)) {
            slow.advance(5 * SECOND);
        }
        Act::Pass
    });
    let client = store.client(|_| {});
    assert_eq!(client.once("x", HOUR).run(async |_| Ok::<_, Error>(())).await, Ok(Some(())));
    assert_eq!(left(&store, "x").await, HOUR - 5 * SECOND);
    let backup = client.once("y", HOUR);
    let guard = backup.try_begin().await.unwrap().expect("free");
    guard.keep_at_least(backup.period()).unwrap();
    guard.release().await.unwrap();
    assert_eq!(left(&store, "y").await, HOUR - 5 * SECOND);
}
