//! `tenure top`: one frame for programs, and a live one on a terminal that is as it was afterwards.

use rustix::process::Signal;
use serde_json::Value;
use testbed::wait_until;

use crate::common::Harness;
use crate::pty::{Pty, session};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// What is on the terminal now.
fn last_frame(pty: &Pty) -> String {
    pty.seen().rsplit("\x1b[H").next().unwrap_or_default().to_owned()
}

#[track_caller]
fn until_in_order(pty: &Pty, first: &str, second: &str) {
    wait_until("the order of rows", || {
        let frame = last_frame(pty);
        let (first, second) = (frame.find(first)?, frame.find(second)?);
        (first < second).then_some(())
    });
}

#[test]
fn one_frame_needs_no_terminal() {
    let harness = Harness::new();
    let empty = harness.run(&["top", "--once"]).code(0).out.clone();
    let store = format!("sqlite {}", harness.path("locks.db").display());
    assert!(empty.starts_with(&format!("tenure top  {store}  0 names in use, 0 waiting\nNAME")), "{empty}");
    let holder = harness.hold("orders/42", &["--note", "nightly import"]);
    let _api = harness.hold("api", &["--limit", "3", "--permits", "2"]);
    let _waiter = harness.start(&["run", "orders/42", "--", "true"]);
    harness.until_waiters("orders/42", 1);

    let out = harness.run(&["top", "--once"]).code(0).out.clone();
    assert!(out.contains("2 names in use, 1 waiting"), "{out}");
    let lines: Vec<Vec<&str>> =
        out.lines().map(|l| l.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect()).collect();
    assert_eq!(lines[1], ["NAME", "KIND", "PLACE", "HELD", "LEFT", "WAITERS", "NOTE", "FENCE"]);
    assert_eq!(&lines[2][..2], ["api", "semaphore, 2 permits"], "{out}");
    assert_eq!(&lines[3][..2], ["orders/42", "lock"], "{out}");
    assert!(lines[3][2].ends_with(&format!(":{}", holder.id())), "{out}");
    assert!(lines[3][3].ends_with('s') && lines[3][4].ends_with(" s"), "{out}");
    assert_eq!(lines[3][5], "1");
    assert_eq!(lines[3][6], "nightly import");
    assert!(lines[3][7].parse::<u64>().is_ok(), "{out}");

    let by_waiters = harness.run(&["top", "--once", "--sort", "waiters"]).out.clone();
    assert!(by_waiters.find("orders/42") < by_waiters.find("api"), "{by_waiters}");
    assert!(!harness.run(&["top", "--once", "orders"]).out.contains("api"));
    assert!(harness.run(&["top", "--once", "--limit", "1"]).out.contains("more than 1 name in use"));

    let json: Value = serde_json::from_str(&harness.run(&["top", "--once", "--json"]).code(0).out).unwrap();
    assert_eq!((&json["names"], &json["waiters"], &json["more"]), (&2.into(), &1.into(), &false.into()));
    let row = &json["rows"][1];
    assert_eq!((&row["name"], &row["pid"]), (&"orders/42".into(), &holder.id().into()));
    assert!(row["left_seconds"].is_f64() && row["fence"].is_u64() && row["waiters"] == 1, "{row}");
}

#[test]
fn a_live_view_needs_a_terminal() {
    let harness = Harness::new();
    harness.run(&["top"]).code(2).says("--once");
    harness.run(&["top", "--json"]).code(2).says("--once");
}

#[test]
fn keys_sort_and_q_leaves_the_terminal_as_it_was() {
    let harness = Harness::new();
    let _a = harness.hold("aaa", &[]);
    let _b = harness.hold("bbb", &[]);
    let _waiter = harness.start(&["run", "bbb", "--", "true"]);
    harness.until_waiters("bbb", 1);
    let pty = Pty::new();
    let script = "\"$0\" top; echo code-$?; stty -a | grep -o ' -*icanon'; read a; echo got-$a";
    let session = session(&harness, &pty, script);
    pty.until_seen(ENTER);
    until_in_order(&pty, "aaa", "bbb");
    pty.write("w");
    until_in_order(&pty, "bbb", "aaa");
    pty.write("w");
    until_in_order(&pty, "aaa", "bbb");
    // What comes while one looks is seen.
    let _c = harness.hold("ccc", &[]);
    wait_until("the new one", || last_frame(&pty).contains("ccc").then_some(()));
    pty.write("q");
    pty.until_seen("code-0");
    pty.until_seen(" icanon");
    assert!(!pty.seen().contains("-icanon"));
    assert!(pty.seen().contains(LEAVE));
    pty.write("one\n");
    pty.until_seen("got-one");
    session.done().code(0);
}

#[test]
fn enter_shows_a_name_and_a_question_mark_the_keys() {
    let harness = Harness::new();
    let _a = harness.hold("aaa", &[]);
    let _b = harness.hold("bbb", &["--note", "nightly import"]);
    let pty = Pty::new();
    let session = session(&harness, &pty, "\"$0\" top; echo code-$?");
    let until = |words: &str| wait_until(words, || last_frame(&pty).contains(words).then_some(()));
    until("> aaa");
    pty.write("\x1b[B");
    until("> bbb");
    pty.write("\r");
    until("bbb: lock, held");
    until("note nightly import");
    pty.write("?");
    until("sort by the number of waiters");
    pty.write("\x1b");
    until("> bbb");
    pty.write("q");
    pty.until_seen("code-0");
    session.done().code(0);
}

#[test]
fn ctrl_c_leaves_the_terminal_as_it_was() {
    let harness = Harness::new();
    let pty = Pty::new();
    let script = "trap '' INT; (trap - INT; exec \"$0\" top); echo code-$?; stty -a | grep -o ' -*icanon'";
    let session = session(&harness, &pty, script);
    pty.until_seen("0 names in use");
    pty.write("\x03");
    pty.until_seen("code-130");
    pty.until_seen(" icanon");
    assert!(pty.seen().contains(LEAVE));
    session.done().code(0);
}

#[test]
fn ctrl_z_stops_it_and_it_draws_again_when_continued() {
    let harness = Harness::new();
    let pty = Pty::new();
    // With job control, as at a prompt.
    let script = "set -m; \"$0\" top; echo stopped-$?; stty -a | grep -o ' -*icanon'; fg; echo ended-$?";
    let session = session(&harness, &pty, script);
    pty.until_seen("0 names in use");
    pty.write("\x1a");
    pty.until_seen("stopped-");
    pty.until_seen(" icanon");
    wait_until("the page again", || (pty.seen().matches(ENTER).count() == 2).then_some(()));
    pty.write("q");
    pty.until_seen("ended-0");
    session.done().code(0);
}

#[test]
fn a_signal_ends_it() {
    let harness = Harness::new();
    let pty = Pty::new();
    let session = session(&harness, &pty, "echo $$ > pid; exec \"$0\" top");
    let pid = i32::try_from(harness.number("pid")).unwrap();
    pty.until_seen("0 names in use");
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    session.done().code(143);
    wait_until("the page that was there before", || pty.seen().ends_with(LEAVE).then_some(()));
}

#[test]
fn shells_are_told_how_to_complete() {
    let harness = Harness::new();
    for (shell, words) in
        [("bash", "complete -F"), ("zsh", "#compdef tenure"), ("fish", "complete -c tenure")]
    {
        let out = harness.run(&["completions", shell]).code(0).out.clone();
        assert!(out.contains(words) && out.contains("elect") && out.contains("busy-code"), "{shell}");
    }
    harness.run(&["completions", "csh"]).code(2);
}
