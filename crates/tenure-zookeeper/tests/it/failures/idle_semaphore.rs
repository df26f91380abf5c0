//! E18. Semaphores that nobody has used for a day. Their age is written into the node, where clients look for it.

use serde_json::Value;
use testbed::{FAR, within};

use super::harness::{Harness, client, options};

fn stored(harness: &Harness, name: &str) -> Option<Value> {
    let mut raw = harness.raw();
    let node = match raw.get(&format!("/{name}/~tenure")) {
        Err(e) if e.reply() == Some("NoNode") => None,
        node => Some(node.expect("an answer").0),
    };
    raw.close().expect("closed");
    node.map(|data| serde_json::from_slice(&data).expect("JSON"))
}

/// Makes it look as if nobody had used it since 1970.
fn age(harness: &Harness, name: &str) {
    let mut ledger = stored(harness, name).expect("its size is stored");
    assert!(ledger["idle"]["at"].as_u64() > Some(1), "{ledger}");
    ledger["idle"]["at"] = 1.into();
    let mut raw = harness.raw();
    raw.set(&format!("/{name}/~tenure"), &serde_json::to_vec(&ledger).unwrap(), None).unwrap();
    raw.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_the_next_claim_applies() {
    let harness = Harness::start();
    let client = client(options(harness.zk.port(), FAR)).await;
    client.semaphore("x", 2).acquire().await.unwrap().release().await.unwrap();
    let first = stored(&harness, "x");
    // Used again within the hour: that is not worth a write.
    client.semaphore("x", 5).acquire().await.unwrap().release().await.unwrap();
    assert_eq!((stored(&harness, "x"), &first.as_ref().unwrap()["size"]), (first.clone(), &2.into()));
    age(&harness, "x");
    let all = within("all of five", client.semaphore("x", 5).acquire_many(5)).await.unwrap();
    let ledger = stored(&harness, "x").unwrap();
    assert!(ledger["size"] == 5 && ledger["idle"]["at"].as_u64() > Some(1), "{ledger}");
    all.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_nothing_behind_once_somebody_lists_it() {
    let harness = Harness::start();
    let client = client(options(harness.zk.port(), FAR)).await;
    for name in ["x", "y"] {
        client.semaphore(name, 2).acquire().await.unwrap().release().await.unwrap();
    }
    client.semaphore("set", 2).resize(3).await.unwrap();
    assert!(stored(&harness, "set").unwrap()["idle"].is_null(), "a size that was set has no end");
    age(&harness, "x");
    let known = client.list_all("", 10).await.unwrap();
    let known: Vec<_> = known.iter().map(|seen| (seen.name.as_str(), seen.size)).collect();
    assert_eq!(known, [("set", Some(3)), ("y", Some(2))]);
    assert_eq!(stored(&harness, "x"), None);
    age(&harness, "y");
    assert_eq!(client.show("y").await.unwrap(), None);
    assert_eq!(stored(&harness, "y"), None);
}

/// Permits in use are nodes, which the size does not know of.
#[tokio::test(flavor = "multi_thread")]
async fn one_with_permits_in_use_keeps_its_size() {
    let harness = Harness::start();
    let client = client(options(harness.zk.port(), FAR)).await;
    let held = client.semaphore("x", 2).acquire().await.unwrap();
    age(&harness, "x");
    let seen = client.show("x").await.unwrap().expect("it is held");
    assert_eq!((seen.size, seen.holders.len()), (Some(2), 1));
    let of_five = client.semaphore("x", 5);
    // An operation on another number of that name is refused, and forgets nothing.
    assert!(client.latch("x").count_down().await.is_err());
    let second = of_five.acquire().await.unwrap();
    assert!(of_five.try_acquire().await.unwrap().is_none(), "the size is two");
    let ledger = stored(&harness, "x").unwrap();
    assert!(ledger["size"] == 2 && ledger["idle"]["at"].as_u64() > Some(1), "{ledger}");
    held.release().await.unwrap();
    second.release().await.unwrap();
}
