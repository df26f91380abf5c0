//! Holders and waiters that are stopped, killed, closed or dropped.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tenure_core::{Client, Lock, Settings};
use testbed::{FAR, PATIENCE, done, until, within};

use super::harness::{
    A_WHILE, Harness, LONG, SESSION, heirs, now, open, options, templates, wait_for, waiting, without_poll,
};
use super::worker::Worker;

/// E2, A1. A process is stopped for longer than its session: the next one acquires the lock, and when the process
/// continues, its guard is never seen as held.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stood_still_wakes_without_its_hold() {
    let harness = Harness::start();
    let near = harness.client().await;
    let mut worker = Worker::start(harness.zk.port());
    assert_eq!(worker.ask("acquire x"), "ok");
    let next = wait_for(near.lock("x"));
    waiting(&near, "x", 1).await;
    assert_eq!(worker.ask("mind"), "ok");
    worker.signal("STOP");
    let begin = now(&near);
    let next = done("the next one", next).await.unwrap();
    until("it stood still", || async { now(&near).since(begin) > SESSION * 5 / 4 }).await;
    worker.signal("CONT");
    assert_eq!(worker.answer(), "woke held=false went_on=false told=true");
    assert!(next.is_held());
    next.release().await.unwrap();
    // It continues in a new session.
    assert_eq!(worker.ask("acquire x"), "ok");
}

/// E2, A2. A process is killed: what it held is free one session timeout later, and its queue nodes are gone.
#[tokio::test(flavor = "multi_thread")]
async fn holds_of_a_killed_process_are_free_after_its_session() {
    let harness = Harness::start();
    // Only a watch can wake the waiter, not a poll.
    let near = Client::with(open(options(harness.zk.port(), LONG)).await, without_poll());
    let mut worker = Worker::start(harness.zk.port());
    let of_near = near.lock("y").acquire().await.unwrap();
    assert_eq!(worker.ask("acquire x"), "ok");
    assert_eq!(worker.ask("wait y"), "ok");
    let next = wait_for(near.lock("x"));
    waiting(&near, "x", 1).await;
    waiting(&near, "y", 1).await;
    let last = wait_for(near.lock("y").fair());
    waiting(&near, "y", 2).await;
    let (session, granted) = (harness.owners("/x")[0], format!(",to={},", SESSION.as_millis()));
    let connections = harness.zk.word("cons").unwrap();
    let mut of_worker = connections.lines().filter(|line| line.contains(&format!("sid=0x{session:x},")));
    assert!(of_worker.next().is_some_and(|line| line.contains(&granted)), "{granted} in {connections}");
    worker.signal("KILL");
    let begin = now(&near);
    let next = done("the next of x", next).await.unwrap();
    println!("free {:?} after the kill, with a session of {SESSION:?}", now(&near).since(begin));
    waiting(&near, "y", 1).await;
    of_near.release().await.unwrap();
    done("the one behind it", last).await.unwrap().release().await.unwrap();
    next.release().await.unwrap();
    harness.is_empty("x").await;
    harness.is_empty("y").await;
}

/// A3. A store that is closed or dropped ends its session: all its nodes are deleted at once, of holds, of waiters and
/// of detached guards.
#[tokio::test(flavor = "multi_thread")]
async fn holds_are_free_when_their_store_is_closed_or_dropped() {
    let harness = Harness::start();
    let near = harness.client().await;
    for close in [true, false] {
        // The session would expire much later than the test waits.
        let mine = harness.lasting().await;
        let of_near = near.lock("y").acquire().await.unwrap();
        let held: Vec<_> = templates(&mine, "closed");
        for (_, lock) in &held {
            lock.acquire().await.unwrap().detach();
        }
        drop(held);
        let waiter = wait_for(mine.lock("y"));
        waiting(&near, "y", 1).await;
        if close {
            mine.close().await.unwrap();
        }
        waiter.abort();
        drop(waiter.await);
        drop(mine);
        for (name, lock) in heirs(&near, "closed") {
            within(&name, lock.acquire()).await.unwrap().release().await.unwrap();
            harness.is_empty(&name).await;
        }
        of_near.release().await.unwrap();
        harness.is_empty("y").await;
    }
}

/// E13. A closed client has no session, even though it is not dropped: nothing stays on the servers until a timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_client_has_no_session() {
    let harness = Harness::start();
    let mine = harness.lasting().await;
    let guard = mine.lock("x").acquire().await.unwrap();
    assert_eq!(harness.zk.sessions().unwrap().len(), 1);
    mine.close().await.unwrap();
    assert!(!guard.is_held());
    until("its session is over", || async { harness.zk.sessions().unwrap().is_empty() }).await;
    assert!(mine.show("x").await.is_err(), "it is closed");
    harness.is_empty("x").await;
}

/// E13. An unpolled watch does not begin another session after the close.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_client_has_no_session_though_somebody_watches() {
    let harness = Harness::start();
    let network = harness.network();
    let mine = network.client(FAR).await;
    let mut observer = mine.election("x").observe().unwrap();
    assert!(within("nobody leads", observer.next()).await.unwrap().is_none());
    let connections = network.proxy.accepted();
    mine.close().await.unwrap();
    until("its session is over", || async { network.proxy.counts().iter().all(|c| !c.is_open) }).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(network.proxy.accepted(), connections, "it is there again");
    until("no session is left", || async { harness.zk.sessions().unwrap().is_empty() }).await;
    assert!(observer.next().await.is_err(), "it is closed");
}

/// E13. The session of two clients on one store ends with the last one that uses it: closing one keeps the holds of the
/// other.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_lasts_as_long_as_somebody_holds_by_it() {
    let harness = Harness::start();
    let store = open(options(harness.zk.port(), FAR)).await;
    let [one, other] = [(); 2].map(|()| Client::with(store.clone(), Settings::default()));
    let guard = other.lock("x").acquire().await.unwrap();
    one.lock("y").acquire().await.unwrap().release().await.unwrap();
    let session = harness.owners("/x")[0];
    one.close().await.unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert!(guard.is_held());
    assert_eq!(harness.owners("/x"), [session]);
    guard.release().await.unwrap();
    other.lock("x").acquire().await.unwrap().release().await.unwrap();
    other.close().await.unwrap();
    until("its session is over", || async { harness.zk.sessions().unwrap().is_empty() }).await;
    // A later acquire begins another session.
    let later = Client::with(store, Settings::default());
    within("a third", later.lock("x").acquire()).await.unwrap().release().await.unwrap();
}

/// Polls an acquire at most `times` times, whenever it is woken, and drops it. Returns whether it was ready before.
async fn polled(times: usize, lock: &Lock, patience: Duration) -> bool {
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
    tokio::time::timeout(patience, polls).await.unwrap_or(false)
}

/// A5. An acquire that is dropped after any number of polls leaves no node, whether the name is free or it waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_dropped_after_any_poll_leaves_nothing() {
    let harness = Harness::start();
    let (mine, near) = (harness.client().await, harness.client().await);
    for (name, lock) in templates(&mine, "polled") {
        let mut times = 1;
        while !polled(times, &lock, PATIENCE).await {
            times += 1;
            assert!(times < 50, "{name} is never granted");
        }
        harness.is_empty(&name).await;
        let heir = heirs(&near, "polled").into_iter().find(|(n, _)| *n == name).unwrap().1;
        let held = heir.acquire().await.unwrap();
        for times in 1..8 {
            // A waiting acquire is not woken any more.
            assert!(!polled(times, &lock, A_WHILE / 3).await, "{name}");
        }
        until("nobody waits", || async {
            near.show(&name).await.unwrap().is_some_and(|seen| seen.waiters.is_empty())
        })
        .await;
        held.release().await.unwrap();
        harness.is_empty(&name).await;
    }
    // All in one session, which has not ended.
    until("and no watch", || async { harness.zk.watches().unwrap() == 0 }).await;
}
