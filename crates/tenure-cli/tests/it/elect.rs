//! `tenure elect`: one leads and runs its command, others stand by, and no two commands run at once.

use rustix::process::Signal;
use testbed::wait_until;

use crate::common::{Harness, Running, in_time, is_alive, until_dead};

/// A candidate whose command says who it is, and ends when the file `end-NAME` is there.
fn candidate(harness: &Harness, who: &str, options: &[&str]) -> Running {
    let script =
        format!("echo $$ $TENURE_FENCE >> terms-{who}; until [ -e end-{who} ]; do sleep 0.02; done; exit 7");
    harness.start(&[&["elect", "cron", "--note", who][..], options, &["-c", &script]].concat())
}

/// Process and term of the `n`th command of a candidate, once it runs.
#[track_caller]
fn term(harness: &Harness, who: &str, n: usize) -> (u64, u64) {
    wait_until(&format!("term {n} of {who}"), || {
        let terms = harness.read(&format!("terms-{who}"))?;
        let line = terms.split_inclusive('\n').nth(n).filter(|line| line.ends_with('\n'))?;
        let (pid, fence) = line.trim().split_once(' ')?;
        Some((pid.parse().ok()?, fence.parse().ok()?))
    })
}

#[test]
fn a_command_that_ends_resigns_and_the_next_one_leads() {
    let harness = Harness::new();
    let first = candidate(&harness, "a", &[]);
    let (_, fence) = term(&harness, "a", 0);
    let second = candidate(&harness, "b", &[]);
    harness.until_waiters("cron", 1);
    let shown = harness.show("cron");
    assert_eq!((&shown["family"], &shown["holders"][0]["note"]), (&"leader".into(), &"a".into()), "{shown}");
    assert_eq!(harness.read("terms-b"), None, "two lead");
    harness.touch("end-a");
    first.done().code(7);
    let (_, next) = term(&harness, "b", 0);
    assert!(next > fence, "terms grow");
    harness.touch("end-b");
    second.done().code(7);
    harness.run(&["show", "cron"]).code(1);
}

#[test]
fn a_deposed_leader_campaigns_again() {
    let harness = Harness::with("?lease=9s");
    let first = candidate(&harness, "a", &["--json"]);
    let (pid, fence) = term(&harness, "a", 0);
    harness.run(&["release", "cron", "--force", "--yes"]).code(0);
    let (again, next) = term(&harness, "a", 1);
    assert!(!is_alive(pid) && again != pid && next > fence);
    harness.touch("end-a");
    let done = first.done();
    let events: Vec<_> =
        done.code(7).events().iter().map(|e| e["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(events, ["acquired", "lost", "acquired", "released"]);
}

#[test]
fn once_is_once() {
    let harness = Harness::with("?lease=9s");
    let only = candidate(&harness, "a", &["--once"]);
    let (pid, _) = term(&harness, "a", 0);
    harness.run(&["release", "cron", "--force", "--yes"]).code(0);
    only.done().code(76).says("lost");
    until_dead(pid);
}

#[test]
fn the_command_is_gone_before_another_one_leads() {
    // It does not want to go: only KILL ends it.
    let stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    in_time(|| {
        let harness = Harness::new();
        let first = harness.start(&["elect", "cron", "--once", "--max-hold", "3s", "-c", stubborn]);
        let pid = harness.number("pid");
        let next = harness.start(&["elect", "cron", "-c", "cat /proc/$(cat pid)/stat; true"]);
        let done = first.done();
        done.code(76).says("lost");
        assert!(!is_alive(pid));
        let found = next.done().code(0).out.clone();
        let good = done.err.contains("--max-hold 3s") && found.is_empty();
        good.then_some(()).ok_or(format!("the next one found {found:?}, {done:?}"))
    });
}

#[test]
fn a_signal_goes_to_the_command_or_ends_the_standing() {
    let harness = Harness::new();
    let leader = harness.start(&[
        "elect",
        "cron",
        "-c",
        "trap 'exit 5' TERM; echo 1 > ready; while :; do sleep 0.02; done",
    ]);
    harness.number("ready");
    let standby = candidate(&harness, "b", &[]);
    harness.until_waiters("cron", 1);
    standby.send(Signal::TERM);
    standby.done().code(143);
    harness.until_waiters("cron", 0);
    leader.send(Signal::TERM);
    leader.done().code(5);
    harness.run(&["show", "cron"]).code(1);
}

#[test]
fn missing_commands_and_invalid_addresses_are_reported() {
    let harness = Harness::new();
    harness.run(&["elect", "cron", "--", "/no/such/command"]).code(127).says("cannot run /no/such/command");
    harness.run(&["show", "cron"]).code(1);
    harness.run(&["elect", "cron", "--url", "memry:", "--", "true"]).code(2).says("did you mean memory:?");
}
