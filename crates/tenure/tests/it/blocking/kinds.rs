//! Every kind, and every option, arrives where it should.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tenure::blocking::multi;
use tenure::{Durability, Error, Family, Level};
use testbed::{PATIENCE, wait_until_true};

use super::harness::{elsewhere, is_free, on_each};

const LIMIT: Duration = Duration::from_millis(30);

#[test]
fn options_of_a_lock() {
    on_each(|store| {
        let client = store.client();
        let lock = client.lock("x").fair().note("nightly").lease(Duration::from_secs(20));
        let lock = lock.durability(Durability::Master);
        assert_eq!((lock.family(), lock.name().unwrap().as_str()), (Family::Fair, "x"));
        let guard = lock.acquire().unwrap();
        let holder = lock.holder().unwrap().unwrap();
        assert_eq!(holder.note.as_deref(), Some("nightly"));
        assert!(holder.left.unwrap() <= Duration::from_secs(20));
        assert_eq!((guard.name().as_str(), holder.fence), ("x", guard.fence()));
        assert!(lock.renew_by(guard.id()).unwrap());
        assert!(lock.is_locked().unwrap());
        guard.release().unwrap();
        assert!(matches!(lock.token("word").acquire(), Err(Error::Unsupported { .. })));
    });
}

#[test]
fn a_fair_lock_serves_in_order() {
    on_each(|store| {
        let lock = store.client().lock("x").fair();
        let held = lock.acquire().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for n in 0..4 {
            let (other, order) = (lock.clone(), order.clone());
            threads.push(thread::spawn(move || {
                let guard = other.acquire().unwrap();
                order.lock().unwrap().push(n);
                guard.release().unwrap();
            }));
            wait_until_true("it has its place", || lock.waiters().unwrap().len() == n + 1);
        }
        held.release().unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    });
}

#[test]
fn a_read_write_lock() {
    on_each(|store| {
        let stock = store.client().rwlock("x");
        let readers = (stock.read().acquire().unwrap(), stock.read().acquire().unwrap());
        assert_eq!(readers.1.reentry_count(), 2);
        let other = stock.clone();
        assert!(elsewhere(move || {
            other.read().try_acquire().unwrap().is_some() && other.write().try_acquire().unwrap().is_none()
        }));
        assert!(
            matches!(stock.write().acquire(), Err(Error::Config(_))),
            "a reader does not become a writer"
        );
        drop(readers);
        let writer = stock.write().acquire().unwrap();
        let under = stock.read().acquire().unwrap();
        assert_eq!(stock.holders().unwrap().len(), 2);
        writer.release().unwrap();
        assert!(under.is_held() && stock.is_locked().unwrap() && stock.holder().unwrap().is_some());
        assert!(stock.waiters().unwrap().is_empty());
        assert!(stock.force_release().unwrap());
        assert!(!stock.is_locked().unwrap());
    });
}

#[test]
fn a_semaphore() {
    on_each(|store| {
        let permits = store.client().semaphore("x", 4);
        let one = permits.acquire().unwrap();
        let two = permits.acquire_many(2).unwrap();
        let last = permits.try_acquire().unwrap().expect("a permit is not entered again");
        assert!(permits.try_acquire_for(LIMIT).unwrap().is_none());
        assert!(permits.try_acquire_many(2).unwrap().is_none());
        assert_eq!((permits.available().unwrap(), permits.holders().unwrap().len()), (0, 3));
        assert!(permits.is_locked().unwrap() && permits.holder().unwrap().is_some());
        assert!(permits.renew_by(two.id(), Duration::from_secs(60)).unwrap());
        assert!(permits.release_by(two.id()).unwrap());
        assert_eq!(permits.available().unwrap(), 2);
        permits.resize(5).unwrap();
        assert_eq!(permits.available().unwrap(), 3);
        assert!(permits.forget_size().unwrap());
        let noted = permits.permits(1).note("mine").acquire().unwrap();
        assert!(permits.holders().unwrap().iter().any(|h| h.note.as_deref() == Some("mine")));
        noted.release().unwrap();
        one.release().unwrap();
        wait_until_true("nobody waits", || permits.waiters().unwrap().is_empty());
        assert!(permits.force_release().unwrap());
        assert!(last.release().unwrap_err().is_lost());
    });
}

#[test]
fn a_counting_semaphore() {
    on_each(|store| {
        let seats = store.client().counting_semaphore("x");
        assert!(seats.try_set(3).unwrap() && !seats.try_set(9).unwrap());
        seats.acquire(2).unwrap();
        assert!(seats.try_acquire(1).unwrap() && !seats.try_acquire(1).unwrap());
        assert!(!seats.try_acquire_for(1, LIMIT).unwrap());
        let other = seats.clone();
        let waits = thread::spawn(move || other.acquire(2));
        seats.release(2).unwrap();
        wait_until_true("it is served", || waits.is_finished());
        waits.join().unwrap().unwrap();
        seats.add(-1).unwrap();
        assert_eq!(seats.available().unwrap(), -1);
        seats.add(6).unwrap();
        assert_eq!(seats.drain().unwrap(), 5);
        assert!(seats.delete().unwrap() && !seats.delete().unwrap());
    });
}

#[test]
fn a_latch() {
    on_each(|store| {
        let latch = store.client().latch("x");
        assert!(latch.try_wait_for(LIMIT).unwrap(), "one that is absent is open");
        assert!(latch.try_set_count(2).unwrap());
        assert!(!latch.try_wait_for(LIMIT).unwrap());
        let other = latch.clone();
        let waits = thread::spawn(move || other.wait());
        latch.count_down().unwrap();
        assert_eq!(latch.count().unwrap(), 1);
        assert!(!waits.is_finished());
        latch.count_down().unwrap();
        wait_until_true("it opens", || waits.is_finished());
        waits.join().unwrap().unwrap();
        assert!(!latch.delete().unwrap());
    });
}

#[test]
fn an_election() {
    on_each(|store| {
        let election = store.client().election("x").note("here").max_hold(Duration::from_secs(60));
        let election = election.durability(Durability::Master).lease(Duration::from_secs(30));
        let mut observer = election.observe().unwrap();
        assert_eq!(observer.next().unwrap(), None);
        assert_eq!(observer.next_for(LIMIT).unwrap(), None, "nothing changed");
        let leads = election.campaign().unwrap();
        let seen = observer.next_for(PATIENCE).unwrap().expect("a change").expect("a leader");
        assert_eq!((Some(seen.term), seen.note.as_deref()), (leads.fence(), Some("here")));
        let again = election.try_campaign().unwrap().expect("the same thread");
        assert_eq!(again.fence(), leads.fence());
        let other = election.clone();
        assert!(elsewhere(move || {
            other.try_campaign().unwrap().is_none() && other.try_campaign_for(LIMIT).unwrap().is_none()
        }));
        assert_eq!(election.leader().unwrap(), Some(seen));
        again.release().unwrap();
        leads.release().unwrap();
        assert_eq!(observer.next().unwrap(), None, "nobody leads");
    });
}

#[test]
fn several_locks() {
    on_each(|store| {
        let (client, other) = (store.client(), store.client());
        let all = multi([client.lock("a"), other.lock("b"), client.semaphore("c", 1).permits(1)]);
        let guard = all.acquire().unwrap();
        let names: Vec<_> = guard.fences().iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(guard.is_held() && guard.remaining() > Duration::from_secs(5));
        assert_eq!(guard.lost_for(LIMIT), None);
        let rival = all.clone();
        assert!(elsewhere(move || rival.try_acquire_for(LIMIT).unwrap().is_none()));
        other.close().unwrap();
        assert_eq!(guard.lost().name.as_str(), "b");
        assert!(guard.release().unwrap_err().is_lost());
        assert!(is_free(&client, "a"));
    });
}

#[test]
fn a_client_sees_holders_and_waiters() {
    on_each(|store| {
        let client = store.client();
        let guards: Vec<_> = ["p/a", "p/b", "q"].map(|n| client.lock(n).acquire().unwrap()).into();
        let names: Vec<_> = client.list("p/", 10).unwrap().iter().map(|s| s.name.to_string()).collect();
        assert_eq!(names, ["p/a", "p/b"]);
        assert_eq!(client.list("", 1).unwrap().len(), 1);
        assert_eq!(client.show("q").unwrap().expect("in use").holders.len(), 1);
        assert!(client.show("r").unwrap().is_none());
        assert!(client.diagnose().unwrap().iter().all(|f| f.level < Level::Error));
        assert_eq!(client.settings().lease, Duration::from_secs(30));
        assert_eq!(client.backend().info().scheme, store.backend.info().scheme);
        drop(guards);
    });
}
