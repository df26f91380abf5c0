//! A lost lock ends its command: TERM first, KILL before the lease is over, and the whole group.

mod common;

use std::time::{Duration, Instant};

use common::{Bench, is_alive, until_dead};

const STUBBORN: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";

#[test]
fn what_ignores_term_is_killed_before_the_lease_ends() {
    let bench = Bench::new();
    let running = bench.start(&["run", "demo", "--lease", "3s", "-c", STUBBORN]);
    let pid = bench.number("pid");
    let next = bench.start(&["run", "demo", "-c", "cat /proc/$(cat pid)/stat; true"]);
    let done = running.done();
    done.code(76).says("demo is lost: its lease of 3s ends");
    assert!(!is_alive(pid), "the command is gone before tenure is");
    assert!(done.took < Duration::from_secs(3), "{done:?}");
    assert!(done.took > Duration::from_millis(1900), "it had most of the lease: {done:?}");
    assert_eq!(next.done().code(0).out, "", "the next one found it still running");
}

#[test]
fn term_comes_with_time_to_end_well() {
    let bench = Bench::new();
    let script = "trap 'echo 1 > cleaned; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let done = bench.run(&["run", "demo", "--lease", "3s", "--lost-code", "42", "-c", script]);
    done.code(42);
    bench.number("cleaned");
    // At two thirds of it.
    assert!(done.took < Duration::from_millis(2800), "{done:?}");
    bench.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
}

#[test]
fn the_whole_group_is_killed() {
    let bench = Bench::new();
    // The command itself goes at TERM and leaves two behind that do not.
    let inner =
        "(trap '' TERM; sh -c 'echo $$ > grandchild; while :; do sleep 0.02; done' & echo $! > child; wait)";
    let script = format!("{inner} & echo $$ > pid; wait");
    let running = bench.start(&["run", "demo", "--lease", "3s", "-c", &script]);
    let pids = ["pid", "child", "grandchild"].map(|file| bench.number(file));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let done = running.done();
    done.code(76);
    assert!(done.took < Duration::from_secs(3), "{done:?}");
    pids.into_iter().for_each(until_dead);
}

#[test]
fn max_hold_ends_it_although_it_is_renewed() {
    let bench = Bench::with("?lease=2s");
    let running = bench.start(&["run", "demo", "--max-hold", "4s", "-c", STUBBORN]);
    let pid = bench.number("pid");
    let done = running.done();
    done.code(76).says("--max-hold 4s");
    assert!(!is_alive(pid));
    assert!(done.took < Duration::from_secs(4) && done.took > Duration::from_secs(2), "{done:?}");
}

#[test]
fn a_store_that_goes_away_ends_it_before_the_lease_does() {
    let bench = Bench::with("?lease=3s&close_timeout=100ms");
    let running = bench.start(&["run", "demo", "--json", "-c", STUBBORN]);
    let pid = bench.number("pid");
    let blocked = bench.block();
    // The last renewal was sent before this, so the lease ends before this time plus its length.
    let from = Instant::now();
    until_dead(pid);
    assert!(from.elapsed() < Duration::from_secs(3), "{:?}", from.elapsed());
    let done = running.done();
    let lost = done.code(76).events().into_iter().find(|e| e["event"] == "lost").unwrap();
    assert!(lost["reason"].as_str().unwrap().contains("could not be renewed"), "{lost}");
    drop(blocked);
}

#[test]
fn a_forced_release_ends_it_at_the_next_renewal() {
    let bench = Bench::with("?lease=2s");
    let running = bench.start(&["run", "demo", "--grace", "500ms", "--json", "-c", STUBBORN]);
    let pid = bench.number("pid");
    bench.run(&["release", "demo", "--force", "--yes"]).code(0);
    let released = Instant::now();
    let done = running.done();
    done.code(76);
    // A third of the lease to notice, and the grace.
    assert!(released.elapsed() < Duration::from_secs(3), "{:?}", released.elapsed());
    assert!(!is_alive(pid));
    let lost = done.events().pop().unwrap();
    assert_eq!((&lost["event"], &lost["name"]), (&"lost".into(), &"demo".into()));
}

#[test]
fn a_release_by_force_shows_at_the_end_at_the_latest() {
    let bench = Bench::new();
    let running = bench.start(&["run", "demo", "-c", "echo 1 > in; until [ -e end ]; do sleep 0.02; done"]);
    bench.number("in");
    bench.run(&["release", "demo", "--force", "--yes"]).code(0);
    // Another may have been in meanwhile, and its hold is not touched.
    let other = bench.start(&["run", "demo", "-c", "echo 1 > other; until [ -e end2 ]; do sleep 0.02; done"]);
    bench.number("other");
    bench.touch("end");
    running.done().code(76).says("demo is lost");
    bench.run(&["run", "demo", "--no-wait", "--", "true"]).code(75);
    bench.touch("end2");
    other.done().code(0);
}

#[test]
fn a_lock_that_is_renewed_outlives_its_lease() {
    let bench = Bench::with("?lease=1s");
    let done = bench.run(&["run", "demo", "--json", "-c", "sleep 3"]);
    done.code(0);
    assert_eq!(done.events().len(), 2, "{done:?}");
}
