//! Commands that run tenure again: what is held around them, and what they are told of the store.

use testbed::{Redis, RedisOptions, wait_until};

use crate::common::Harness;

const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

#[test]
fn a_nested_run_of_the_same_name_is_refused() {
    let harness = Harness::with("?lease=30m&poll=30m");
    let refused = ["is held by the outer tenure that runs this command", "would never end"];
    let inner: [&[&str]; 5] = [
        &["demo", "--", "touch", "ran"],
        &["demo", "--wait", "30m", "--", "touch", "ran"],
        &["demo", "--fair", "--", "touch", "ran"],
        // Also over another name in between.
        &["other", "--", TENURE, "run", "demo", "--", "touch", "ran"],
        &["other", "--", TENURE, "elect", "demo", "--", "touch", "ran"],
    ];
    for inner in inner {
        let done = harness.run(&[&["run", "demo", "--", TENURE, "run"], inner].concat());
        done.code(2).says(refused[0]).says(refused[1]);
    }
    // Whoever does not wait is told that it is busy.
    harness.run(&["run", "demo", "--", TENURE, "run", "demo", "--no-wait", "--", "touch", "ran"]).code(75);
    assert!(harness.read("ran").is_none());
    harness.run(&["show", "demo"]).code(1);
}

#[test]
fn a_nested_run_under_a_token_is_refused() {
    let server = Redis::start(RedisOptions::default()).unwrap();
    let harness = Harness::at(format!("{}?layout=plain&lease=30m&poll=30m", server.url()));
    for token in ["request-7", "50% of @ll requests"] {
        let inner: [&[&str]; 3] = [&[], &["--token", token], &["--token", "another"]];
        for inner in inner {
            let outer = ["run", "order", "--token", token, "--", TENURE, "run", "order"];
            let done = harness.run(&[&outer[..], inner, &["--", "touch", "ran"]].concat());
            done.code(2).says("is held by the outer tenure that runs this command");
        }
    }
    assert!(harness.read("ran").is_none());
    assert!(server.cmd(&["GET", "order"]).unwrap().is_nil());
}

#[test]
fn a_nested_run_is_refused_after_a_store_that_did_not_answer_at_first() {
    let harness = Harness::with("?lease=30m&poll=30m&call_timeout=200ms");
    let script = "echo 1 > in; until [ -e go ]; do sleep 0.02; done
                  exec \"$0\" run demo --wait 30m -- touch ran";
    let running = harness.start(&["run", "demo", "--", "sh", "-c", script, TENURE]);
    harness.number("in");
    let blocked = harness.block();
    harness.touch("go");
    wait_until("a wait for the store", || running.said().contains("waiting: ").then_some(()));
    drop(blocked);
    running.done().code(2).says("is held by the outer tenure that runs this command");
    assert!(harness.read("ran").is_none());
}

#[test]
fn a_nested_run_may_share_readers_and_permits() {
    let harness = Harness::new();
    let other = format!("sqlite:{}", harness.path("other.db").display());
    let nested = |name: &str, outer: &[&str], inner: &[&str]| {
        harness.run(&[&["run", name], outer, &["--", TENURE, "run", name], inner, &["--", "true"]].concat())
    };
    nested("api", &["--limit", "2"], &["--limit", "2"]).code(0);
    nested("api", &["--limit", "2"], &["--limit", "2", "--permits", "2"]).code(2).says("would never end");
    nested("seat", &["--limit", "1"], &["--limit", "1"]).code(2).says("would never end");
    nested("cache", &["--shared"], &["--shared"]).code(0);
    nested("cache", &["--shared"], &["--exclusive"]).code(2).says("would never end");
    // Another store is another lock.
    nested("demo", &[], &["--url", &other]).code(0);
}

#[test]
fn passwords_are_kept_from_the_command() {
    let server =
        Redis::start(RedisOptions { password: Some("hunter2".into()), ..RedisOptions::default() }).unwrap();
    let harness = Harness::at(server.url().replace("//", "//:hunter2@"));
    let seen = harness.run(&["run", "demo", "--", "env"]);
    assert!(!seen.code(0).out.contains("hunter2"), "{seen:?}");
    assert!(seen.out.contains("TENURE_FENCE="), "{seen:?}");
    // It must not lock in the store that is the default.
    let inner = [TENURE, "run", "inner", "--", "touch", "ran"];
    let refused = harness.run(&[&["run", "demo", "--"], &inner[..]].concat());
    refused.code(2).says("--share-store");
    assert!(harness.read("ran").is_none());
    harness.run(&[&["run", "demo", "--share-store", "--"], &inner[..]].concat()).code(0);
    assert!(harness.read("ran").is_some());
    let elsewhere = ["--url", "sqlite:other.db", "--", "true"];
    harness.run(&[&["run", "demo", "--"], &inner[..3], &elsewhere].concat()).code(0);

    // In variables for each key as well.
    let mut command = harness.tenure(["run", "demo", "--", "env"]);
    let nodes = format!("127.0.0.1:{}", server.port());
    command
        .env("TENURE_URL", "")
        .env("TENURE_TYPE", "redis")
        .env("TENURE_NODES", nodes)
        .env("TENURE_PASSWORD", "hunter2");
    let seen = crate::common::Running::captured(command).done();
    assert!(!seen.code(0).out.contains("hunter2"), "{seen:?}");
}
