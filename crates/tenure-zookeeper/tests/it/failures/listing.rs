//! Lists of names: in order, at a cost that depends on the limit, and complete even if some names cannot be read.

use tenure_zookeeper::Login;
use testbed::{FAR, ZkMode};

use super::harness::{Harness, LONG, client, options};

/// How many heartbeats may have been sent meanwhile.
const SIGNS: u64 = 20;

/// E11. The cost of a list depends on its limit, not on the number of names.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_costs_what_was_asked_for() {
    const N: usize = 250;
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client(FAR).await;
    let mut raw = harness.raw();
    let mut held = |names: std::ops::Range<usize>| {
        for n in names {
            let path = format!("/name-{n:04}");
            raw.create(&path, b"", ZkMode::Container).unwrap();
            let stem = format!("{path}/_c_00000000-0000-4000-8000-000000000000-lock-");
            raw.create(&stem, b"", ZkMode::EphemeralSequential).unwrap();
        }
    };
    let requests = || network.proxy.counts().iter().map(|counts| counts.commands).sum::<u64>();
    let cost = async |limit: usize| {
        let before = requests();
        let found = client.list("", limit).await.unwrap();
        let names: Vec<_> = found.iter().map(|seen| seen.name.as_str()).collect();
        assert_eq!(names, (0..limit).map(|n| format!("name-{n:04}")).collect::<Vec<_>>());
        requests() - before
    };
    held(0..N);
    let of_few = cost(1).await;
    held(N..4 * N);
    let of_many = cost(1).await;
    println!("one of {N} names: {of_few} requests, one of {}: {of_many}", 4 * N);
    assert!(of_many <= of_few + SIGNS);
    let (some, more) = (cost(50).await, cost(200).await);
    println!("50 names: {some} requests, 200 names: {more}");
    assert!(more <= 4 * some + SIGNS);
}

/// E11. A list is in the order of the names, whatever the limit; folders are not names.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_in_order_however_short() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut names = ["b", "a/x/y", "a", "a-b/z", "a b", "a/x", "a.", "a/", "c/1/2/3", "~a", "鍵/a"];
    let mut held = Vec::new();
    for name in names {
        held.push(client.lock(name).acquire().await.unwrap());
    }
    names.sort_unstable();
    for prefix in ["", "a", "a/", "a/x", "c/1", "nothing"] {
        let all: Vec<_> = names.iter().filter(|name| name.starts_with(prefix)).copied().collect();
        for limit in 0..=all.len() + 1 {
            let found = client.list(prefix, limit).await.unwrap();
            let found: Vec<_> = found.iter().map(|seen| seen.name.as_str()).collect();
            assert_eq!(found, all[..limit.min(all.len())], "{limit} of {prefix:?}");
        }
    }
}

/// E11. A name that cannot be read is listed with the reason, and all others are shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_cannot_be_read_does_not_hide_the_others() {
    let harness = Harness::start();
    let mut as_anna = options(harness.zk.port(), LONG);
    as_anna.login = Some(Login::new("anna", "secret"));
    let (anna, everybody) = (client(as_anna).await, harness.client().await);
    let _held = (
        everybody.lock("a").acquire().await.unwrap(),
        anna.lock("b").acquire().await.unwrap(),
        everybody.lock("c").acquire().await.unwrap(),
    );
    // Written by another program.
    harness.raw().create("/d", b"", ZkMode::Persistent).unwrap();
    harness.raw().create("/d/~tenure", b"not ours", ZkMode::Persistent).unwrap();
    let found = everybody.list("", 10).await.unwrap();
    let seen: Vec<_> = found.iter().map(|seen| (seen.name.as_str(), seen.holders.len())).collect();
    assert_eq!(seen, [("a", 1), ("b", 0), ("c", 1), ("d", 0)]);
    for (name, says) in [("b", "no right"), ("d", "not written by this library")] {
        let unread = found.iter().find(|s| s.name.as_str() == name).and_then(|s| s.unread.clone()).unwrap();
        println!("{unread}");
        assert!(unread.contains(&format!("/{name}")) && unread.contains(says), "{unread}");
    }
    assert!(found.iter().filter(|seen| seen.unread.is_none()).count() == 2);
    let all = anna.list("", 10).await.unwrap();
    assert!(all.iter().any(|seen| seen.name.as_str() == "b" && seen.holders.len() == 1));
}
