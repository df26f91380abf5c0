//! Counters that many clients change at once, and data that is too large for a server.

use futures_util::future::try_join_all;
use tenure_core::backend::{CountOp, Counter};
use tenure_core::{Backend, ClientId, Error, Name, OpId};
use testbed::{FAR, within};

use super::harness::{Harness, open, options};

/// How many heartbeats may have been sent meanwhile.
const SIGNS: u64 = 20;

/// E15. The cost of the changes of one process is linear in their number: they do not make each other retry.
#[tokio::test(flavor = "multi_thread")]
async fn changes_at_once_cost_as_many_requests_as_one_by_one() {
    const N: u32 = 50;
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client(FAR).await;
    let requests = || network.proxy.counts().iter().map(|counts| counts.commands).sum::<u64>();
    let cost = async |name: &str, n: u32| {
        let (seats, latch) = (client.counting_semaphore(name), client.latch(format!("{name}-latch")));
        latch.try_set_count(n.into()).await.unwrap();
        let before = requests();
        let changes = (0..n).map(async |_| {
            seats.release(1).await?;
            latch.count_down().await
        });
        within("all of them", try_join_all(changes)).await.unwrap();
        let cost = requests() - before;
        assert_eq!(seats.available().await.unwrap(), i64::from(n));
        assert_eq!(latch.count().await.unwrap(), 0);
        cost
    };
    let (few, many) = (cost("few", N).await, cost("many", 4 * N).await);
    println!("{N} at once: {few} requests, {} at once: {many}", 4 * N);
    assert!(many <= 4 * few + SIGNS);
}

/// E15. Data that is too large for a server is not sent: the server would close the connection of all holds. Operations
/// in flight are remembered in the node, so a change is refused until there are fewer.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_with_too_much_to_remember_is_not_sent() {
    const NODE: &str = "/seats/~tenure";
    let harness = Harness::start();
    let network = harness.network();
    let store = open(options(network.proxy.port(), FAR)).await;
    let name = Name::new("seats").unwrap();
    let (mine, others) = (ClientId::new(), ClientId::new());
    let change = async |client, n, settled| {
        store.count(&name, Counter::Semaphore, CountOp::Add(1), OpId { client, n, settled }).await
    };
    change(mine, 1, 1).await.unwrap();
    let mut raw = harness.raw();
    let stored = raw.get(NODE).unwrap().0;
    let mut ledger: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    let done = ledger["ops"][0]["done"].as_array_mut().unwrap();
    let (mut another, mut bytes) = (done[0].clone(), stored.len());
    while bytes < 898_000 {
        another["n"] = (done.len() + 1).into();
        bytes += another.to_string().len() + 1;
        done.push(another.clone());
    }
    let last = done.len() as u64;
    raw.set(NODE, &serde_json::to_vec(&ledger).unwrap(), None).unwrap();
    let connections = network.proxy.accepted();
    let refused = async || {
        for n in 1..100 {
            if let Err(error) = change(others, n, 1).await {
                return error;
            }
        }
        panic!("it is never too much");
    };
    let error = within("it is refused", refused()).await;
    println!("{error}");
    let why = "too many changes of it are in flight";
    assert!(matches!(&error, Error::Unavailable { reason, .. } if reason.contains(why)), "{error}");
    change(mine, last + 1, last + 1).await.unwrap();
    change(others, 100, 1).await.unwrap();
    assert_eq!(network.proxy.accepted(), connections, "the connection was closed");
}

/// E15. A note that is too large is refused before it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_no_server_takes_is_refused_before_it_is_sent() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client(FAR).await;
    let held = client.lock("held").acquire().await.unwrap();
    let connections = network.proxy.accepted();
    let long = "x".repeat(1 << 20);
    for lock in [client.lock("x"), client.rwlock("x").read(), client.semaphore("x", 3).permits(2)] {
        let error = within("it is refused", lock.note(long.clone()).acquire()).await.unwrap_err();
        assert!(matches!(&error, Error::Config(why) if why.contains("a long note")), "{error}");
    }
    let note = client.lock("x").note("x".repeat(900_000));
    within("one that fits", note.acquire()).await.unwrap().release().await.unwrap();
    assert_eq!(network.proxy.accepted(), connections, "the connection was closed");
    held.release().await.unwrap();
}
