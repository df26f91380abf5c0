//! Several servers: one lags, one is partitioned, one dies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::{Client, Guard, Settings};
use testbed::{Ensemble, FAR, PATIENCE, Proxy, Rule, ZooKeeper, ZooKeeperOptions, done, until, within};

use super::harness::{LONG, SESSION, client, end_of, now, open, options, wait_for, waiting};

async fn at(server: &ZooKeeper) -> Client {
    client(options(server.port(), LONG)).await
}

/// A client of all servers. Requests without an answer are soon repeated, for as long as a test lasts.
async fn at_all(ensemble: &Ensemble, session: Duration) -> Client {
    let mut settings = Settings::default();
    (settings.call_timeout, settings.outage) = (FAR, FAR);
    at_all_with(ensemble, session, settings).await
}

async fn at_all_with(ensemble: &Ensemble, session: Duration, settings: Settings) -> Client {
    let mut options = options(ensemble.servers()[0].port(), session);
    (options.servers, options.timeout) = (ensemble.addresses(), Duration::from_secs(3));
    Client::with(open(options).await, settings)
}

/// E9. A server that was stopped lags behind what was written meanwhile: what is read from it is still not older than
/// the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_behind_decides_nothing_by_what_it_has() {
    let ensemble = Ensemble::start().unwrap();
    let behind = ensemble.followers()[0];
    // The proxy shows which requests were sent.
    let way = Proxy::start_zookeeper(behind.port()).unwrap();
    let (slow, quick) = (client(options(way.port(), LONG)).await, at(ensemble.leader().unwrap()).await);
    let asked_for = || way.counts().iter().map(|counts| counts.commands).sum::<u64>();
    let (latch, seats) = (quick.latch("latch"), quick.counting_semaphore("seats"));
    assert!(seats.try_set(0).await.unwrap());
    for round in 1..=8_u64 {
        behind.stop().unwrap();
        let (theirs, their_seats) = (slow.latch("latch"), slow.counting_semaphore("seats"));
        let held = quick.lock("x").acquire().await.unwrap();
        assert!(latch.try_set_count(round).await.unwrap());
        seats.release(1).await.unwrap();
        // Sent after all of that was written, and answered once the server continues.
        let before = asked_for();
        let asked = tokio::spawn(async move { theirs.count().await.unwrap() });
        let free = tokio::spawn(async move { their_seats.available().await.unwrap() });
        let lock = slow.lock("x");
        let tried = tokio::spawn(async move { lock.try_acquire().await.unwrap().is_some() });
        let shown = slow.clone();
        let shown = tokio::spawn(async move { shown.show("x").await.unwrap() });
        until("all four have asked", || async { asked_for() >= before + 4 }).await;
        behind.resume().unwrap();
        assert_eq!(done("the latch", asked).await, round);
        assert_eq!(done("the seats", free).await, round.cast_signed());
        assert!(!done("the lock", tried).await, "two holders");
        let shown = done("who holds", shown).await.expect("somebody holds");
        assert_eq!(shown.holders[0].fence, held.fence());
        let next = wait_for(slow.lock("x"));
        waiting(&quick, "x", 1).await;
        held.release().await.unwrap();
        done("the next one", next).await.unwrap().release().await.unwrap();
        latch.delete().await.unwrap();
    }
}

/// Checks that in each critical section the one before has ended, or its guard is lost.
#[derive(Default)]
struct Sections {
    inside: Mutex<Option<Arc<Guard>>>,
    last: AtomicU64,
    entered: AtomicU64,
    over: AtomicBool,
}

impl Sections {
    async fn run(self: Arc<Self>, client: Client) {
        while !self.over.load(SeqCst) {
            // Without a leader an acquire may fail.
            let Ok(guard) = client.lock("sections").acquire().await else { continue };
            let guard = Arc::new(guard);
            let before = self.inside.lock().unwrap().replace(guard.clone());
            assert!(!before.is_some_and(|before| before.is_held() && guard.is_held()), "two holders");
            let fence = guard.fence().unwrap().0;
            assert!(self.last.fetch_max(fence, SeqCst) < fence || !guard.is_held(), "fences go back");
            self.entered.fetch_add(1, SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.inside.lock().unwrap().take_if(|inside| Arc::ptr_eq(inside, &guard));
            if let Some(guard) = Arc::into_inner(guard) {
                // The guard may be lost.
                drop(guard.release().await);
            }
        }
    }

    /// Waits until there were some more sections.
    async fn go_on(&self, what: &str) {
        let before = self.entered.load(SeqCst);
        until(what, || async { self.entered.load(SeqCst) > before + 10 }).await;
    }
}

/// E9, E1. A follower and then the leader die and come back while locks are held and waited for: there are never two
/// holders, guards stay held or are lost, and waiters are granted.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_server_is_borne() {
    let ensemble = Ensemble::start().unwrap();
    let clients =
        [at_all(&ensemble, LONG).await, at_all(&ensemble, LONG).await, at_all(&ensemble, LONG).await];
    let sections = Arc::new(Sections::default());
    let tasks: Vec<_> =
        clients.iter().cycle().take(6).map(|c| tokio::spawn(sections.clone().run(c.clone()))).collect();
    sections.go_on("all servers are well").await;
    let follower = ensemble.followers()[0];
    let leader = ensemble.leader().unwrap();
    for (what, server) in [("a follower", follower), ("the leader", leader)] {
        let kept = clients[0].lock("kept").acquire().await.unwrap();
        let next = wait_for(clients[1].lock("kept"));
        waiting(&clients[2], "kept", 1).await;
        server.kill().unwrap();
        ensemble.wait_for_leader(PATIENCE).unwrap();
        sections.go_on(&format!("{what} is dead")).await;
        if kept.is_held() {
            assert!(!next.is_finished() || !kept.is_held(), "two holders");
            println!("{what} died: still held, for {:?}", kept.remaining());
            drop(kept.release().await);
        }
        let next = within("the next one", next).await.unwrap().unwrap();
        next.release().await.unwrap();
        server.restart().unwrap();
        ensemble.wait_until_whole(PATIENCE).unwrap();
        sections.go_on(&format!("{what} is back")).await;
    }
    sections.over.store(true, SeqCst);
    for task in tasks {
        done("no section overlaps another", task).await;
    }
}

/// E9. Without a majority no lock is granted, even if the remaining server is read-only. Holds end by their own clocks
/// before a majority is back that might grant their locks to others.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nobody_gets_in() {
    // The remaining server allows reads.
    let jvm = vec!["-Dreadonlymode.enabled=true".to_owned()];
    let ensemble = Ensemble::start_with(ZooKeeperOptions { jvm, ..ZooKeeperOptions::default() }).unwrap();
    let (mine, other) = (at_all(&ensemble, SESSION).await, at_all(&ensemble, LONG).await);
    let mut settings = Settings::default();
    (settings.call_timeout, settings.outage) = (Duration::from_secs(1), Duration::from_secs(1));
    let hasty = at_all_with(&ensemble, LONG, settings).await;
    let guard = mine.lock("x").acquire().await.unwrap();
    let next = wait_for(other.lock("x"));
    waiting(&mine, "x", 1).await;
    let leader = ensemble.leader().unwrap();
    let follower = ensemble.followers()[0];
    follower.kill().unwrap();
    leader.kill().unwrap();
    within("its own clock", guard.lost()).await;
    assert!(!next.is_finished());
    let left = ensemble.servers().iter().find(|server| server.is_running()).unwrap();
    until("it is read-only", || async { left.mode().is_ok_and(|mode| mode == "read-only") }).await;
    assert!(hasty.lock("y").try_acquire().await.is_err());
    let mut at_left = options(left.port(), LONG);
    at_left.timeout = Duration::from_secs(1);
    assert!(tenure_zookeeper::ZooKeeper::open(at_left).await.is_err(), "no session for reading");
    std::thread::scope(|scope| {
        let starts = [leader, follower].map(|server| scope.spawn(move || server.restart()));
        starts.into_iter().for_each(|start| start.join().unwrap().unwrap());
    });
    ensemble.wait_until_whole(PATIENCE).unwrap();
    within("the next one", next).await.unwrap().unwrap().release().await.unwrap();
    within("the same client", mine.lock("x").acquire()).await.unwrap().release().await.unwrap();
}

/// E9. A server that is partitioned from its leader still answers its clients for a while, though the leader does not
/// receive their heartbeats: their holds end by their own clocks before the leader expires their sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_cut_off_from_its_leader_proves_nothing() {
    // It tolerates a longer silence of its leader than a session timeout.
    let lines = vec!["syncLimit=40".to_owned()];
    let ensemble = Ensemble::start_linked(ZooKeeperOptions { lines, ..ZooKeeperOptions::default() }).unwrap();
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.followers()[0]);
    let (cut_off, near) = (client(options(follower.port(), SESSION)).await, at(leader).await);
    let guard = cut_off.lock("x").acquire().await.unwrap();
    let next = tokio::spawn({
        let near = near.clone();
        async move {
            let guard = near.lock("x").acquire().await.unwrap();
            (now(&near), guard)
        }
    });
    waiting(&near, "x", 1).await;
    // Long enough for several heartbeats.
    let begin = now(&near);
    until("it is proved", || async { now(&near).since(begin) > SESSION / 2 }).await;
    ensemble.link(follower, leader).set_both(Rule::Stall);
    let end = end_of(&cut_off, &guard).await;
    let (entered, next) = done("the next one", next).await;
    assert!(entered > end && !guard.is_held(), "two holders for {:?}", end.since(entered));
    println!("entered {:?} after the end of the one before", entered.since(end));
    ensemble.link(follower, leader).heal();
    next.release().await.unwrap();
    ensemble.wait_until_whole(PATIENCE).unwrap();
    within("the same client", cut_off.lock("x").acquire()).await.unwrap().release().await.unwrap();
}
