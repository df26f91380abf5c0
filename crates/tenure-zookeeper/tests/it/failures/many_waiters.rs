//! Thousands of waiters, and sequence numbers that wrap around.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::backend::Interest;
use tenure_core::{Backend, HoldId, Kind};
use testbed::{FAR, ZkMode, ZooKeeper, done, until, within};

use super::harness::{Harness, LONG, claim, fence, open, options, wait_for};

const MANY: usize = 1000;

/// How many watches have fired so far, by the server's metrics.
fn fired(zk: &ZooKeeper) -> u64 {
    let measures = zk.measures().unwrap();
    let kinds = ["created", "deleted", "changed", "children"];
    let count = |kind| {
        let name = format!("zk_sum_node_{kind}_watch_count");
        measures
            .get(&name)
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("no {name} in {measures:#?}"))
    };
    kinds.iter().map(count).sum::<f64>() as u64
}

/// E6. A thousand claims wait, in fifty sessions: each release fires one watch, and all are granted in turn.
#[tokio::test(flavor = "multi_thread")]
async fn one_release_fires_one_watch() {
    let harness = Harness::start();
    // A holder of another library: ours would also watch its own node, and that watch would fire too.
    let mut raw = harness.raw();
    raw.create("/x", b"", ZkMode::Container).unwrap();
    let stem = "/x/_c_00000000-0000-4000-8000-000000000000-lock-";
    let held = raw.create(stem, b"", ZkMode::EphemeralSequential).unwrap();
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(harness.lasting().await);
    }
    let (entered, mut entries) = tokio::sync::mpsc::unbounded_channel();
    let waiters: Vec<_> = (0..MANY)
        .map(|n| {
            let (lock, entered) = (clients[n % clients.len()].lock("x").fair(), entered.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                let (go, wait) = tokio::sync::oneshot::channel::<()>();
                entered.send(go).unwrap();
                let _ = wait.await;
                guard.release().await.unwrap();
            })
        })
        .collect();
    until("all of them wait", || async { harness.children("/x").len() == MANY + 1 }).await;
    // Claims of one session wait behind each other; the first of all watches the holder.
    until("they have armed their watches", || async {
        let (armed, watched) = (harness.zk.watches().unwrap(), harness.zk.word("wchp").unwrap());
        armed >= clients.len() as u64 && watched.lines().any(|path| path == held)
    })
    .await;
    let before = fired(&harness.zk);
    raw.delete(&held, None).unwrap();
    let first = within("the first enters", entries.recv()).await.unwrap();
    let woken = fired(&harness.zk) - before;
    println!("one release with {MANY} waiting: {woken} watch fired");
    assert_eq!(woken, 1);
    drop(first);
    for n in 1..MANY {
        drop(within(&format!("number {n} enters"), entries.recv()).await.unwrap());
    }
    for waiter in waiters {
        done("all leave", waiter).await;
    }
    let all = fired(&harness.zk) - before;
    println!("{MANY} releases: {all} watches fired");
    // A holder watches its own node once it has held it for a while.
    assert!(all <= 2 * MANY as u64, "{all}");
    harness.is_empty("x").await;
}

/// E19. Claims that come at once send a create each. Whoever comes while the queue is being read shares the next list of
/// it: for ten thousand, lists of their own would be gigabytes.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_come_at_once_share_their_lists() {
    let harness = Harness::start();
    let network = harness.network();
    let store = open(options(network.proxy.port(), FAR)).await;
    let holder = claim("x", Kind::Lock);
    assert!(fence(&*store, &holder).await.is_some());
    let requests = || network.proxy.counts().iter().map(|counts| counts.commands).sum::<u64>();
    let before = requests();
    let client = tenure_core::ClientId::new();
    let come = (0..MANY as u64).map(async |n| {
        let mut waits = claim("x", Kind::FairLock);
        (waits.id, waits.wait) = (HoldId { client, n: n + 1 }, Some(FAR));
        fence(&*store, &waits).await
    });
    let entered = within("all of them have come", join_all(come)).await;
    assert!(entered.iter().all(Option::is_none), "somebody has got in");
    let sent = requests() - before;
    println!("{MANY} come at once: {sent} requests");
    assert_eq!(harness.children("/x").len(), MANY + 1);
    assert!(sent < MANY as u64 * 3 / 2, "{sent} requests for {MANY}");
}

/// E6. A thousand claims wait on the backend, in one session: a release wakes one of them.
#[tokio::test(flavor = "multi_thread")]
async fn one_release_tells_one_claim() {
    let harness = Harness::start();
    let store = open(options(harness.zk.port(), FAR)).await;
    let holder = claim("x", Kind::Lock);
    assert!(fence(&*store, &holder).await.is_some());
    let client = tenure_core::ClientId::new();
    let mut ears = Vec::new();
    for n in 0..MANY {
        let mut waits = claim("x", Kind::FairLock);
        (waits.id, waits.wait) = (HoldId { client, n: n as u64 + 1 }, Some(FAR));
        let watch = store.watch(&waits.name, Interest::Claim(&waits)).await.unwrap();
        assert!(fence(&*store, &waits).await.is_none());
        ears.push((waits, watch));
    }
    assert_eq!(harness.children("/x").len(), MANY + 1);
    let before = fired(&harness.zk);
    store.release(&holder, 0).await.unwrap();
    let (first, mut watch) = ears.remove(0);
    within("the first is told", watch.signal()).await;
    assert!(fence(&*store, &first).await.is_some(), "and granted");
    let told = fired(&harness.zk) - before;
    println!("one release with {MANY} claims in one session: {told} watch fired");
    assert_eq!(told, 1);
    for (_, watch) in &mut ears {
        let signal = watch.signal();
        assert!(tokio::time::timeout(Duration::from_micros(1), signal).await.is_err(), "another was told");
    }
}

/// E8. With five thousand nodes ahead, a claim watches one of them, and is granted when all are gone.
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_ahead_are_waited_for_one_by_one() {
    const AHEAD: usize = 5000;
    let harness = Harness::start();
    let mine = harness.client().await;
    mine.lock("x").acquire().await.unwrap().release().await.unwrap();
    let mut raw = harness.raw();
    let stem = "/x/_c_00000000-0000-4000-8000-000000000000-lock-";
    for _ in 0..AHEAD {
        raw.create(stem, b"", ZkMode::EphemeralSequential).unwrap();
    }
    let watches = harness.zk.watches().unwrap();
    let next = wait_for(mine.lock("x"));
    until("it stands", || async { harness.children("/x").len() == AHEAD + 1 }).await;
    until("it watches one", || async { harness.zk.watches().unwrap() == watches + 1 }).await;
    let show = within("an answer for people", mine.show("x")).await.unwrap().unwrap();
    assert!(show.holders.len() == 1 && show.holders[0].foreign);
    assert!(!next.is_finished());
    raw.close().unwrap();
    done("they are gone", next).await.unwrap().release().await.unwrap();
}

/// E8. After the counter of a folder has wrapped around, the node with the larger number came first.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_kept_where_the_counter_goes_round() {
    let harness = Harness::start();
    let mine: Arc<_> = open(options(harness.zk.port(), LONG)).await;
    let look = tenure_core::Client::with(mine, tenure_core::Settings::default());
    let mut raw = harness.raw();
    raw.create("/x", b"", ZkMode::Persistent).unwrap();
    for sequence in ["-lock--2147483647", "-lock--2147483648", "-lock-2147483647"] {
        raw.create(&format!("/x/_c_00000000-0000-4000-8000-000000000000{sequence}"), b"", ZkMode::Ephemeral)
            .unwrap();
    }
    let seen = look.show("x").await.unwrap().unwrap();
    assert!(seen.holders[0].id.ends_with("-lock-2147483647"), "{seen:?}");
    assert!(seen.waiters[0].id.ends_with("-lock--2147483648"), "{seen:?}");
    assert!(seen.waiters[1].id.ends_with("-lock--2147483647"), "{seen:?}");
    raw.close().unwrap();
    look.lock("x").acquire().await.unwrap().release().await.unwrap();
}
