//! Requests for more permits than the size.

use tenure_core::{Client, Error, Guard, Result};
use testbed::{done, within};

use super::harness::{Harness, LONG, open, options, wait_for, waiting, without_poll};

/// A client whose waiters are woken by watches only, not by polls.
async fn told(harness: &Harness) -> Client {
    Client::with(open(options(harness.zk.port(), LONG)).await, without_poll())
}

fn is_refused(answer: Result<Option<Guard>>, n: u32, size: u32) {
    let Err(Error::Config(why)) = answer else { panic!("{answer:?}") };
    println!("{why}");
    assert!(why.contains(&format!("{n} permits")) && why.contains(&format!("has {size}")), "{why}");
}

/// E14. A request for more permits than the stored size fails at once, whoever holds or waits, and blocks nobody.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_size_is_refused_at_once() {
    let harness = Harness::start();
    let (mine, other) = (told(&harness).await, told(&harness).await);
    mine.semaphore("x", 10).resize(2).await.unwrap();
    let semaphore = mine.semaphore("x", 10);
    let refused = async || {
        is_refused(within("it is refused", semaphore.acquire_many(5)).await.map(Some), 5, 2);
        is_refused(within("a try is refused", semaphore.try_acquire_many(5)).await, 5, 2);
    };
    refused().await;
    let both = within("both are free", other.semaphore("x", 10).acquire_many(2)).await.unwrap();
    refused().await;
    let next = wait_for(other.semaphore("x", 10).permits(1));
    waiting(&mine, "x", 1).await;
    refused().await;
    both.release().await.unwrap();
    done("the next one", next).await.unwrap().release().await.unwrap();
    harness.is_empty("x").await;
}

/// E14. After a resize, all waiters for more permits than the new size fail, at any position; the others keep waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_size_is_told_to_those_who_wait() {
    let harness = Harness::start();
    let clients = [
        told(&harness).await,
        told(&harness).await,
        told(&harness).await,
        told(&harness).await,
        told(&harness).await,
    ];
    let of = |at: usize| clients[at].semaphore("x", 6);
    let all = of(0).acquire_many(6).await.unwrap();
    let mut waiters = Vec::new();
    for (at, n) in [(1, 5), (2, 1), (3, 4), (4, 2)] {
        waiters.push((n, wait_for(of(at).permits(n))));
        waiting(&clients[0], "x", waiters.len()).await;
    }
    of(0).resize(2).await.unwrap();
    let (large, small): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|(n, _)| *n > 2);
    for (n, waiter) in large {
        is_refused(done("it is told", waiter).await.map(Some), n, 2);
    }
    waiting(&clients[0], "x", small.len()).await;
    all.release().await.unwrap();
    for (n, waiter) in small {
        done(&format!("one that wants {n}"), waiter).await.unwrap().release().await.unwrap();
    }
    harness.is_empty("x").await;
}
