//! What `tenure::testing` gives to the tests of others: each promise, and each assertion when it does not hold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use tenure::testing::{Store, assert_holds};
use tenure::{Error, LostReason, Settings};
use testbed::{done, until};

const SECOND: Duration = Duration::from_secs(1);

/// What a panic of `f` says.
#[track_caller]
fn panics(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("no panic");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_held_lock_is_renewed_for_as_long_as_time_passes() {
    let store = Store::new();
    let (a, b) = (store.client(), store.client());
    let renewed = a.lock("renewed").acquire().await.unwrap();
    let leased = b.lock("leased").lease(10 * SECOND).acquire().await.unwrap();
    store.advance(9 * SECOND);
    assert!(renewed.is_held() && leased.is_held());
    store.advance(SECOND);
    assert!(!leased.is_held(), "a lease that was given is not renewed");
    store.assert_free("leased");
    store.advance(3600 * SECOND);
    assert!(renewed.is_held());
    assert!(b.lock("renewed").try_acquire().await.unwrap().is_none());
    renewed.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_that_sleeps_longer_than_its_lease_wakes_without_it() {
    let store = Store::new();
    let client = store.client();
    let guard = client.lock("x").acquire().await.unwrap();
    store.suspend(29 * SECOND);
    assert!(guard.is_held());
    store.suspend(31 * SECOND);
    assert_eq!(guard.lost().await.reason, LostReason::Expired);
    store.assert_free("x");
}

#[tokio::test]
async fn max_hold_ends_by_the_same_clock() {
    let store = Store::new();
    let guard = store.client().lock("x").max_hold(60 * SECOND).acquire().await.unwrap();
    store.advance(59 * SECOND);
    assert!(guard.is_held());
    store.advance(SECOND);
    assert_eq!(guard.lost().await.reason, LostReason::MaxHold);
}

#[tokio::test]
async fn a_lock_is_lost_when_the_test_says_so() {
    let store = Store::new();
    let (a, b) = (store.client(), store.client());
    let guard = a.lock("x").acquire().await.unwrap();
    let other = a.lock("y").acquire().await.unwrap();
    let waiting = tokio::spawn(async move { b.lock("x").acquire().await });
    until("it waits", || async { !a.lock("x").waiters().await.unwrap().is_empty() }).await;
    store.lose("x");
    assert!(!guard.is_held() && other.is_held());
    assert_eq!(guard.lost().await.reason, LostReason::Gone);
    let next = done("it is let in", waiting).await.unwrap();
    assert!(next.fence() > guard.fence());
    assert!(guard.release().await.unwrap_err().is_lost());
    assert!(next.is_held(), "the late release takes nothing from the next one");
}

#[tokio::test]
async fn every_kind_can_be_lost() {
    let store = Store::new();
    let client = store.client();
    let one = client.semaphore("seats", 2).acquire().await.unwrap();
    let two = client.semaphore("seats", 2).acquire().await.unwrap();
    let reader = client.rwlock("stock").read().acquire().await.unwrap();
    let leader = client.election("cron").campaign().await.unwrap();
    for name in ["seats", "stock", "cron"] {
        store.lose(name);
        store.assert_free(name);
    }
    for guard in [one, two, reader, leader] {
        assert_eq!(guard.lost().await.reason, LostReason::Gone, "{guard:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_down_refuses_and_forgets_nothing() {
    let store = Store::new();
    let settings = |ms| {
        let mut settings = Settings::default();
        settings.call_timeout = Duration::from_millis(ms);
        settings
    };
    let (a, b) = (store.client(), store.client_with(settings(20)));
    let guard = a.lock("x").acquire().await.unwrap();
    let outage = store.down();
    for error in [
        b.lock("y").try_acquire().await.map(drop).unwrap_err(),
        b.lock("x").is_locked().await.map(drop).unwrap_err(),
        b.latch("z").count().await.map(drop).unwrap_err(),
        b.diagnose().await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
    store.advance(20 * SECOND);
    assert!(guard.is_held(), "a lease outlives a short outage");
    store.assert_held("x");
    drop(outage);
    store.advance(60 * SECOND);
    assert!(guard.is_held(), "renewed again");
    store.down_for(40 * SECOND);
    store.advance(39 * SECOND);
    assert_eq!(guard.lost().await.reason, LostReason::Expired);
    assert!(b.lock("x").try_acquire().await.is_err(), "still down");
    store.advance(SECOND);
    let next = b.lock("x").try_acquire().await.unwrap();
    assert!(next.is_some(), "up again");
}

#[tokio::test]
async fn a_release_during_an_outage_ends_with_the_lease() {
    let store = Store::new();
    let guard = store.client().lock("x").acquire().await.unwrap();
    let outage = store.down();
    let release = tokio::spawn(guard.release());
    while !release.is_finished() {
        store.advance(SECOND);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let error = release.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    drop(outage);
    store.assert_free("x");
}

#[tokio::test]
async fn a_dropped_guard_is_free_for_the_next_assertion() {
    let store = Store::new();
    let client = store.client();
    for _ in 0..100 {
        drop(client.lock("x").acquire().await.unwrap());
        store.assert_free("x");
    }
}

#[tokio::test]
async fn assertions_fail_where_they_should_and_say_why() {
    let store = Store::new();
    let client = store.client();
    let guard = client.lock("orders/42").acquire().await.unwrap();
    store.assert_held("orders/42");
    let says = panics(|| store.assert_held("ordres/42"));
    assert!(says.contains(r#"nobody holds "ordres/42"; held is ["orders/42"]"#), "{says}");
    assert!(panics(|| store.assert_free("orders/42")).contains("somebody holds"));
    assert!(panics(|| store.lose("ordres/42")).contains("nobody holds"));
    assert!(panics(|| store.assert_held("")).contains("must not be empty"));
    assert!(store.is_held("orders/42") && guard.is_held(), "failed assertions change nothing");
}

#[tokio::test]
async fn a_block_is_under_a_lock_at_every_step_or_it_panics() {
    let store = Store::new();
    let (client, other) = (store.client(), store.client());
    let guard = client.lock("x").acquire().await.unwrap();
    let two_steps = async {
        tokio::task::yield_now().await;
        7
    };
    assert_eq!(assert_holds(&client, "x", two_steps).await, 7);

    let fails = |name: &'static str, of: &tenure::Client| {
        AssertUnwindSafe(assert_holds(of, name, async {})).catch_unwind()
    };
    let says = *fails("x", &other).await.unwrap_err().downcast::<String>().unwrap();
    assert!(says.contains("did not hold \"x\"") && says.contains("testing.rs"), "{says}");
    assert!(fails("y", &client).await.is_err());

    let mut worked_on = false;
    let loses_it = async {
        store.lose("x");
        tokio::task::yield_now().await;
        worked_on = true;
    };
    assert!(AssertUnwindSafe(assert_holds(&client, "x", loses_it)).catch_unwind().await.is_err());
    assert!(!worked_on && !guard.is_held());
}
