//! Operations on counts that are not answered for longer than a store remembers them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::backend::CountOp;
use tenure_core::testing::{Call, Fate, Faults};
use tenure_core::{Client, Clock, Error, Memory, Settings};
use testbed::{done, until};

/// Takes two of four seats, with answers lost until the store has forgotten the operation. Returns how many are left,
/// or `None` if an answer arrived: an attempt that was on its way when the seats came may have got them.
async fn left_of_four(waits: bool) -> Option<i64> {
    let clock = Clock::manual();
    let memory = Arc::new(Memory::with_clock(clock.clone()));
    let (loses, takes, lost) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let network = Arc::new((loses, takes, lost));
    let plan = {
        let network = network.clone();
        move |call: Call<'_>| {
            let (loses, takes, lost) = &*network;
            let is_take = match call {
                Call::Count(_, CountOp::Add(4)) => {
                    loses.store(true, SeqCst);
                    false
                }
                Call::Count(_, op) => op == CountOp::TakeIfAtLeast(2),
                _ => false,
            };
            takes.fetch_add(usize::from(is_take), SeqCst);
            let reply_lost = is_take && loses.load(SeqCst);
            lost.fetch_add(usize::from(reply_lost), SeqCst);
            Fate { reply_lost, ..Fate::default() }
        }
    };
    let (loses, takes, lost) = &*network;
    let mut settings = Settings::default();
    (settings.outage, settings.call_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
    settings.poll = Some(Duration::from_secs(1800));
    let client = Client::with(Arc::new(Faults::new(memory.clone(), plan)), settings);
    let seats = client.counting_semaphore("seats");
    if !waits {
        seats.release(4).await.unwrap();
    }
    let taking = tokio::spawn({
        let seats = seats.clone();
        async move { seats.acquire(2).await }
    });
    if waits {
        until("it waits", async || takes.load(SeqCst) == 2).await;
        seats.release(4).await.unwrap();
    }
    until("it is taken", async || seats.available().await.unwrap() == 2).await;
    clock.advance(Duration::from_secs(601));
    loses.store(false, SeqCst);
    let told = done("it is told", taking).await;
    if lost.load(SeqCst) == 0 {
        return None;
    }
    assert!(told.as_ref().is_err_and(Error::is_unknown), "{told:?}");
    client.close().await.unwrap();
    Some(Client::with(memory, Settings::default()).counting_semaphore("seats").available().await.unwrap())
}

async fn left_without_an_answer(waits: bool) -> i64 {
    loop {
        if let Some(left) = left_of_four(waits).await {
            return left;
        }
    }
}

#[tokio::test]
async fn a_take_that_the_store_has_forgotten_is_not_repeated() {
    assert_eq!(left_without_an_answer(false).await, 2);
}

#[tokio::test]
async fn a_forgotten_take_of_a_waiter_is_not_repeated() {
    assert_eq!(left_without_an_answer(true).await, 2);
}
