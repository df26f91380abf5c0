//! A connection that is lost for a while or for good, and a session that the server ends.

use futures_util::future::join_all;
use tenure_core::{Error, Kind, LostReason};
use testbed::{FAR, Rule, Way, ZkClient, done, retry, until, within};

use super::harness::{
    Harness, LONG, SESSION, claim, client, end_of, fence, heirs, now, open, options, templates, wait_for,
    waiting, without_poll,
};

/// E1. Silence for a part of the session timeout: the remaining time of a hold shrinks, and is then renewed; waiters on
/// both sides are granted, all in the same session.
#[tokio::test(flavor = "multi_thread")]
async fn silence_within_a_session_shortens_a_hold_and_no_more() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(LONG).await, harness.client().await);
    let guard = away.lock("x").acquire().await.unwrap();
    let of_near = near.lock("y").acquire().await.unwrap();
    let (to_x, to_y) = (wait_for(near.lock("x")), wait_for(away.lock("y")));
    waiting(&near, "x", 1).await;
    waiting(&near, "y", 1).await;
    let session = harness.owners("/x")[0];
    network.proxy.set_both(Rule::Stall);
    // It is renewed every third of the timeout, and this is less than what is left before that.
    until("it shrinks", || async { guard.remaining() < LONG * 5 / 8 }).await;
    assert!(guard.is_held() && !to_x.is_finished());
    network.proxy.heal();
    until("it is proved again", || async { guard.remaining() > LONG * 13 / 16 }).await;
    assert_eq!((harness.owners("/x")[0], harness.owners("/y")[1]), (session, session));
    guard.release().await.unwrap();
    done("the next of x", to_x).await.unwrap().release().await.unwrap();
    of_near.release().await.unwrap();
    done("the next of y", to_y).await.unwrap().release().await.unwrap();
}

/// E2. Silence for longer than the session: each hold ends by its own clock before the next one is granted, on the same
/// clock. When the network is back, the client works in a new session, and its waiters queue again.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_session_loses_its_holds_before_others_enter() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(SESSION).await, harness.client().await);
    let of_near = near.lock("y").acquire().await.unwrap();
    let mut held = Vec::new();
    for (name, lock) in templates(&away, "silent") {
        held.push((name, lock.acquire().await.unwrap()));
    }
    let to_y = wait_for(away.lock("y"));
    waiting(&near, "y", 1).await;
    let old = harness.owners("/y")[1];
    let next: Vec<_> = heirs(&near, "silent")
        .into_iter()
        .map(|(_, lock)| {
            let near = near.clone();
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                (now(&near), guard)
            })
        })
        .collect();
    for (name, _) in &held {
        waiting(&near, name, 1).await;
    }
    network.proxy.set_both(Rule::Stall);
    let ends = join_all(held.iter().map(|(_, guard)| end_of(&away, guard))).await;
    for (((name, guard), end), next) in held.iter().zip(ends).zip(next) {
        let (entered, new) = done(name, next).await;
        assert!(entered > end, "{name}: two holders for {:?}", end.since(entered));
        assert!(!guard.is_held(), "{name}");
        assert_eq!(guard.lost().await.reason, LostReason::Expired, "{name}");
        assert!(new.fence() > guard.fence(), "{name}");
        println!("{name}: entered {:?} after the end of the one before", entered.since(end));
        new.release().await.unwrap();
    }
    network.proxy.heal();
    until("it waits in a new session", || async { harness.owners("/y").iter().skip(1).any(|s| *s != old) })
        .await;
    for (name, lock) in templates(&away, "silent") {
        within(&name, lock.acquire()).await.unwrap().release().await.unwrap();
    }
    of_near.release().await.unwrap();
    done("the one that waited anew", to_y).await.unwrap().release().await.unwrap();
    harness.is_empty("y").await;
}

/// E16. A server whose answers trickle in byte by byte is left for another one, where the client continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_trickles_is_left_for_another() {
    let harness = Harness::start();
    let networks = [harness.network(), harness.network()];
    let mut both = options(networks[0].proxy.port(), SESSION);
    both.servers.push(format!("127.0.0.1:{}", networks[1].proxy.port()));
    let away = client(both).await;
    away.lock("x").acquire().await.unwrap().release().await.unwrap();
    let used = networks.iter().position(|network| network.proxy.accepted() > 0).unwrap();
    // Each byte comes in time, and no frame does.
    networks[used].proxy.set(Way::ToClient, Rule::Trickle(SESSION / 8));
    until("it goes to the other server", || async { networks[1 - used].proxy.accepted() > 0 }).await;
    let acquire = || async { away.lock("x").acquire().await };
    let taken = retry("it continues there", Error::is_transient, acquire).await;
    taken.release().await.unwrap();
}

/// E2. A session that the server ends: the hold is lost at once, long before its deadline, the waiters queue again, and
/// the client continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_ends_is_noticed_at_once() {
    let harness = Harness::start();
    let (mine, other) = (harness.lasting().await, harness.client().await);
    let guard = mine.lock("x").acquire().await.unwrap();
    let of_other = other.lock("y").acquire().await.unwrap();
    let (to_x, to_y) = (wait_for(other.lock("x")), wait_for(mine.lock("y")));
    waiting(&other, "x", 1).await;
    waiting(&other, "y", 1).await;
    let session = harness.owners("/x")[0];
    harness.zk.expire(session).unwrap();
    within("it is told", guard.lost()).await;
    let next = done("the next of x", to_x).await.unwrap();
    assert!(next.fence() > guard.fence());
    until("it waits anew", || async { harness.owners("/y").get(1).is_some_and(|s| *s != session) }).await;
    of_other.release().await.unwrap();
    let again = done("the next of y", to_y).await.unwrap();
    next.release().await.unwrap();
    within("the same client", mine.lock("x").acquire()).await.unwrap().release().await.unwrap();
    again.release().await.unwrap();
}

/// E2. A watch of the leader survives the end of its session, without a poll.
#[tokio::test(flavor = "multi_thread")]
async fn watches_move_to_the_next_session() {
    let harness = Harness::start();
    let mine = tenure_core::Client::with(open(options(harness.zk.port(), FAR)).await, without_poll());
    let session = harness.zk.sessions().unwrap()[0];
    let mut observer = mine.election("x").observe().unwrap();
    assert!(within("nobody leads", observer.next()).await.unwrap().is_none());
    let next = tokio::spawn(async move { observer.next().await });
    harness.zk.expire(session).unwrap();
    let other = harness.client().await;
    until("it watches in another session", || async { harness.zk.watches().unwrap() == 1 }).await;
    let leader = other.election("x").campaign().await.unwrap();
    let seen = done("it hears who leads", next).await.unwrap();
    assert_eq!(seen.unwrap().term, leader.fence().unwrap());
    leader.release().await.unwrap();
}

/// E4. Only the servers decide that a session is over. One that outlived a long silence is resumed: what it held is
/// lost by then and is released, and its waiters keep their positions. Here another connection keeps it alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_outlived_the_silence_is_taken_up_again() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(SESSION).await, harness.client().await);
    let guard = away.lock("x").acquire().await.unwrap();
    let of_near = near.lock("y").acquire().await.unwrap();
    let to_y = wait_for(away.lock("y"));
    waiting(&near, "y", 1).await;
    let old = harness.owners("/x")[0];
    network.down();
    // Anyone with its id and password can resume the session.
    let kept = ZkClient::attach(harness.zk.port(), old, FAR).unwrap();
    let begin = now(&near);
    within("it ends by its own clock", guard.lost()).await;
    until("more than a session passes", || async { now(&near).since(begin) > SESSION * 5 / 4 }).await;
    assert_eq!(harness.owners("/x"), [old], "it lives");
    network.up();
    // The server closes the old connection of a session that has moved.
    done("what was lost is free", wait_for(near.lock("x"))).await.unwrap().release().await.unwrap();
    drop(kept);
    assert_eq!(harness.owners("/y")[1..], [old]);
    of_near.release().await.unwrap();
    done("the next", to_y).await.unwrap().release().await.unwrap();
}

/// E4, L10. A claim that is repeated on the backend in a new session creates a node there, and the answer is about that
/// node.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_repeated_in_a_new_session_has_a_new_node() {
    let harness = Harness::start();
    let network = harness.network();
    let store = open(options(network.proxy.port(), LONG)).await;
    let claim = claim("x", Kind::Lock);
    let first = fence(&*store, &claim).await.unwrap();
    let old = harness.owners("/x")[0];
    harness.zk.expire(old).unwrap();
    until("another grant", || async { fence(&*store, &claim).await.is_some_and(|second| second > first) })
        .await;
    let owners = harness.owners("/x");
    assert!(owners.len() == 1 && owners[0] != old, "{owners:?}");
}

/// E1, E4. A hold that has ended by its own clock stays lost even if its session lives: its node is deleted, and the
/// next claim is granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_has_ended_is_freed_although_its_session_goes_on() {
    let harness = Harness::start();
    let network = harness.network();
    let (away, near) = (network.client(SESSION).await, harness.client().await);
    let guard = away.lock("x").acquire().await.unwrap();
    let to_x = wait_for(near.lock("x"));
    waiting(&near, "x", 1).await;
    let session = harness.owners("/x")[0];
    network.down();
    let kept = ZkClient::attach(harness.zk.port(), session, FAR).unwrap();
    let lost = within("it ends by its own clock", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    network.up();
    let next = done("the next one", to_x).await.unwrap();
    assert!(!guard.is_held());
    next.release().await.unwrap();
    harness.is_empty("x").await;
    drop(kept);
}
