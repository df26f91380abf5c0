//! Operations on counts that are not answered for longer than a store remembers them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::backend::CountOp;
use tenure_core::testing::{Call, Fate, Faults};
use tenure_core::{Client, Clock, Memory, Settings};
use testbed::{done, until};

/// Takes two of four seats, with answers lost until the store has forgotten the operation. Returns how many are left.
async fn left_of_four(waits: bool) -> i64 {
    let clock = Clock::manual();
    let memory = Arc::new(Memory::with_clock(clock.clone()));
    let (lost, takes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (loses, count) = (lost.clone(), takes.clone());
    let plan = move |call: Call<'_>| {
        let is_take = matches!(call, Call::Count(_, CountOp::TakeIfAtLeast(2)));
        count.fetch_add(usize::from(is_take), SeqCst);
        Fate { reply_lost: is_take && loses.load(SeqCst), ..Fate::default() }
    };
    let mut settings = Settings::default();
    (settings.outage, settings.call_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
    settings.poll = Some(Duration::from_millis(20));
    let client = Client::with(Arc::new(Faults::new(memory.clone(), plan)), settings);
    let seats = Client::with(memory.clone(), Settings::default()).counting_semaphore("seats");
    if !waits {
        lost.store(true, SeqCst);
        seats.release(4).await.unwrap();
    }
    let taking = tokio::spawn({
        let seats = client.counting_semaphore("seats");
        async move { seats.acquire(2).await }
    });
    if waits {
        until("it waits", async || takes.load(SeqCst) > 2).await;
        lost.store(true, SeqCst);
        seats.release(4).await.unwrap();
    }
    until("it is taken", async || seats.available().await.unwrap() == 2).await;
    clock.advance(Duration::from_secs(601));
    lost.store(false, SeqCst);
    let error = done("it is told", taking).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    client.close().await.unwrap();
    seats.available().await.unwrap()
}

#[tokio::test]
async fn a_take_that_the_store_has_forgotten_is_not_repeated() {
    assert_eq!(left_of_four(false).await, 2);
}

#[tokio::test]
async fn nor_is_that_of_a_waiter() {
    assert_eq!(left_of_four(true).await, 2);
}
