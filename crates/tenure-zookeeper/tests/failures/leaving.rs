//! Holders and waiters that go: stopped, killed, closed, dropped at any moment.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tenure_core::Lock;

use crate::bench::{
    Bench, LONG, PATIENCE, SESSION, TICK, done, eventually, heirs, now, templates, wait_for, waiting, within,
};
use crate::worker::Worker;

/// E2, A1. A process that stands still for two sessions: the next one enters meanwhile, and on waking the guard is lost
/// before anybody sees it held.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stood_still_wakes_without_its_hold() {
    let bench = Bench::start();
    let near = bench.client().await;
    let mut worker = Worker::start(bench.zk.port());
    assert_eq!(worker.ask("acquire x"), "ok");
    let next = wait_for(near.lock("x"));
    waiting(&near, "x", 1).await;
    assert_eq!(worker.ask("mind"), "ok");
    worker.signal("STOP");
    let begin = now(&near);
    let next = done("the next one", next).await.unwrap();
    eventually("two sessions", async || now(&near).since(begin) > SESSION * 2).await;
    worker.signal("CONT");
    assert_eq!(worker.answer(), "woke held=false went_on=false told=true");
    assert!(next.is_held());
    next.release().await.unwrap();
    // It works on in a session of its own.
    assert_eq!(worker.ask("acquire x"), "ok");
}

/// E2, A2. A process that is killed: whatever it held is free one session later, and nothing stays of what it waited for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_held_is_free_after_its_session() {
    let bench = Bench::start();
    let near = bench.client().await;
    let mut worker = Worker::start(bench.zk.port());
    let of_near = near.lock("y").acquire().await.unwrap();
    assert_eq!(worker.ask("acquire x"), "ok");
    assert_eq!(worker.ask("wait y"), "ok");
    let next = wait_for(near.lock("x"));
    waiting(&near, "x", 1).await;
    waiting(&near, "y", 1).await;
    let last = wait_for(near.lock("y").fair());
    waiting(&near, "y", 2).await;
    worker.signal("KILL");
    let begin = now(&near);
    let next = done("the next of x", next).await.unwrap();
    let took = now(&near).since(begin);
    // A server looks at its sessions once per tick; the rest is for a busy machine.
    assert!(took < SESSION + TICK * 4, "{took:?}");
    println!("free {took:?} after the kill, with a session of {SESSION:?}");
    waiting(&near, "y", 1).await;
    of_near.release().await.unwrap();
    done("the one behind it", last).await.unwrap().release().await.unwrap();
    next.release().await.unwrap();
    bench.is_empty("x").await;
    bench.is_empty("y").await;
}

/// A3. A store that is closed or dropped ends its session: what stood there is free at once, held, waited for and
/// detached.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_store_held_is_free_when_it_is_closed_or_dropped() {
    let bench = Bench::start();
    let near = bench.client().await;
    for close in [true, false] {
        let mine = bench.client().await;
        let of_near = near.lock("y").acquire().await.unwrap();
        let held: Vec<_> = templates(&mine, "closed");
        for (_, lock) in &held {
            lock.acquire().await.unwrap().detach();
        }
        drop(held);
        let waiter = wait_for(mine.lock("y"));
        waiting(&near, "y", 1).await;
        let begin = now(&near);
        if close {
            mine.close().await.unwrap();
        }
        waiter.abort();
        drop(waiter.await);
        drop(mine);
        for (name, lock) in heirs(&near, "closed") {
            within(PATIENCE, &name, lock.acquire()).await.unwrap().release().await.unwrap();
            bench.is_empty(&name).await;
        }
        assert!(now(&near).since(begin) < LONG / 2, "freed by the end of a session, not by its close");
        of_near.release().await.unwrap();
        bench.is_empty("y").await;
    }
}

/// Polls as often as it may, each time when it was woken, and drops it then. Whether it was ready before.
async fn polled(times: usize, lock: &Lock) -> bool {
    let mut acquire = pin!(lock.acquire());
    let mut left = times;
    let polls = std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match acquire.as_mut().poll(cx) {
            Poll::Ready(guard) => {
                drop(guard.unwrap());
                Poll::Ready(true)
            }
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    });
    // One that waits is not woken any more.
    tokio::time::timeout(Duration::from_millis(50), polls).await.unwrap_or(false)
}

/// A5. Dropped after any number of polls, an acquire leaves nothing, neither where the name is free nor where it waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_dropped_after_any_poll_leaves_nothing() {
    let bench = Bench::start();
    let (mine, near) = (bench.client().await, bench.client().await);
    for (name, lock) in templates(&mine, "polled") {
        let mut times = 1;
        while !polled(times, &lock).await {
            times += 1;
            assert!(times < 50, "{name} is never granted");
        }
        bench.is_empty(&name).await;
        let heir = heirs(&near, "polled").into_iter().find(|(n, _)| *n == name).unwrap().1;
        let held = heir.acquire().await.unwrap();
        for times in 1..8 {
            assert!(!polled(times, &lock).await, "{name}");
        }
        eventually("nobody waits", async || {
            near.show(&name).await.unwrap().is_some_and(|seen| seen.waiters.is_empty())
        })
        .await;
        held.release().await.unwrap();
        bench.is_empty(&name).await;
    }
    // In the same session, which is still there.
    assert_eq!(bench.zk.watches().unwrap(), 0, "and no watch");
}
