//! A call holds its names as an owner of its own, so whoever acquires one of them plainly inside waits for itself. That
//! is warned about, once, wherever the call runs.

use std::fmt;
use std::sync::{Mutex, Once};
use std::thread;

use tenure::{Client, Result, blocking, distributed_lock};
use testbed::{done, until};
use tokio::runtime::{Builder, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::harness::memory;

/// The names of all waits for oneself that this program was warned about.
static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

#[derive(Default)]
struct Said {
    message: String,
    name: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "name" => self.name = format!("{value:?}"),
            _ => {}
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "tenure"
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        if said.message.contains("waits for a name that it holds itself") {
            WARNED.lock().unwrap().push(said.name);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

fn warnings(name: &str) -> usize {
    WARNED.lock().unwrap().iter().filter(|warned| *warned == name).count()
}

async fn warned(name: &str) {
    until(&format!("{name} is warned about"), || async { warnings(name) > 0 }).await;
}

#[distributed_lock(key = name, client = client)]
async fn twice(client: Client, name: &'static str) -> Result<()> {
    client.lock(name).acquire().await.map(drop)
}

#[distributed_lock(key = [name, other], client = client)]
async fn several(client: Client, name: &'static str, other: &'static str) -> Result<()> {
    client.lock(name).acquire().await.map(drop)
}

#[distributed_lock(key = name, client = client)]
fn twice_blocking(client: Client, name: &'static str) -> Result<()> {
    blocking::Client::from(client).lock(name).acquire().map(drop)
}

/// The runtimes that `#[tokio::main]` makes.
fn runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread(), Builder::new_current_thread()].map(|mut b| b.enable_all().build().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_acquire_inside_a_call_is_warned_about_once() {
    listen();
    let client = memory().await;
    let mut threads = Vec::new();
    for (runtime, name) in runtimes().into_iter().zip(["main, multi-threaded", "main, current thread"]) {
        let client = client.clone();
        threads.push((name, thread::spawn(move || runtime.block_on(twice(client, name)))));
    }
    threads.push((
        "thread",
        thread::spawn({
            let client = client.clone();
            move || twice_blocking(client, "thread")
        }),
    ));
    let tasks = [
        ("task", tokio::spawn(twice(client.clone(), "task"))),
        ("list", tokio::spawn(several(client.clone(), "list", "another"))),
        (
            "blocking task",
            tokio::task::spawn_blocking({
                let client = client.clone();
                move || twice_blocking(client, "blocking task")
            }),
        ),
        (
            "block in place",
            tokio::spawn({
                let client = client.clone();
                async move { tokio::task::block_in_place(|| twice_blocking(client, "block in place")) }
            }),
        ),
    ];
    let names = || threads.iter().map(|(name, _)| *name).chain(tasks.iter().map(|(name, _)| *name));
    for name in names() {
        warned(name).await;
    }
    // Whoever waits later is warned later: no other warning was still to come.
    let last = tokio::spawn(twice(client.clone(), "last"));
    warned("last").await;
    for name in names() {
        assert_eq!(warnings(name), 1, "{name}");
    }
    client.close().await.unwrap();
    for (name, thread) in threads {
        assert!(thread.join().unwrap().is_err(), "{name}");
    }
    for (name, task) in tasks {
        assert!(done(name, task).await.is_err(), "{name}");
    }
    assert!(done("last", last).await.is_err());
}

/// A task that the call has spawned is another one: the call may end while it waits.
#[tokio::test]
async fn others_that_wait_for_a_call_are_not_warned_about() {
    #[distributed_lock(key = "spawned", client = client)]
    async fn spawns(client: Client) -> Result<tokio::task::JoinHandle<Result<()>>> {
        let other = client.clone();
        let spawned = tokio::spawn(async move { other.lock("spawned").acquire().await.map(drop) });
        until("it waits", || async { !client.lock("spawned").waiters().await.unwrap().is_empty() }).await;
        // One that waits for itself, and came later.
        let own = tokio::spawn(twice(client.clone(), "own"));
        warned("own").await;
        own.abort();
        Ok(spawned)
    }
    listen();
    let spawned = spawns(memory().await).await.unwrap();
    done("it gets in", spawned).await.unwrap();
    assert_eq!(warnings("spawned"), 0);
}
