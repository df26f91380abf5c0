//! What is not asked, because the answer is certain: lists after a create, a look at the queue after a wait, and a
//! transaction for each of many writes. And what must be asked nevertheless.

use futures_util::future::join_all;
use tenure_core::backend::Released;
use tenure_core::{Backend, ClientId, HoldId, Kind};
use testbed::{FAR, Proxy, ZkClient, ZkMode, done, until, within};

use super::harness::{A_WHILE, Harness, claim, fence, open, options, wait_for};

/// A node as Curator creates it, in the queue of `x`.
const STEM: &str = "/x/_c_00000000-0000-4000-8000-000000000000-lock-";

/// More than the heartbeats of a session in a test: one in five seconds.
const HEARTBEATS: u64 = 40;

fn requests(proxy: &Proxy) -> u64 {
    proxy.counts().iter().map(|counts| counts.commands).sum()
}

fn enter(raw: &mut ZkClient) -> String {
    raw.create(STEM, b"", ZkMode::EphemeralSequential).unwrap()
}

/// E20. A name that nobody else uses costs a create and a delete.
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_of_one_client_is_two_requests() {
    const PAIRS: u64 = 200;
    let harness = Harness::start();
    let network = harness.network();
    let lock = network.client(FAR).await.lock("x");
    let watches = harness.zk.watches().unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(harness.zk.watches().unwrap(), watches + 1, "the folder is watched");
    let before = requests(&network.proxy);
    for _ in 0..PAIRS {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let sent = requests(&network.proxy) - before;
    println!("{PAIRS} pairs: {sent} requests");
    assert!((2 * PAIRS..2 * PAIRS + HEARTBEATS).contains(&sent), "{sent}");
}

/// E20. Somebody who came since the last release is ahead.
#[tokio::test(flavor = "multi_thread")]
async fn who_came_in_between_is_ahead() {
    let harness = Harness::start();
    let (client, mut raw) = (harness.lasting().await, harness.raw());
    let lock = client.lock("x");
    for round in 0..3 {
        for _ in 0..3 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        let other = enter(&mut raw);
        assert!(lock.try_acquire().await.unwrap().is_none(), "round {round}");
        raw.delete(&other, None).unwrap();
        lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
        // Also one that is gone already has used a number.
        let other = enter(&mut raw);
        raw.delete(&other, None).unwrap();
        lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
    }
    harness.is_empty("x").await;
}

/// E21. The folder of a name was deleted and created again, and its numbers have come as far as before: the next number
/// proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_another_folder_proves_nothing() {
    let harness = Harness::start();
    let (client, mut raw) = (harness.lasting().await, harness.raw());
    let lock = client.lock("x");
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    raw.delete("/x", None).unwrap();
    raw.create("/x", b"", ZkMode::Container).unwrap();
    let [first, second, third] = [enter(&mut raw), enter(&mut raw), enter(&mut raw)];
    raw.delete(&first, None).unwrap();
    raw.delete(&second, None).unwrap();
    assert!(third.ends_with("0000000002"), "the last number that the client knows: {third}");
    assert!(lock.try_acquire().await.unwrap().is_none(), "the other one holds it");
    raw.delete(&third, None).unwrap();
    lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}

/// E22. The next in the queue enters when the holder leaves, without a request.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_next_enters_without_a_request() {
    let harness = Harness::start();
    let network = harness.network();
    let (client, mut raw) = (network.client(FAR).await, harness.raw());
    raw.create("/x", b"", ZkMode::Container).unwrap();
    let held = enter(&mut raw);
    let watches = harness.zk.watches().unwrap();
    let next = wait_for(client.lock("x"));
    until("it watches both nodes", || async { harness.zk.watches().unwrap() == watches + 2 }).await;
    let before = requests(&network.proxy);
    raw.delete(&held, None).unwrap();
    let guard = done("it enters", next).await.unwrap();
    let sent = requests(&network.proxy) - before;
    assert!(sent < 2, "{sent} requests, of which one may be a heartbeat");
    // The watch of its own node goes on.
    let own = harness.children("/x").pop().expect("its node");
    raw.delete(&format!("/x/{own}"), None).unwrap();
    within("it is lost", guard.lost()).await;
}

/// E22. The node of a waiter was deleted before that of the holder: somebody else is next.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_lost_its_place_does_not_enter_in_it() {
    let harness = Harness::start();
    let (client, mut raw) = (harness.lasting().await, harness.raw());
    raw.create("/x", b"", ZkMode::Container).unwrap();
    let held = enter(&mut raw);
    let watches = harness.zk.watches().unwrap();
    let waiter = wait_for(client.lock("x"));
    until("it watches both nodes", || async { harness.zk.watches().unwrap() == watches + 2 }).await;
    let own = harness.children("/x").into_iter().find(|name| !held.ends_with(name.as_str())).unwrap();
    let next = enter(&mut raw);
    raw.delete(&format!("/x/{own}"), None).unwrap();
    raw.delete(&held, None).unwrap();
    until("it has queued again", || async { harness.children("/x").len() == 2 }).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiter.is_finished(), "two have the lock");
    raw.delete(&next, None).unwrap();
    done("it enters", waiter).await.unwrap().release().await.unwrap();
}

/// E23. Many writes at the same moment are few transactions. The fence is the transaction of the node nevertheless, and
/// grows with each grant of a name.
#[tokio::test(flavor = "multi_thread")]
async fn many_writes_are_few_transactions() {
    const NAMES: usize = 64;
    const PAIRS: usize = 30;
    let harness = Harness::start();
    let network = harness.network();
    let (client, look) = (network.client(FAR).await, harness.client().await);
    let pairs = async |n: usize| {
        let tasks = (0..NAMES).map(|i| {
            let (lock, look) = (client.lock(format!("x{i}")), look.clone());
            tokio::spawn(async move {
                let mut last = None;
                for turn in 0..n {
                    let guard = lock.acquire().await.unwrap();
                    let fence = guard.fence();
                    assert!(fence > last, "{fence:?} after {last:?}");
                    last = fence;
                    if turn + 1 == n {
                        let seen = look.show(format!("x{i}")).await.unwrap().unwrap();
                        assert_eq!(seen.holders[0].fence, fence);
                    }
                    guard.release().await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            done("all pairs", task).await;
        }
    };
    pairs(3).await;
    let before = requests(&network.proxy);
    pairs(PAIRS).await;
    let sent = requests(&network.proxy) - before;
    println!("{} pairs: {sent} requests", NAMES * PAIRS);
    assert!(sent < (NAMES * PAIRS) as u64, "{sent}");
}

/// E23. One request of a transaction is refused: the others are executed, and each has its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_spoils_no_other() {
    const MANY: u64 = 100;
    let harness = Harness::start();
    let (store, mut raw) = (open(options(harness.zk.port(), FAR)).await, harness.raw());
    let client = ClientId::new();
    let claims: Vec<_> = (0..MANY)
        .map(|n| {
            let mut claim = claim(&format!("x{n}"), Kind::Lock);
            claim.id = HoldId { client, n: n + 1 };
            claim
        })
        .collect();
    for claim in &claims {
        assert!(fence(&*store, claim).await.is_some());
    }
    // Its holder may have noticed before, and then sends nothing for it.
    let gone = harness.children("/x50").pop().unwrap();
    raw.delete(&format!("/x50/{gone}"), None).unwrap();
    let released = within("all answers", join_all(claims.iter().map(|claim| store.release(claim, 0)))).await;
    for (n, released) in released.into_iter().enumerate() {
        let expected = if n == 50 { Released::Gone } else { Released::Freed };
        assert_eq!(released.unwrap(), expected, "{n}");
        assert!(harness.children(&format!("/x{n}")).is_empty(), "{n}");
    }
}
