//! Where it may be called: anywhere but on a thread that runs async tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure::blocking::{Client, Guard, connect};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking, unconstrained};

use super::harness::{Store, elsewhere, is_free, within};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What it says when it panics.
fn refusal<T>(call: impl FnOnce() -> T) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(call)).err()?;
    Some(
        panic
            .downcast_ref::<String>()
            .cloned()
            .unwrap_or_else(|| (*panic.downcast_ref::<&str>().expect("a panic with a message")).to_owned()),
    )
}

fn pair(client: &Client) -> Option<String> {
    refusal(|| client.lock("x").acquire().and_then(Guard::release).unwrap())
}

#[track_caller]
fn is_refused(said: Option<String>) {
    let said = said.expect("it must not block this thread");
    assert!(said.contains("on a thread that runs async tasks"), "{said}");
    assert!(said.contains("spawn_blocking"), "it says what to do: {said}");
}

fn test(work: impl FnOnce(Client) + Send + 'static) {
    within("a context", move || {
        let client = Store::memory().client();
        work(client.clone());
        assert!(is_free(&client, "x"), "nothing is left behind");
    });
}

#[test]
fn a_task_is_refused() {
    test(|client| {
        for runtime in [current_thread(), multi_thread()] {
            let (a, b) = (client.clone(), client.clone());
            let task = runtime.spawn(async move { pair(&a) });
            is_refused(runtime.block_on(task).unwrap());
            // Without the budget by which such a task could be told.
            let task = runtime.spawn(unconstrained(async move { pair(&b) }));
            is_refused(runtime.block_on(task).unwrap());
        }
    });
}

#[test]
fn block_on_is_refused() {
    test(|client| {
        for runtime in [current_thread(), multi_thread()] {
            is_refused(runtime.block_on(async { pair(&client) }));
            is_refused(runtime.handle().block_on(async { pair(&client) }));
        }
    });
}

#[test]
fn a_local_task_is_refused() {
    test(|client| {
        let (local, a) = (LocalSet::new(), client.clone());
        let task = local.spawn_local(async move { pair(&a) });
        is_refused(local.block_on(&current_thread(), task).unwrap());
    });
}

#[test]
fn every_call_is_refused() {
    test(|client| {
        let held = client.lock("y").acquire().unwrap();
        current_thread().block_on(async {
            is_refused(refusal(|| connect("memory:")));
            is_refused(refusal(|| client.lock("x").try_acquire()));
            is_refused(refusal(|| client.latch("x").count()));
            is_refused(refusal(|| client.close()));
            // What asks nobody does not block.
            held.ensure(std::time::Duration::from_secs(1)).unwrap();
            assert_eq!(held.reentry_count(), 1);
            is_refused(refusal(|| held.release()));
        });
        assert!(is_free(&client, "y"), "the guard went with the call");
    });
}

#[test]
fn a_guard_is_dropped_anywhere() {
    test(|client| {
        let held = client.lock("x").acquire().unwrap();
        current_thread().block_on(async { drop(held) });
    });
}

#[test]
fn spawn_blocking_is_served() {
    test(|client| {
        for runtime in [current_thread(), multi_thread()] {
            let client = client.clone();
            let job = runtime.block_on(async { spawn_blocking(move || pair(&client)).await });
            assert_eq!(job.unwrap(), None);
        }
    });
}

#[test]
fn block_in_place_is_served() {
    test(|client| {
        let runtime = multi_thread();
        assert_eq!(runtime.block_on(async { block_in_place(|| pair(&client)) }), None);
        let a = client.clone();
        let task = runtime.spawn(async move {
            let inside = block_in_place(|| pair(&a));
            (inside, pair(&a))
        });
        let (inside, after) = runtime.block_on(task).unwrap();
        assert_eq!(inside, None);
        is_refused(after);
    });
}

#[test]
fn a_thread_that_has_only_entered_a_runtime_is_served() {
    test(|client| {
        // Nobody drives this one.
        let runtime = current_thread();
        let _entered = runtime.enter();
        assert_eq!(pair(&client), None);
    });
}

#[test]
fn before_beside_and_after_a_runtime() {
    test(|client| {
        assert_eq!(pair(&client), None);
        let runtime = multi_thread();
        let theirs = runtime.block_on(async { tenure::connect("memory:").await.unwrap() });
        let ours = Client::new(theirs);
        assert_eq!(pair(&ours), None);
        drop(runtime);
        assert_eq!(pair(&ours), None);
        assert_eq!(pair(&client), None);
    });
}

#[test]
fn a_panic_of_the_store_is_passed_on() {
    test(|_| {
        let store = Store::memory();
        let broken = tenure::testing::Faults::new(store.backend.clone(), |_| panic!("of the store"));
        let client = Client::new(tenure::Client::new(broken));
        assert_eq!(pair(&client).as_deref(), Some("of the store"));
        // Also where the thread belongs to a runtime.
        let job = current_thread().block_on(async { spawn_blocking(move || pair(&client)).await });
        assert_eq!(job.unwrap().as_deref(), Some("of the store"));
    });
}

#[test]
fn while_a_thread_ends() {
    use std::cell::RefCell;
    thread_local! {
        static KEPT: RefCell<Option<Guard>> = const { RefCell::new(None) };
    }
    test(|client| {
        let a = client.clone();
        elsewhere(move || KEPT.set(Some(a.lock("x").acquire().unwrap())));
        assert!(is_free(&client, "x"), "a guard kept by the thread goes with it");
    });
}
