//! All commands on a ZooKeeper server, and holders of another library in its layout.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use testbed::{ZkClient, ZkMode, ZooKeeper, ZooKeeperOptions};

use crate::common::{Harness, in_time};

/// As Curator names a place in a queue.
const CURATOR: &str = "_c_4f3c2b1a-0000-4000-8000-000000000001-lock-";

/// A folder of its own on the server that these tests share while one of them runs.
struct World {
    server: Arc<ZooKeeper>,
    folder: String,
}

impl World {
    fn new() -> Self {
        static SHARED: Mutex<Weak<ZooKeeper>> = Mutex::new(Weak::new());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut shared = SHARED.lock().unwrap();
        let server = shared
            .upgrade()
            .unwrap_or_else(|| Arc::new(ZooKeeper::start(ZooKeeperOptions::default()).unwrap()));
        *shared = Arc::downgrade(&server);
        let world = Self { server, folder: format!("/w{}", NEXT.fetch_add(1, Relaxed)) };
        world.client().create(&world.folder, b"", ZkMode::Persistent).unwrap();
        world
    }

    fn client(&self) -> ZkClient {
        self.server.client().unwrap()
    }

    fn harness(&self) -> Harness {
        Harness::at(format!("{}{}{OPTIONS}", self.server.url(), self.folder))
    }
}

const OPTIONS: &str = "?session=30s&tick=500ms";

#[test]
fn run_ls_show_and_release() {
    let world = World::new();
    let harness = world.harness();
    harness.runs_shows_and_releases(|shown| {
        assert!(shown.contains("ends with its session"), "{shown}");
        assert!(harness.run(&["ls"]).out.contains("  session  "));
    });
}

#[test]
fn every_kind_is_held_listed_and_released() {
    let world = World::new();
    world.harness().holds_every_kind("lock");
}

#[test]
fn a_foreign_holder_is_called_so_and_released_by_force() {
    let world = World::new();
    let harness = world.harness();
    let mut jvm = world.client();
    let queue = format!("{}/jvm", world.folder);
    jvm.create(&queue, b"", ZkMode::Persistent).unwrap();
    jvm.create(&format!("{queue}/{CURATOR}"), b"10.0.0.7", ZkMode::EphemeralSequential).unwrap();
    assert_eq!(harness.json(&["ls"], 0)[0]["holders"][0]["foreign"], true);
    harness.run(&["run", "jvm", "--no-wait", "--", "true"]).code(75).says("held by another library");
    let waiter = harness.start(&["run", "jvm", "--", "true"]);
    harness.until_waiters("jvm", 1);
    let released = harness.json(&["release", "jvm", "--force", "--yes"], 0);
    assert_eq!(released["released"][0]["id"], format!("{CURATOR}0000000000"));
    waiter.done().code(0);
}

#[test]
fn doctor_and_wrong_addresses() {
    // Its own, since it is killed.
    let server = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
    let looked = Harness::at(format!("{}{OPTIONS}", server.url())).run(&["doctor"]);
    assert!(looked.code(1).out.contains("version 3."), "{looked:?}");
    assert!(looked.out.contains("a lock was taken and given back"), "{looked:?}");
    assert!(looked.out.contains("one server by itself"), "{looked:?}");
    Harness::at(format!("{}/nowhere", server.url())).run(&["ls"]).code(2).says("/nowhere does not exist");
    server.kill().unwrap();
    Harness::at(server.url()).run(&["ls"]).code(69).says("no ZooKeeper server answers");
}

#[test]
fn a_healthy_command_is_left_alone_in_a_short_session() {
    let server = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
    let lives = &|session: &str| {
        // As the servers of most people: what a server has heard may be told a tick of two seconds later.
        let harness = Harness::at(format!("{}?session={session}&tick=2s", server.url()));
        in_time(|| {
            let done = harness.run(&["run", session, "-c", "sleep 9; exit 3"]);
            (done.status.code() == Some(3)).then_some(()).ok_or(format!("{session}: {done:?}"))
        });
    };
    std::thread::scope(|scope| {
        for session in ["4s", "6s", "8s"] {
            scope.spawn(move || lives(session));
        }
    });
}

#[test]
fn no_session_is_left_behind() {
    let server = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
    let harness = Harness::at(format!("{}{OPTIONS}", server.url()));
    let sessions = || server.measures().unwrap().get("zk_global_sessions").cloned();
    let none = Some("0".to_owned());
    assert_eq!(sessions(), none);
    for line in
        [&["ls"][..], &["show", "demo"], &["run", "demo", "--", "true"], &["elect", "cron", "--", "true"]]
    {
        let _ = harness.run(line);
        assert_eq!(sessions(), none, "after {line:?}");
    }
}

#[test]
fn another_kind_on_the_name_is_named() {
    let world = World::new();
    let harness = world.harness();
    let done = harness.run(&["run", "seats", "--limit", "2", "--", "true"]);
    // A busy server may let it wait for a second, which it says.
    assert!(!done.code(0).err.contains("in the store"), "{done:?}");
    harness
        .run(&["run", "seats", "--limit", "5", "--", "true"])
        .code(0)
        .says("seats has 2 permits in the store");
    let more = harness.run(&["run", "seats", "--limit", "5", "--permits", "4", "--", "true"]);
    more.code(2).says("4 permits were asked for, but the semaphore has 2");
    harness
        .run(&["run", "seats", "--", "true"])
        .code(2)
        .says("seats is in use as a semaphore and cannot be a lock too");
}
