//! All commands on a ZooKeeper server, and holders of another library in its layout.

mod common;

use common::Bench;
use testbed::{ZkMode, ZooKeeper, ZooKeeperOptions};

/// As Curator names a place in a queue.
const CURATOR: &str = "_c_4f3c2b1a-0000-4000-8000-000000000001-lock-";

fn server() -> ZooKeeper {
    ZooKeeper::start(ZooKeeperOptions::default()).unwrap()
}

fn bench(server: &ZooKeeper) -> Bench {
    Bench::at(format!("{}?session=10s&tick=500ms", server.url()))
}

#[test]
fn run_ls_show_and_release() {
    let server = server();
    let bench = bench(&server);
    assert_eq!(bench.run(&["ls"]).code(0).out, "");
    bench.run(&["run", "demo", "-c", "[ -n \"$TENURE_FENCE\" ] && exit 7"]).code(7);
    let holder = bench.hold("demo", &["--note", "nightly import"]);
    bench.run(&["run", "demo", "--no-wait", "--", "true"]).code(75).says("(nightly import)");
    let waiter = bench.start(&["run", "demo", "--", "true"]);
    bench.until_waiters("demo", 1);

    let listed = bench.json(&["ls"], 0);
    assert_eq!((&listed[0]["name"], &listed[0]["family"]), (&"demo".into(), &"lock".into()));
    let shown = bench.show("demo");
    let held = &shown["holders"][0];
    assert_eq!((&held["pid"], &held["foreign"]), (&holder.id().into(), &false.into()));
    let words = bench.run(&["show", "demo"]).code(0).out.clone();
    assert!(words.contains("note nightly import") && words.contains("ends with its session"), "{words}");
    assert!(bench.run(&["ls"]).out.contains("  session  "));

    let released = bench.run(&["release", "demo", "--force", "--yes"]);
    assert!(released.code(0).out.contains("(nightly import)"), "{released:?}");
    waiter.done().code(0);
    bench.touch("end");
    holder.done().code(76);
    bench.run(&["show", "demo"]).code(1);
}

#[test]
fn every_kind_is_held_listed_and_released() {
    let server = server();
    bench(&server).holds_every_kind("lock");
}

#[test]
fn a_foreign_holder_is_called_so_and_released_by_force() {
    let server = server();
    let bench = bench(&server);
    let mut jvm = server.client().unwrap();
    jvm.create("/jvm", b"", ZkMode::Persistent).unwrap();
    jvm.create(&format!("/jvm/{CURATOR}"), b"10.0.0.7", ZkMode::EphemeralSequential).unwrap();
    assert_eq!(bench.json(&["ls"], 0)[0]["holders"][0]["foreign"], true);
    bench.run(&["run", "jvm", "--no-wait", "--", "true"]).code(75).says("held by another library");
    let waiter = bench.start(&["run", "jvm", "--", "true"]);
    bench.until_waiters("jvm", 1);
    let released = bench.json(&["release", "jvm", "--force", "--yes"], 0);
    assert_eq!(released["released"][0]["id"], format!("{CURATOR}0000000000"));
    waiter.done().code(0);
}

#[test]
fn doctor_and_wrong_addresses() {
    let server = server();
    let looked = bench(&server).run(&["doctor"]);
    assert!(looked.code(1).out.contains("version 3."), "{looked:?}");
    assert!(looked.out.contains("a lock was taken and given back"), "{looked:?}");
    assert!(looked.out.contains("one server by itself"), "{looked:?}");
    Bench::at(format!("{}/nowhere", server.url())).run(&["ls"]).code(2).says("/nowhere does not exist");
    server.kill().unwrap();
    Bench::at(server.url()).run(&["ls"]).code(69).says("no ZooKeeper server answers");
}
