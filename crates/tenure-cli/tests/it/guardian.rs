//! The guardian: the command does not outlive its hold, whatever happens to tenure itself.

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process_group};
use testbed::wait_until;

use crate::common::{Harness, Running, child, children, in_time, is_alive, signal, stop, until_dead};

const STUBBORN: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";
/// Neither part is a child of tenure's.
const PIPELINE: &str = "sh -c 'echo $$ > a; exec sleep 600' | sh -c 'echo $$ > b; exec sleep 600'";

#[test]
fn a_stopped_tenure_does_not_keep_the_command_alive() {
    in_time(|| {
        let harness = Harness::with("?lease=3s");
        // As `kill -STOP %1` in a shell.
        let mut command = harness.tenure(["run", "demo", "-c", STUBBORN]);
        command.process_group(0);
        let running = Running::captured(command);
        harness.number("pid");
        let group = Pid::from_raw(running.id().try_into().unwrap()).unwrap();
        kill_process_group(group, Signal::STOP).unwrap();
        let next = harness.run(&["run", "demo", "-c", "cat /proc/$(cat pid)/stat; true"]);
        kill_process_group(group, Signal::CONT).unwrap();
        // What is dead and not reaped yet does no harm.
        let dead = next.status.success() && (next.out.is_empty() || next.out.contains(" Z "));
        let done = running.done();
        let good = dead && done.status.code() == Some(76);
        good.then_some(()).ok_or(format!("the next one found the command: {next:?}, {done:?}"))
    });
}

#[test]
fn a_pipeline_dies_with_a_tenure_that_is_killed() {
    let harness = Harness::with("?lease=30m");
    let running = harness.start(&["run", "demo", "-c", PIPELINE]);
    let (a, b) = (harness.number("a"), harness.number("b"));
    let children = children(running.id());
    assert!(is_alive(a) && is_alive(b));
    running.send(Signal::KILL);
    // Not when the lease ends: that is in half an hour.
    [a, b].into_iter().for_each(until_dead);
    // And nobody stays to watch over nothing.
    children.into_iter().for_each(|(pid, _)| until_dead(pid));
}

#[test]
fn a_setuid_command_dies_with_a_tenure_that_is_killed() {
    let harness = Harness::with("?lease=30m");
    // As in a program that changes its user.
    let running = harness.start(&[
        "run",
        "demo",
        "--",
        "setpriv",
        "--pdeathsig",
        "clear",
        "sh",
        "-c",
        "echo $$ > pid; exec sleep 600",
    ]);
    let pid = harness.number("pid");
    running.send(Signal::KILL);
    until_dead(pid);
}

#[test]
fn renewals_reach_the_guardian() {
    in_time(|| {
        let harness = Harness::with("?lease=2s");
        let running =
            harness.start(&["run", "demo", "-c", "echo $$ > pid; until [ -e end ]; do sleep 0.02; done"]);
        harness.number("pid");
        let left = || harness.show("demo")["holders"][0]["left_seconds"].as_f64();
        // Five renewals are more than three leases.
        for _ in 0..5 {
            let mut least = f64::MAX;
            wait_until("a renewal", || {
                let Some(now) = left() else { return Some(()) };
                let grown = now > least + 0.2;
                least = least.min(now);
                grown.then_some(())
            });
        }
        harness.touch("end");
        let done = running.done();
        (done.status.code() == Some(0)).then_some(()).ok_or(format!("{done:?}"))
    });
}

#[test]
fn nothing_is_run_without_it() {
    let harness = Harness::with("?lease=30m");
    let holder = harness.hold("demo", &[]);
    let waiting = harness.start(&["run", "demo", "--", "touch", "ran"]);
    harness.until_waiters("demo", 1);
    let guardian = child(waiting.id(), "tenure-guardian");
    signal(guardian, Signal::KILL);
    until_dead(guardian);
    harness.touch("end");
    holder.done().code(0);
    waiting.done().code(126).says("the guardian process was killed");
    assert!(harness.read("ran").is_none());
    harness.run(&["show", "demo"]).code(1);
}

#[test]
fn it_ends_with_tenure() {
    let harness = Harness::new();
    let running = harness.hold("demo", &[]);
    let guardian = child(running.id(), "tenure-guardian");
    harness.touch("end");
    running.done().code(0);
    // Reaped, too: whoever is the first process of a container may not do it.
    assert!(!std::path::Path::new(&format!("/proc/{guardian}")).exists());
}

#[test]
fn one_that_was_stopped_ends_with_tenure_too() {
    let harness = Harness::new();
    let running = harness.hold("demo", &[]);
    let guardian = child(running.id(), "tenure-guardian");
    stop(guardian);
    harness.touch("end");
    let done = running.done();
    assert!(!std::path::Path::new(&format!("/proc/{guardian}")).exists(), "it is not reaped");
    // It has not ended before.
    assert_eq!(done.code(0).err, "");
}

#[test]
fn its_end_is_told_of_and_the_command_goes_on() {
    for command in ["run", "elect"] {
        let harness = Harness::new();
        let script = "echo 1 > in; until [ -e end ]; do sleep 0.02; done; exit 3";
        let mut running = harness.start(&[command, "demo", "--quiet", "-c", script]);
        harness.number("in");
        signal(child(running.id(), "tenure-guardian"), Signal::KILL);
        let told = "tenure: the guardian process has ended: ";
        wait_until(told, || running.said().contains(told).then_some(()));
        assert!(running.is_running());
        assert_eq!(harness.show("demo")["holders"].as_array().unwrap().len(), 1);
        harness.touch("end");
        let done = running.done();
        assert_eq!(done.code(3).err.matches(told).count(), 1, "{done:?}");
    }
}

#[test]
fn background_processes_of_the_command_are_not_watched() {
    let harness = Harness::with("?lease=9s");
    let left =
        "(exec >&- 2>&-; echo 1 > left; until [ -e end ]; do sleep 0.02; done; echo 1 > lived) & exit 0";
    harness.run(&["run", "demo", "-c", left]).code(0);
    harness.number("left");
    // The next one gets the lock and runs past the end of the lease that the first one had.
    harness.run(&["run", "demo", "--", "sleep", "9.5"]).code(0);
    harness.touch("end");
    harness.number("lived");
}
