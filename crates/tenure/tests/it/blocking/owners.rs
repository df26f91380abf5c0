//! The thread is the owner.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tenure::Owner;
use tenure::blocking::Client;
use testbed::wait_until_true;
use tokio::runtime::Builder;
use tokio::task::block_in_place;

use super::harness::{elsewhere, is_free, on_each, within};

#[test]
fn a_thread_enters_again() {
    on_each(|store| {
        let client = store.client();
        let lock = client.lock("x");
        let outer = lock.acquire().unwrap();
        let inner = lock.try_acquire().unwrap().expect("the same thread");
        assert_eq!((inner.reentry_count(), inner.fence(), inner.id()), (2, outer.fence(), outer.id()));
        assert_eq!(lock.holders().unwrap().len(), 1);
        // In the order of Java: lock, lock, unlock, unlock.
        inner.release().unwrap();
        assert!(outer.is_held() && !is_free(&client, "x"));
        outer.release().unwrap();
        assert!(is_free(&client, "x"));
    });
}

#[test]
fn one_that_waits_is_let_in_by_the_last_release() {
    on_each(|store| {
        let lock = store.client().lock("x");
        let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
        let other = lock.clone();
        let waits = thread::spawn(move || other.acquire().map(|g| g.fence()).unwrap());
        wait_until_true("it waits", || !lock.waiters().unwrap().is_empty());
        inner.release().unwrap();
        assert!(!waits.is_finished() && outer.is_held());
        let before = outer.fence();
        outer.release().unwrap();
        wait_until_true("it is let in", || waits.is_finished());
        assert!(waits.join().unwrap() > before);
    });
}

#[test]
fn threads_exclude_each_other() {
    on_each(|store| {
        let client = store.client();
        let number = Arc::new(AtomicU64::new(0));
        let fences = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (lock, number, fences) = (client.lock("x"), number.clone(), fences.clone());
                thread::spawn(move || {
                    for _ in 0..25 {
                        let guard = lock.acquire().unwrap();
                        let seen = number.load(Relaxed);
                        thread::yield_now();
                        number.store(seen + 1, Relaxed);
                        fences.lock().unwrap().push(guard.fence().unwrap());
                        guard.release().unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(number.load(Relaxed), 200);
        assert!(fences.lock().unwrap().is_sorted_by(|a, b| a < b));
    });
}

/// Systems give the id of a thread that has ended to the next one.
#[test]
fn a_later_thread_inherits_nothing() {
    on_each(|store| {
        let client = store.client();
        let lock = client.lock("x");
        elsewhere(move || std::mem::forget(lock.acquire().unwrap()));
        for _ in 0..50 {
            assert!(!is_free(&client, "x"));
        }
        assert!(client.lock("x").force_release().unwrap());
        assert!(is_free(&client, "x"));
    });
}

/// One thread runs several jobs in turn, each with a guard that ended in time.
#[test]
fn jobs_on_one_thread_of_a_pool() {
    on_each(|store| {
        let client = store.client();
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        for _ in 0..3 {
            let lock = client.lock("x");
            let job = runtime.spawn_blocking(move || {
                let guard = lock.acquire().unwrap();
                assert_eq!(guard.reentry_count(), 1);
            });
            runtime.block_on(job).unwrap();
        }
        assert!(is_free(&client, "x"));
    });
}

#[test]
fn two_clients_exclude_each_other_in_one_thread() {
    on_each(|store| {
        let (one, other) = (store.client(), store.client());
        let held = one.lock("x").acquire().unwrap();
        assert!(other.lock("x").try_acquire().unwrap().is_none());
        held.release().unwrap();
        other.lock("x").acquire().unwrap().release().unwrap();
    });
}

#[test]
fn an_owner_by_name_is_not_the_thread() {
    on_each(|store| {
        let (client, team) = (store.client(), Owner::new());
        let ours = client.lock("x").owner(&team);
        let outer = ours.acquire().unwrap();
        assert!(client.lock("x").try_acquire().unwrap().is_none(), "this thread is somebody else");
        assert_eq!(elsewhere(move || ours.acquire().unwrap().reentry_count()), 2);
        outer.release().unwrap();
        assert!(is_free(&client, "x"));
    });
}

#[test]
fn tasks_and_threads_exclude_each_other() {
    on_each(|store| {
        let threads = store.client();
        let tasks = threads.async_client().clone();
        let runtime = Builder::new_current_thread().build().unwrap();
        let held = threads.lock("x").acquire().unwrap();
        // Also when the task runs on the very thread that holds it, and is somebody by name.
        runtime.block_on(Owner::new().scope(async {
            assert!(tasks.lock("x").try_acquire().await.unwrap().is_none());
        }));
        held.release().unwrap();
        let held = runtime.block_on(tasks.lock("x").acquire()).unwrap();
        assert!(threads.lock("x").try_acquire_for(Duration::from_millis(20)).unwrap().is_none());
        runtime.block_on(held.release()).unwrap();
        assert_eq!(Client::from(tasks).id(), threads.id());
        assert!(is_free(&threads, "x"));
    });
}

#[test]
fn several_locks_nest_too() {
    on_each(|store| {
        let client = store.client();
        let both = tenure::blocking::multi([client.lock("a"), client.lock("b")]);
        let outer = client.lock("a").acquire().unwrap();
        let all = both.try_acquire().unwrap().expect("a is entered again");
        let again = both.acquire().unwrap();
        let other = both.clone();
        assert!(elsewhere(move || other.try_acquire().unwrap().is_none()));
        again.release().unwrap();
        all.release().unwrap();
        assert!(is_free(&client, "b") && !is_free(&client, "a"));
        outer.release().unwrap();
    });
}

#[test]
fn a_scope_of_a_task_does_not_reach_the_thread() {
    on_each(|store| {
        let client = store.client();
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (threads, tasks) = (client.clone(), client.async_client().clone());
        let task = runtime.spawn(async move {
            let inside = async {
                let held = tasks.lock("x").acquire().await.unwrap();
                let entered = block_in_place(|| threads.lock("x").try_acquire().unwrap().is_some());
                held.release().await.unwrap();
                entered
            };
            Owner::new().scope(inside).await
        });
        let entered = within("the task", move || runtime.block_on(task).unwrap());
        assert!(!entered, "the thread is another owner");
    });
}
