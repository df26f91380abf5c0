//! A lost lock ends its command: TERM first, KILL before the lease is over, and the whole group.

use std::io::{PipeWriter, Write};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionbio;
use testbed::wait_until;

use crate::common::{Harness, Running, in_time, is_alive, until_dead};

const STUBBORN: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";

#[test]
fn a_command_that_ignores_term_is_killed_before_the_lease_ends() {
    in_time(|| {
        let harness = Harness::new();
        let running = harness.start(&["run", "demo", "--lease", "5s", "-c", STUBBORN]);
        let pid = harness.number("pid");
        let held = Instant::now();
        let next = harness.start(&["run", "demo", "-c", "cat /proc/$(cat pid)/stat; true"]);
        let done = running.done();
        // Half a second is set aside, and a part of it has passed before it was seen to be held.
        let early = held.elapsed() < Duration::from_millis(4750);
        done.code(76).says("demo is lost: ");
        assert!(!is_alive(pid), "the command is gone before tenure is");
        assert!(done.took > Duration::from_secs(3), "it had most of the lease: {done:?}");
        let found = next.done().code(0).out.clone();
        let good = early && done.err.contains("its lease of 5s ends") && found.is_empty();
        good.then_some(()).ok_or(format!("early: {early}, the next one found {found:?}, {done:?}"))
    });
}

#[test]
fn term_comes_with_time_to_end_well() {
    in_time(|| {
        let harness = Harness::new();
        let script = "trap 'echo 1 > cleaned; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
        harness.run(&["run", "demo", "--lease", "3s", "--lost-code", "42", "-c", script]).code(42);
        harness.run(&["run", "demo", "--", "true"]).code(0);
        harness.read("cleaned").map(drop).ok_or("it was killed".into())
    });
}

#[test]
fn the_whole_group_is_killed() {
    let harness = Harness::with("?lease=9s");
    // The command itself goes at TERM and leaves two behind that do not.
    let inner =
        "(trap '' TERM; sh -c 'echo $$ > grandchild; while :; do sleep 0.02; done' & echo $! > child; wait)";
    let script = format!("{inner} & echo $$ > pid; wait");
    let running = harness.start(&["run", "demo", "--grace", "500ms", "-c", &script]);
    let pids = ["pid", "child", "grandchild"].map(|file| harness.number(file));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    harness.run(&["release", "demo", "--force", "--yes"]).code(0);
    running.done().code(76);
    pids.into_iter().for_each(until_dead);
}

#[test]
fn max_hold_ends_it_although_it_is_renewed() {
    in_time(|| {
        // Renewed once before the end.
        let harness = Harness::with("?lease=9s");
        let running = harness.start(&["run", "demo", "--max-hold", "5s", "-c", STUBBORN]);
        let pid = harness.number("pid");
        let held = Instant::now();
        let done = running.done();
        let early = held.elapsed() < Duration::from_millis(4750);
        done.code(76).says("lost");
        assert!(!is_alive(pid));
        assert!(done.took > Duration::from_secs(3), "{done:?}");
        let good = early && done.err.contains("--max-hold 5s");
        good.then_some(()).ok_or(format!("early: {early}, {done:?}"))
    });
}

#[test]
fn a_store_that_goes_away_ends_it_before_the_lease_does() {
    in_time(|| {
        let harness = Harness::with("?lease=3s&close_timeout=100ms");
        let running = harness.start(&["run", "demo", "--json", "-c", STUBBORN]);
        let pid = harness.number("pid");
        let _blocked = harness.block();
        // The last renewal was sent before this, so the lease ends before this time plus its length.
        let from = Instant::now();
        until_dead(pid);
        let took = from.elapsed();
        let done = running.done();
        let lost = done.code(76).events().into_iter().find(|e| e["event"] == "lost").unwrap();
        let told = lost["reason"].as_str().unwrap().contains("could not be renewed");
        let good = told && took < Duration::from_secs(3);
        good.then_some(()).ok_or(format!("after {took:?}, {done:?}"))
    });
}

#[test]
fn a_forced_release_ends_it_at_the_next_renewal() {
    let harness = Harness::with("?lease=9s");
    let running = harness.start(&["run", "demo", "--grace", "500ms", "--json", "-c", STUBBORN]);
    let pid = harness.number("pid");
    harness.run(&["release", "demo", "--force", "--yes"]).code(0);
    // Nothing but a renewal shows it: the command goes on for ever.
    let done = running.done();
    done.code(76);
    assert!(!is_alive(pid));
    let lost = done.events().pop().unwrap();
    assert_eq!((&lost["event"], &lost["name"]), (&"lost".into(), &"demo".into()));
}

/// Whoever writes to it waits from now on.
fn fill(mut pipe: &PipeWriter) {
    ioctl_fionbio(pipe, true).unwrap();
    while pipe.write(b".").is_ok() {}
    ioctl_fionbio(pipe, false).unwrap();
}

#[test]
fn the_command_is_told_before_anybody_else() {
    let harness = Harness::with("?lease=9s");
    let (mut unread, pipe) = std::io::pipe().unwrap();
    fill(&pipe);
    // The shell itself would wait to say that its `sleep` was terminated.
    let script = "exec 2>&-; trap 'echo 1 > told; exit 0' TERM; echo 1 > in; while :; do sleep 0.02; done";
    let mut command = harness.tenure(["run", "demo", "--grace", "30m", "-c", script]);
    command.stderr(pipe);
    let running = Running::start(command);
    harness.number("in");
    harness.run(&["release", "demo", "--force", "--yes"]).code(0);
    harness.number("told");
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut unread).unwrap());
    running.done().code(76);
    assert!(reader.join().unwrap().contains("tenure: demo is lost: "));
}

#[test]
fn a_release_by_force_shows_at_the_end_at_the_latest() {
    let harness = Harness::new();
    let running = harness.start(&["run", "demo", "-c", "echo 1 > in; until [ -e end ]; do sleep 0.02; done"]);
    harness.number("in");
    harness.run(&["release", "demo", "--force", "--yes"]).code(0);
    // Another may have been in meanwhile, and its hold is not touched.
    let other =
        harness.start(&["run", "demo", "-c", "echo 1 > other; until [ -e end2 ]; do sleep 0.02; done"]);
    harness.number("other");
    harness.touch("end");
    running.done().code(76).says("demo is lost");
    harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(75);
    harness.touch("end2");
    other.done().code(0);
}

#[test]
fn a_lock_that_is_renewed_outlives_its_lease() {
    let harness = Harness::with("?lease=9s");
    let running = harness.start(&["run", "demo", "--json", "-c", "until [ -e end ]; do sleep 0.02; done"]);
    let left = || harness.show("demo")["holders"][0]["left_seconds"].as_f64();
    let mut least = wait_until("a holder", left);
    wait_until("a renewal", || {
        let now = left()?;
        let grown = now > least + 0.5;
        least = least.min(now);
        grown.then_some(())
    });
    harness.touch("end");
    let done = running.done();
    assert_eq!(done.code(0).events().len(), 2, "{done:?}");
}
