//! `tenure run`: what the command sees, what comes out, who is let in.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::wait_until;

use crate::common::{Harness, Running};

#[test]
fn standard_output_belongs_to_the_command() {
    let harness = Harness::new();
    let done = harness.run(&["run", "demo", "--", "echo", "held"]);
    done.code(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("held\n", ""));
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let harness = Harness::new();
    harness.run(&["run", "demo", "--", "true"]).code(0);
    harness.run(&["run", "demo", "--", "sh", "-c", "exit 3"]).code(3);
    harness.run(&["run", "demo", "-c", "kill -TERM $$"]).code(128 + 15);
    harness.run(&["run", "demo", "-c", "kill -KILL $$"]).code(128 + 9);
    harness.run(&["run", "demo", "--", "no-such-command"]).code(127).says("cannot run no-such-command");
    harness.touch("plain");
    harness.run(&["run", "demo", "--", "./plain"]).code(126).says("cannot run ./plain");
    // And none of them left it held.
    harness.run(&["show", "demo"]).code(1);
}

#[test]
fn once_per_period_counts_what_succeeded() {
    let harness = Harness::new();
    let once = |command: &'static str| harness.run(&["run", "report", "--once-per", "1d", "-c", command]);
    once("exit 3").code(3);
    once("echo sent").code(0);
    once("echo again").code(75).says("busy");
    let shown = harness.run(&["show", "report", "--json"]);
    shown.code(0);
    assert!(shown.out.contains("\"left"), "its end is shown: {shown:?}");
    harness.run(&["release", "report", "--force", "--yes"]).code(0);
    once("echo again").code(0);
    harness.run(&["run", "report", "--once-per", "1d", "--wait", "1s", "--", "true"]).code(2).says("--wait");
}

#[test]
fn once_per_period_fails_if_the_store_does_not_hear_of_it() {
    let harness = Harness::new();
    let url = format!("{}?lease=2s", harness.url());
    let command = "touch runs; while [ ! -e go ]; do sleep 0.02; done";
    let once = harness.start(&["--url", &url, "run", "report", "--once-per", "1d", "-c", command]);
    wait_until("it runs", || harness.read("runs"));
    let _blocked = harness.block();
    harness.touch("go");
    once.done().code(69).says("report may run again within");
}

#[test]
fn at_least_keeps_it_after_the_command() {
    let harness = Harness::new();
    harness.run(&["run", "demo", "--at-least", "1h", "--", "sh", "-c", "exit 3"]).code(3);
    harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(75);
    harness.run(&["run", "short", "--at-least", "10ms", "--", "true"]).code(0);
    harness.run(&["run", "short", "--", "true"]).code(0);
}

#[test]
fn wrong_usage_is_2() {
    let harness = Harness::new();
    harness.run(&["run", "demo"]).code(2);
    harness.run(&["run", "demo", "--wait", "1s", "--no-wait", "--", "true"]).code(2).says("--no-wait");
    harness.run(&["run", "demo", "--url", "sqlit:x", "--", "true"]).code(2).says("did you mean sqlite:?");
    harness.run(&["run", &"x".repeat(600), "--", "true"]).code(2).says("512");
    harness.run(&["run", "demo", "--lease", "1ms", "--", "true"]).code(2).says("too short");
    harness.run(&["run", "demo", "--limit", "2", "--permits", "3", "--", "true"]).code(2).says("3 permits");
    let copies = harness.run(&["run", "demo", "--durability", "replicas:1", "--", "touch", "ran"]);
    copies.code(2).says("durability replicas:1 is not supported");
    harness.run(&["run", "demo", "--durability", "one", "--", "true"]).code(2).says("replicas:N");
    assert!(harness.read("ran").is_none());
}

#[test]
fn a_store_that_does_not_answer_is_69() {
    let harness = Harness::new();
    harness.run(&["run", "demo", "--", "true"]).code(0);
    let _blocked = harness.block();
    let url = format!("{}?call_timeout=300ms", harness.url());
    let run = |options: &[&str]| {
        harness.start(&[&["--url", &url, "run", "demo"], options, &["--", "touch", "ran"]].concat())
    };
    let (first, second) = (run(&[]), run(&["--unavailable-code", "9", "--no-wait"]));
    let failed = first.done();
    failed.code(69).says("sqlite: ");
    assert!(!failed.err.contains("waiting"), "nobody is waited for: {failed:?}");
    second.done().code(9);
    assert!(harness.read("ran").is_none());
}

#[test]
fn without_a_home_there_is_no_default_store() {
    let harness = Harness::new();
    // The user database names one for whoever runs tests. This one is of no use.
    let mut command = harness.tenure(["ls"]);
    command.env_clear().env("TENURE_URL", "").env("HOME", "relative").env("TMPDIR", harness.path(""));
    Running::captured(command).done().code(2).says("--url sqlite:/").says("TENURE_URL");
    assert!(harness.path("").read_dir().unwrap().next().is_none(), "nothing is made elsewhere");
    let mut command = harness.tenure(["run", "demo", "--", "echo", "held"]);
    command.env("TENURE_URL", "").env("HOME", harness.path("")).env("XDG_STATE_HOME", harness.path("state"));
    let done = Running::captured(command).done();
    assert_eq!((done.code(0).out.as_str(), done.err.as_str()), ("held\n", ""));
    assert!(harness.path("state").read_dir().unwrap().next().is_some(), "the file is made on first use");
}

#[test]
fn a_script_runs_in_a_shell_and_a_command_does_not() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["run", "demo", "-c", "echo a b | wc -w"]).out.trim(), "2");
    assert_eq!(harness.run(&["run", "demo", "--", "echo", "$HOME", "|", "wc"]).out, "$HOME | wc\n");
}

#[test]
fn the_command_sees_what_it_holds() {
    let harness = Harness::new();
    let seen = || {
        let out = harness
            .run(&["run", "a b", "-c", "echo $TENURE_NAME; echo $TENURE_FENCE; echo $TENURE_HOLD"])
            .out;
        let lines: Vec<String> = out.lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "a b");
        (lines[1].parse::<u64>().unwrap(), lines[2].clone())
    };
    let (first, second, third) = (seen(), seen(), seen());
    assert!(first.0 < second.0 && second.0 < third.0, "fences grow: {first:?} {second:?} {third:?}");
    assert_ne!(first.1, second.1);
}

#[test]
fn busy_is_75_or_what_was_asked_for() {
    let harness = Harness::new();
    let holder = harness.hold("demo", &["--note", "nightly"]);
    let busy = harness.run(&["run", "demo", "--no-wait", "--", "touch", "ran"]);
    busy.code(75).says("demo is busy").says(&format!(":{} since 20", holder.id())).says("(nightly)");
    let timed_out = harness.run(&["run", "demo", "--wait", "300ms", "--", "touch", "ran"]);
    timed_out.code(75).says("still busy after ");
    assert!(timed_out.took >= Duration::from_millis(300), "{timed_out:?}");
    let quiet = harness.run(&["-q", "run", "demo", "--no-wait", "--busy-code", "9", "--", "touch", "ran"]);
    assert_eq!(quiet.code(9).err, "");
    assert!(harness.read("ran").is_none());
    harness.touch("end");
    holder.done().code(0);
}

#[test]
fn the_next_goes_on_as_soon_as_the_first_ends() {
    // Neither the end of the lease nor another look would let it in.
    let harness = Harness::with("?lease=30m&poll=30m");
    let nanos = |file: &str| harness.number(file);
    let first = harness.start(&[
        "run",
        "demo",
        "-c",
        "echo 1 > in; until [ -e end ]; do sleep 0.01; done; date +%s%N > left",
    ]);
    nanos("in");
    let second = harness.start(&["run", "demo", "-c", "date +%s%N > entered"]);
    harness.until_waiters("demo", 1);
    harness.touch("end");
    first.done().code(0);
    second.done().code(0);
    let (left, entered) = (nanos("left"), nanos("entered"));
    assert!(entered > left, "both were in at once: {entered} {left}");
}

#[test]
fn waiting_is_told_once_and_quiet_does_not_tell() {
    let harness = Harness::new();
    let holder = harness.hold("demo", &[]);
    let waiting = harness.start(&["run", "demo", "--", "true"]);
    let words = "waiting for demo, held by ";
    wait_until(words, || waiting.said().contains(words).then_some(()));
    // It would be told again each second.
    std::thread::sleep(Duration::from_millis(1200));
    waiting.send(Signal::TERM);
    let told = waiting.done();
    assert_eq!(told.code(143).err.matches(words).count(), 1, "{told:?}");
    assert_eq!(harness.run(&["run", "-q", "demo", "--wait", "700ms", "--", "true"]).code(75).err, "");
    drop(holder);
}

#[test]
fn a_limit_admits_that_many() {
    let harness = Harness::new();
    let two = [harness.hold("api", &["--limit", "2"]), harness.hold("api", &["--limit", "2"])];
    harness.run(&["run", "api", "--limit", "2", "--no-wait", "--", "true"]).code(75);
    let snapshot = harness.show("api");
    assert_eq!((snapshot["holders"].as_array().unwrap().len(), &snapshot["size"]), (2, &2.into()));
    harness.touch("end");
    two.into_iter().for_each(|h| {
        h.done().code(0);
    });
    // One that counts as both keeps everyone else out.
    std::fs::remove_file(harness.path("end")).unwrap();
    let _both = harness.hold("api", &["--limit", "2", "--permits", "2"]);
    harness.run(&["run", "api", "--limit", "2", "--no-wait", "--", "true"]).code(75);
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let harness = Harness::new();
    let readers = [harness.hold("cache", &["--shared"]), harness.hold("cache", &["--shared"])];
    harness.run(&["run", "cache", "--exclusive", "--no-wait", "--", "true"]).code(75);
    harness.touch("end");
    readers.into_iter().for_each(|h| {
        h.done().code(0);
    });
    std::fs::remove_file(harness.path("end")).unwrap();
    let _writer = harness.hold("cache", &["--exclusive"]);
    harness.run(&["run", "cache", "--shared", "--no-wait", "--", "true"]).code(75);
    let mixed = harness.run(&["run", "cache", "--no-wait", "--", "true"]);
    mixed.code(2).says("cache");
}

#[test]
fn the_fair_are_served_in_order() {
    let harness = Harness::new();
    let holder = harness.hold("queue", &["--fair"]);
    let line = |n: usize| {
        let waiter = harness.start(&["run", "queue", "--fair", "-c", &format!("echo {n} >> order")]);
        harness.until_waiters("queue", n);
        waiter
    };
    let waiters = [line(1), line(2), line(3)];
    harness.touch("end");
    holder.done().code(0);
    waiters.into_iter().for_each(|w| {
        w.done().code(0);
    });
    assert_eq!(harness.read("order").unwrap(), "1\n2\n3\n");
}

#[test]
fn events_are_json_lines() {
    let harness = Harness::new();
    let done = harness.run(&["run", "demo", "--json", "--note", "n", "-c", "echo out; exit 4"]);
    assert_eq!(done.code(4).out, "out\n");
    let events = done.events();
    assert_eq!((&events[0]["event"], &events[0]["name"]), (&"acquired".into(), &"demo".into()));
    assert!(events[0]["fence"].is_u64() && events[0]["hold"].is_string() && events[0]["waited_ms"].is_u64());
    assert_eq!(events[1], serde_json::json!({"event": "released", "name": "demo", "code": 4}));
    assert_eq!(events.len(), 2);

    let _holder = harness.hold("demo", &[]);
    let events = harness.run(&["--json", "run", "demo", "--no-wait", "--", "true"]).code(75).events();
    assert_eq!((events.len(), &events[0]["event"]), (1, &"busy".into()));
    assert!(events[0]["holders"][0]["pid"].is_u64());
    let events = harness.run(&["--json", "--url", "x", "run", "demo", "--", "true"]).code(2).events();
    assert_eq!(events[0]["event"], "error");
}

#[test]
fn wrong_usage_is_json_too() {
    let harness = Harness::new();
    for line in
        [&["run", "demo", "--json"][..], &["--json", "run", "demo", "--fair", "--limit", "2", "--", "x"]]
    {
        let done = harness.run(line);
        let events = done.code(2).events();
        assert_eq!((events.len(), &events[0]["event"]), (1, &"error".into()), "{done:?}");
        assert!(events[0]["message"].as_str().unwrap().contains("Usage: tenure run"), "{done:?}");
    }
    // What belongs to the command says nothing about tenure.
    harness
        .run(&["run", "demo", "--nonsense", "--", "x", "--json"])
        .code(2)
        .says("error: unexpected argument");
    assert!(harness.run(&["run", "--help", "--json"]).code(0).out.contains("Exit codes:"));
}

#[test]
fn without_contention_it_takes_a_moment() {
    let harness = Harness::new();
    harness.run(&["run", "demo", "--", "true"]).code(0);
    // The best of some, beside a command that neither takes nor runs anything: others may use the machine. Whoever
    // waited for as much as a waiter is given before it is told would take fifty times as long.
    let once = |line: &[&str]| {
        let begun = Instant::now();
        assert!(harness.tenure(line).stdout(Stdio::null()).status().unwrap().success());
        begun.elapsed()
    };
    // In turns: what slows the machine down for a while slows both down.
    let pairs: Vec<_> = (0..20).map(|_| (once(&["ls"]), once(&["run", "demo", "--", "true"]))).collect();
    let (look, run) = (pairs.iter().map(|p| p.0).min().unwrap(), pairs.iter().map(|p| p.1).min().unwrap());
    assert!(run < look * 20, "{run:?} beside {look:?}");
}

#[test]
fn a_nested_run_holds_both() {
    let harness = Harness::with("?lease=30m");
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let nested =
        harness.run(&["run", "outer", "--", tenure, "run", "inner", "-c", "echo $TENURE_NAME; exit 5"]);
    assert_eq!(nested.code(5).out, "inner\n");
    wait_until("both to be free", || {
        let free = |name| harness.show(name).is_null();
        (free("outer") && free("inner")).then_some(())
    });
}

#[test]
fn a_command_without_dashes_gets_a_hint() {
    let harness = Harness::new();
    let hint = "put `--` before the command to run: tenure run x -- echo 'hi there'";
    harness.run(&["run", "x", "echo", "hi there"]).code(2).says(hint);
    harness.run(&["elect", "x", "--once", "date"]).code(2).says("tenure elect x --once -- date");
    let json = harness.run(&["run", "x", "echo", "--json"]);
    assert!(json.code(2).events()[0]["message"].as_str().unwrap().contains("-- echo"), "{json:?}");
    assert!(
        !harness.run(&["run", "x", "--lemit", "2", "--", "date"]).code(2).err.contains("before the command")
    );
}

#[test]
fn another_kind_on_the_name_is_named() {
    let harness = Harness::new();
    harness.run(&["run", "seats", "--limit", "2", "--", "true"]).code(0);
    let file = harness.path("locks.db").display().to_string();
    harness
        .run(&["run", "seats", "--", "true"])
        .code(2)
        .says(&format!("tenure: sqlite {file}: seats is in use as a semaphore and cannot be a lock too"));
}
