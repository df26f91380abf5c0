//! The size of a semaphore: a limit that differs, and `tenure resize`.

use testbed::{Redis, RedisOptions};

use crate::common::Harness;

const WARNING: &str =
    "seats has 2 permits in the store, which apply instead of --limit 5; `tenure resize seats 5` changes";

#[track_caller]
fn resizes(harness: &Harness) {
    let run = |options: &[&str]| harness.run(&[&["run", "seats"][..], options, &["--", "true"]].concat());
    assert!(!run(&["--limit", "2"]).code(0).err.contains("in the store"));
    let done = run(&["--limit", "5"]);
    assert_eq!(done.code(0).says(WARNING).err.lines().count(), 1, "{done:?}");
    // At once, with both numbers, though it may wait.
    run(&["--limit", "5", "--permits", "4"])
        .code(2)
        .says("4 permits were asked for, but the semaphore has 2");
    assert_eq!(harness.run(&["resize", "seats", "5"]).code(0).out, "seats has 5 permits (before: 2)\n");
    assert!(!run(&["--limit", "5", "--permits", "4"]).code(0).err.contains("in the store"));
    let holder = harness.hold("seats", &["--limit", "5", "--permits", "3"]);
    harness
        .run(&["resize", "seats", "1"])
        .code(0)
        .says("3 are in use: none is granted until fewer than 1 are");
    run(&["--limit", "1", "--no-wait"]).code(75);
    let json = harness.json(&["resize", "seats", "4"], 0);
    assert_eq!(json, serde_json::json!({ "name": "seats", "size": 4, "before": 1, "in_use": 3 }));
    harness.touch("end");
    holder.done().code(0);
    assert_eq!(harness.json(&["resize", "new", "7"], 0)["before"], serde_json::Value::Null);
    assert_eq!(harness.show("new")["size"], 7);
}

#[test]
fn on_sqlite() {
    let harness = Harness::new();
    resizes(&harness);
    let help = harness.run(&["resize", "--help"]).code(0).out.clone();
    assert!(help.contains("Permits in use stay in use") && help.contains("--json"), "{help}");
    let harness = Harness::new();
    let _lock = harness.hold("lock", &[]);
    harness
        .run(&["resize", "lock", "2"])
        .code(2)
        .says("lock is in use as a lock and cannot be a semaphore too");
}

#[test]
fn on_redis() {
    let server = Redis::start(RedisOptions::default()).unwrap();
    resizes(&Harness::at(format!("{}?lease=60s", server.url())));
    let plain = Harness::at(format!("{}?layout=plain", server.url()));
    plain.run(&["resize", "seats", "2"]).code(2).says("a semaphore is not supported");
}
