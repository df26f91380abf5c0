//! Time as guards see it, on a clock that stands until it is moved.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use tenure_core::{Client, Clock, Error, LostReason, Memory, Settings};
use testbed::{FAR, done, until, within};

const SECOND: Duration = Duration::from_secs(1);

fn client(clock: &Clock) -> Client {
    Client::new(Memory::with_clock(clock.clone()))
}

#[tokio::test]
async fn a_guard_knows_how_much_is_left() {
    let clock = Clock::manual();
    let guard = client(&clock).lock("x").lease(5 * SECOND).acquire().await.unwrap();
    assert_eq!(guard.remaining(), Duration::from_millis(4948), "a hundredth and 2 ms are not relied upon");
    clock.advance(2 * SECOND);
    assert_eq!(guard.remaining(), Duration::from_millis(2948));
    assert!(guard.ensure(2 * SECOND).is_ok());
    assert!(guard.ensure(3 * SECOND).unwrap_err().is_lost());
    clock.advance(Duration::from_millis(2947));
    assert!(guard.is_held());
    clock.advance(Duration::from_millis(1));
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_machine_that_slept_does_not_work_on() {
    let clock = Clock::manual();
    let client = client(&clock);
    let guard = client.lock("x").acquire().await.unwrap();
    let steps = Arc::new(AtomicUsize::new(0));
    let (counted, during) = (steps.clone(), clock.clone());
    let work = poll_fn(move |cx| {
        // The machine sleeps in the middle of the first step, and the second one is due when it wakes.
        if counted.fetch_add(1, SeqCst) == 0 {
            during.advance(3600 * SECOND);
        }
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let lost = guard.while_held(work).await.unwrap_err();
    assert!(matches!(lost, Error::Lost(ref lost) if lost.reason == LostReason::Expired), "{lost}");
    assert_eq!(steps.load(SeqCst), 1, "it worked on after its lease");
    assert!(client.lock("x").try_acquire().await.unwrap().is_some(), "and the store has given it away");
    assert!(guard.release().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn loss_is_told_once_and_by_the_clock_alone() {
    let clock = Clock::manual();
    let guard = client(&clock).lock("x").lease(SECOND).acquire().await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(50), guard.lost()).await;
    assert!(waits.is_err(), "it is held");
    clock.advance(SECOND);
    for _ in 0..2 {
        assert_eq!(within("it is told", guard.lost()).await.reason, LostReason::Expired);
    }
}

#[tokio::test]
async fn a_waiter_gets_in_when_the_lease_of_a_dead_holder_ends() {
    let clock = Clock::manual();
    let store = Arc::new(Memory::with_clock(clock.clone()));
    // No poll finds out.
    let mut settings = Settings::default();
    settings.poll = Some(FAR);
    let (a, b) = (Client::with(store.clone(), settings.clone()), Client::with(store, settings));
    let dead = a.lock("x").lease(10 * SECOND).acquire().await.unwrap();
    let fence = dead.fence();
    dead.detach();
    let waiting = tokio::spawn(async move { b.lock("x").acquire().await });
    until("it waits", || async { !a.lock("x").waiters().await.unwrap().is_empty() }).await;
    clock.advance(9 * SECOND);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(!waiting.is_finished());
    clock.advance(SECOND);
    let guard = done("woken by the clock", waiting).await.unwrap();
    assert!(guard.fence() > fence);
}
