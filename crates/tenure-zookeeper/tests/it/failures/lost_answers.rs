//! Lost answers to creates and deletes, and watches that fire meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Attempt, Renewal};
use tenure_core::{Backend, HoldId, Kind};
use testbed::{Cut, FAR, Rule, Way, ZkRequest, done, io_cause, until, within};

use super::harness::{
    Harness, LONG, claim, client, fence, heirs, now, open, options, templates, wait_for, waiting,
    without_poll,
};

/// The folders where claims have nodes.
fn folders(name: &str) -> Vec<String> {
    match name.starts_with("permits") {
        true => vec![format!("/{name}/locks/"), format!("/{name}/leases/")],
        false => vec![format!("/{name}/")],
    }
}

/// E3. The node of a create is found again, whether the request or only its answer was lost: there is one node for a
/// lock, and three for three permits. The waiters behind it are granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_without_an_answer_is_found_again() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(LONG).await, harness.client().await);
    for (name, lock) in templates(&away, "made") {
        // The folders exist, so that the lost request is the create of the node.
        lock.acquire().await.unwrap().release().await.unwrap();
        for (folder, cut) in folders(&name)
            .iter()
            .flat_map(|f| [(f.clone(), Cut::AfterRequest), (f.clone(), Cut::BeforeRequest)])
        {
            network.proxy.cut_once_at(ZkRequest::Create, &folder, cut);
            let guard = within(&name, lock.acquire()).await.unwrap();
            assert_eq!(network.proxy.cuts_left(), 0, "{name}: {cut:?}");
            let heir = heirs(&near, "made").into_iter().find(|(n, _)| *n == name).unwrap().1;
            let next = wait_for(heir);
            waiting(&near, &name, 1).await;
            let seen = near.show(&name).await.unwrap().unwrap();
            assert_eq!(seen.holders.len(), 1, "{name}: {cut:?}: {seen:?}");
            assert_eq!(seen.holders[0].fence, guard.fence(), "{name}: {cut:?}");
            assert_eq!(
                seen.holders[0].holds,
                if name.starts_with("permits") { 3 } else { 1 },
                "{name}: {cut:?}"
            );
            guard.release().await.unwrap();
            done(&name, next).await.unwrap().release().await.unwrap();
            harness.is_empty(&name).await;
        }
    }
}

/// E3. An unanswered create of a read under the owner's own write, which is expelled meanwhile: the read node is ahead
/// of the writer that holds by then. It is not granted there, but queues like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_under_a_lost_write_does_not_enter_in_its_place() {
    let harness = Harness::start();
    let network = harness.network();
    let (store, near) = (open(options(network.proxy.port(), FAR)).await, harness.client().await);
    let write = claim("x", Kind::Write);
    assert!(fence(&*store, &write).await.is_some());
    let next = wait_for(near.rwlock("x").write());
    waiting(&near, "x", 1).await;
    let connection = network.proxy.accepted() - 1;
    // It receives neither the loss of its write nor the answer.
    network.proxy.set_for(connection, Way::ToClient, Rule::Swallow);
    assert!(near.rwlock("x").force_release().await.unwrap());
    let next = done("the next writer", next).await.unwrap();
    let mut read = claim("x", Kind::Read { under_write: Some(write.id) });
    read.id = HoldId { n: write.id.n + 1, ..write.id };
    let asked = tokio::spawn({
        let (store, read) = (store.clone(), read.clone());
        async move { store.try_acquire(&read).await }
    });
    let reads = || harness.children("/x").iter().filter(|name| name.contains("__READ__")).count();
    until("its create is executed", || async { reads() == 1 }).await;
    network.proxy.close(connection);
    let error = done("it has no answer", asked).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    io_cause(&error);
    let write = [Arc::new(write)];
    until("it hears of the end of its write", || async {
        matches!(store.renew(&write).await.as_deref(), Ok([Renewal::Gone]))
    })
    .await;
    let again = within("it is asked for again", store.try_acquire(&read)).await.unwrap();
    assert!(matches!(again, Attempt::Busy { .. }), "a reader beside a writer: {again:?}");
    assert!(next.is_held());
    assert_eq!(reads(), 0);
    next.release().await.unwrap();
    assert!(fence(&*store, &read).await.is_some(), "it is free");
    store.release(&read, 0).await.unwrap();
    harness.is_empty("x").await;
}

/// E3. An unanswered create that is given up leaves nothing: its node is searched for after the reconnect, long before
/// the session ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_without_an_answer_given_up_leaves_nothing() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(LONG).await, harness.client().await);
    let kept = away.lock("kept").acquire().await.unwrap();
    for (name, lock) in templates(&away, "given-up") {
        lock.acquire().await.unwrap().release().await.unwrap();
        for folder in folders(&name) {
            network.proxy.cut_once_at(ZkRequest::Create, &folder, Cut::AfterRequest);
            let given_up = wait_for(lock.clone());
            until("it is cut", || async { network.proxy.cuts_left() == 0 }).await;
            network.down();
            given_up.abort();
            network.up();
            harness.is_empty(&name).await;
        }
        let heir = heirs(&near, "given-up").into_iter().find(|(n, _)| *n == name).unwrap().1;
        within(&name, heir.acquire()).await.unwrap().release().await.unwrap();
    }
    // The session is the same, so its end cannot have deleted them.
    kept.release().await.unwrap();
}

/// E3, E5. While there is no connection for longer than the timeout of a request, the nodes of tries and of waiters
/// that were given up are still deleted later, though the session lives on.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_not_deleted_during_an_outage_are_deleted_after_it() {
    const LIMIT: Duration = Duration::from_secs(3);
    let harness = Harness::start();
    let network = harness.network();
    let near = harness.client().await;
    let mut short = options(network.proxy.port(), LONG);
    short.timeout = LIMIT;
    let away = client(short).await;
    let outage = async |request, cut| {
        // Existing connections stay until they are closed.
        network.proxy.refuse();
        network.proxy.cut_once_at(request, "/x/", cut);
        let asked = tokio::spawn({
            let lock = away.lock("x");
            async move { lock.try_acquire().await }
        });
        until("it is cut", || async { network.proxy.cuts_left() == 0 }).await;
        let begin = now(&near);
        until("it takes long", || async { now(&near).since(begin) > LIMIT * 2 }).await;
        asked.abort();
        network.up();
    };
    let held = near.lock("x").acquire().await.unwrap();
    outage(ZkRequest::Delete, Cut::BeforeRequest).await;
    until("only the holder stands there", || async { harness.children("/x").len() == 1 }).await;
    outage(ZkRequest::Create, Cut::AfterRequest).await;
    until("only the holder stands there", || async { harness.children("/x").len() == 1 }).await;
    held.release().await.unwrap();
    harness.is_empty("x").await;
    away.lock("x").acquire().await.unwrap().release().await.unwrap();
}

/// E5. A delete that is lost, or whose answer is lost: the release takes effect, no node stays, and the next claim is
/// granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_an_answer_is_brought_to_its_end() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(LONG).await, harness.client().await);
    for (name, lock) in templates(&away, "released") {
        for cut in [Cut::BeforeRequest, Cut::AfterRequest] {
            let guard = lock.acquire().await.unwrap();
            let heir = heirs(&near, "released").into_iter().find(|(n, _)| *n == name).unwrap().1;
            let next = wait_for(heir);
            waiting(&near, &name, 1).await;
            // The nodes of several permits are deleted in one transaction.
            let delete = if name.starts_with("permits") { ZkRequest::Multi } else { ZkRequest::Delete };
            network.proxy.cut_once_at(delete, &format!("/{name}/"), cut);
            let released = within("released", guard.release()).await;
            assert!(released.is_ok(), "{name}: {cut:?}: {released:?}");
            assert_eq!(network.proxy.cuts_left(), 0, "{name}");
            done(&name, next).await.unwrap().release().await.unwrap();
            harness.is_empty(&name).await;
        }
    }
}

/// E5. A guard that is dropped without a connection is released after the reconnect.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_without_a_connection_is_released_later() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(LONG).await, harness.client().await);
    let held = templates(&away, "dropped");
    let mut guards = Vec::new();
    for (_, lock) in &held {
        guards.push(lock.acquire().await.unwrap());
    }
    let session = harness.owners("/lock-dropped")[0];
    network.down();
    drop(guards);
    network.up();
    for (name, lock) in heirs(&near, "dropped") {
        within(&name, lock.acquire()).await.unwrap().release().await.unwrap();
        harness.is_empty(&name).await;
    }
    assert!(harness.zk.sessions().unwrap().contains(&session), "it was not the end of the session");
}

/// E7. A release while the waiter has no connection: the waiter checks again after the reconnect, without a poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_during_a_cut_is_seen_after_it() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client_with(LONG, without_poll()).await, harness.client().await);
    let mut waiters = Vec::new();
    let held = heirs(&near, "unseen");
    for ((name, mine), (_, theirs)) in held.into_iter().zip(templates(&away, "unseen")) {
        let guard = mine.acquire().await.unwrap();
        let waiter = wait_for(theirs);
        waiting(&near, &name, 1).await;
        waiters.push((name, guard, waiter));
    }
    // Also a waiter on a counter.
    let latch = near.latch("unseen");
    assert!(latch.try_set_count(1).await.unwrap());
    let theirs = away.latch("unseen");
    let watches = harness.zk.watches().unwrap();
    let opened = tokio::spawn(async move { theirs.wait().await });
    until("it watches the number", || async { harness.zk.watches().unwrap() > watches }).await;
    network.down();
    latch.count_down().await.unwrap();
    let mut rest = Vec::new();
    for (name, guard, waiter) in waiters {
        guard.release().await.unwrap();
        rest.push((name, waiter));
    }
    network.up();
    for (name, waiter) in rest {
        let guard = within(&name, waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    within("the latch", opened).await.unwrap().unwrap();
}
