//! A short chaos on every store, and a planted bug that must be found.
//!
//! The faults are the same in each run, so that a red one is a change; `cargo xtask chaos` draws new ones. The judge
//! counts a process that the machine does not run as one that is paused, so load makes these tests see less, and not
//! fail.

use std::process::{Command, Output};
use std::sync::{Condvar, Mutex};

/// How many stores work at the same time: they mostly wait, but servers start at once.
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(3), Condvar::new());

fn chaos(words: &[&str]) -> Output {
    let mut free = FREE.1.wait_while(FREE.0.lock().unwrap(), |free| *free == 0).unwrap();
    *free -= 1;
    drop(free);
    let done = Command::new(env!("CARGO_BIN_EXE_chaos")).args(words).output();
    *FREE.0.lock().unwrap() += 1;
    FREE.1.notify_one();
    done.expect("it starts")
}

fn said(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

macro_rules! short {
    ($($name:ident $store:literal)*) => {$(
        #[test]
        fn $name() {
            let done = chaos(&["--store", $store, "--seconds", "10", "--seed", "1"]);
            assert!(done.status.success(), "{}", said(&done));
        }
    )*};
}

short! {
    memory_keeps_its_promises "memory"
    sqlite_keeps_its_promises "sqlite"
    redis_keeps_its_promises "redis"
    redis_plain_keeps_its_promises "redis-plain"
    redis_sentinel_keeps_its_promises "redis-sentinel"
    redis_cluster_keeps_its_promises "redis-cluster"
    redlock_keeps_its_promises "redlock"
    zookeeper_keeps_its_promises "zookeeper"
}

/// Finds within this time that a release does not look whose lock it is (`cargo xtask mutants --only chaos`).
#[test]
fn a_holder_that_was_paused_frees_nobody_elses_lock() {
    let done =
        chaos(&["--store", "redis", "--kinds", "lock", "--faults", "client-paused", "--seconds", "20"]);
    assert!(done.status.success(), "{}", said(&done));
}

#[test]
fn a_planted_bug_is_found() {
    let done = chaos(&["--plant", "--seconds", "10"]);
    let said = said(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("broken: overlap of"), "{said}");
}

#[test]
fn a_wrong_word_is_told() {
    let done = chaos(&["--store", "mysql"]);
    assert_eq!(done.status.code(), Some(2), "{}", said(&done));
}
