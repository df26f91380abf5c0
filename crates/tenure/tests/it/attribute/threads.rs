//! Plain functions, which block their thread.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

use tenure::{Client, Error, LostReason, Result, blocking, distributed_lock};

use super::harness::{Room, memory, on_each_store};

#[distributed_lock(key = id, prefix = "thread", client = client)]
fn visit(client: &Client, id: u32, room: &Room) -> Result<()> {
    room.visit_blocking();
    Ok(())
}

#[distributed_lock(key = "thread:1", client = client)]
fn outer(client: &Client, room: &Room) -> Result<Option<tenure::Fence>> {
    let fence = tenure::current().unwrap().fence();
    visit(client, 1, room)?;
    assert_eq!(tenure::current().unwrap().fence(), fence);
    Ok(fence)
}

on_each_store!(threads_exclude_each_other_and_re_enter);

async fn threads_exclude_each_other_and_re_enter(client: Client) {
    let (room, start) = (Room::default(), Arc::new(Barrier::new(4)));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (client, room, start) = (client.clone(), room.clone(), start.clone());
            tokio::task::spawn_blocking(move || {
                start.wait();
                for _ in 0..3 {
                    assert!(outer(&client, &room).unwrap().is_some());
                    assert!(tenure::current().is_none());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((room.most(), room.visits()), (1, 12));
}

/// A plain function inside an asynchronous one, and the other way round, are calls inside calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_and_async_calls_enclose_each_other() {
    #[distributed_lock(key = "thread:1", client = client)]
    async fn around(client: &Client, room: &Room) -> Result<()> {
        tokio::task::block_in_place(|| between(client, room))
    }
    #[distributed_lock(key = "thread:1", client = client)]
    fn between(client: &Client, room: &Room) -> Result<()> {
        tokio::runtime::Handle::current().block_on(within(client, room))
    }
    #[distributed_lock(key = "thread:1", client = client)]
    async fn within(client: &Client, room: &Room) -> Result<()> {
        room.visit().await;
        Ok(())
    }
    let (client, room) = (memory().await, Room::default());
    testbed::within("its end", around(&client, &room)).await.unwrap();
    assert_eq!(room.visits(), 1);
}

/// Tasks of a runtime that a body drives itself run on its thread, and are not inside.
#[test]
fn tasks_that_a_body_drives_are_outside() {
    #[distributed_lock(key = "x", client = client)]
    fn drives(client: &blocking::Client) -> Result<Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let other = client.async_client().clone();
        runtime.block_on(async {
            Ok(tokio::spawn(async move { now(&other).await }).await.unwrap().unwrap_err())
        })
    }
    #[distributed_lock(key = "x", wait = "0s", client = client)]
    async fn now(client: &Client) -> Result<()> {
        Ok(())
    }
    let client = blocking::connect("memory:").unwrap();
    assert!(drives(&client).unwrap().is_busy());
}

/// It cannot be stopped, so it runs on, and its caller is told.
#[test]
fn a_plain_function_runs_on_and_says_that_it_lost() {
    #[distributed_lock(key = "x", max_hold = "20ms", client = client)]
    fn stays(client: &blocking::Client, done: &AtomicBool) -> Result<()> {
        while tenure::current().unwrap().is_held() {
            thread::yield_now();
        }
        done.store(true, SeqCst);
        Ok(())
    }
    let (client, done) = (blocking::connect("memory:").unwrap(), AtomicBool::new(false));
    match stays(&client, &done).unwrap_err() {
        Error::Lost(lost) => assert_eq!(lost.reason, LostReason::MaxHold),
        other => panic!("{other}"),
    }
    assert!(done.load(SeqCst));
}

#[test]
fn answers_of_a_plain_function() {
    #[distributed_lock(key = "x", wait = "0s", on_busy = skip(None), client = client)]
    fn option<'a>(client: &blocking::Client, text: &'a mut str) -> Option<&'a mut str> {
        Some(&mut text[1..])
    }
    #[distributed_lock(key = "x", wait = "0s", client = client)]
    fn hidden(client: &blocking::Client, fail: bool) -> Result<impl std::fmt::Display> {
        if fail {
            Err(Error::Closed)?;
        }
        Ok(42)
    }
    #[distributed_lock(key = "x", wait = "0s", on_fail = panic, client = client)]
    fn count(client: &blocking::Client) -> u32 {
        42
    }
    #[distributed_lock(key = "x", condition = lock, client = client)]
    fn maybe(client: &blocking::Client, lock: bool) -> Result<bool> {
        Ok(tenure::current().is_some())
    }
    let client = blocking::connect("memory:").unwrap();
    let mut text = String::from("xyz");
    assert_eq!(option(&client, &mut text).unwrap(), "yz");
    assert_eq!(hidden(&client, false).unwrap().to_string(), "42");
    assert_eq!(hidden(&client, true).map(|_| ()).unwrap_err(), Error::Closed);
    assert_eq!(count(&client), 42);
    assert!(maybe(&client, true).unwrap() && !maybe(&client, false).unwrap());
    let guard = client.lock("x").acquire().unwrap();
    assert!(option(&client, &mut text).is_none());
    assert!(hidden(&client, false).map(|_| ()).unwrap_err().is_busy());
    assert!(thread::scope(|s| s.spawn(|| count(&client)).join()).is_err());
    guard.release().unwrap();
}

#[test]
fn a_panic_in_the_body_releases() {
    #[distributed_lock(key = "x", client = client)]
    fn panics(client: &blocking::Client) -> Result<()> {
        panic!("in the body")
    }
    let client = blocking::connect("memory:").unwrap();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics(&client)));
    assert!(panic.is_err());
    assert!(tenure::current().is_none());
    let guard = client.lock("x").try_acquire_for(testbed::PATIENCE).unwrap();
    guard.expect("it is free").release().unwrap();
}

/// A call on a thread that runs tasks would block all of them.
#[tokio::test]
async fn on_an_async_worker_it_panics_and_says_why() {
    let (client, room) = (memory().await, Room::default());
    let called = std::panic::AssertUnwindSafe(|| visit(&client, 1, &room));
    let panic = std::panic::catch_unwind(called).unwrap_err();
    assert!(panic.downcast_ref::<String>().map_or_else(
        || panic.downcast_ref::<&str>().is_some_and(|text| text.contains("spawn_blocking")),
        |text| text.contains("spawn_blocking")
    ));
    assert_eq!(room.visits(), 0);
    assert!(!client.lock("thread:1").is_locked().await.unwrap());
}
