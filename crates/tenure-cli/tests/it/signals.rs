//! Signals: passed on to the whole group, ending a wait, and the death of tenure itself.

use std::process::Command;

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use testbed::wait_until;

use crate::common::{
    Harness, Running, child, children, in_time, is_alive, signal, stop, until_dead, until_reaped,
};

const SPIN: &str = "while :; do sleep 0.02; done";

#[test]
fn a_signal_ends_the_wait_and_leaves_no_waiter() {
    for (signal, options) in [
        (Signal::TERM, &[][..]),
        (Signal::INT, &["--fair"]),
        (Signal::HUP, &["--wait", "30m"]),
        (Signal::QUIT, &["--limit", "1"]),
    ] {
        let harness = Harness::new();
        let _holder = harness
            .hold("demo", if options == ["--limit", "1"] || options == ["--fair"] { options } else { &[] });
        let waiting = harness.start(&[&["run", "demo"][..], options, &["--", "touch", "ran"]].concat());
        harness.until_waiters("demo", 1);
        waiting.send(signal);
        // Nothing else would end it: the holder stays.
        waiting.done().died_of(signal);
        let after = harness.show("demo");
        assert_eq!(after["waiters"], serde_json::json!([]), "{signal:?}");
        assert_eq!(after["holders"].as_array().unwrap().len(), 1);
        assert!(harness.read("ran").is_none());
    }
}

#[test]
fn signals_reach_the_whole_group() {
    for (signal, trap) in [(Signal::TERM, "TERM"), (Signal::USR1, "USR1"), (Signal::HUP, "HUP")] {
        let harness = Harness::new();
        let script = format!(
            "(trap 'echo 1 > inner; exit' {trap}; echo 1 > ready; {SPIN}) &
             trap 'exit 7' {trap}; echo $$ > pid; {SPIN}"
        );
        let running = harness.start(&["run", "demo", "-c", &script]);
        harness.number("ready");
        harness.number("pid");
        running.send(signal);
        running.done().code(7);
        harness.number("inner");
        // Released, not lost.
        harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
    }
}

/// What goes at once, and leaves one behind that needs until the file `end` is there. It says when it was `told`.
const SLOW: &str = "(trap 'echo 1 > told' TERM; echo 1 > ready; until [ -e end ]; do sleep 0.02; done
                     echo 1 > finished) & echo $$ > pid; wait";

/// The process of a command that was started with [`SLOW`].
#[track_caller]
fn slow(harness: &Harness, options: &[&str]) -> (Running, u64) {
    let running = harness.start(&[&["run", "demo"], options, &["-c", SLOW]].concat());
    harness.number("ready");
    let pid = harness.number("pid");
    (running, pid)
}

#[test]
fn children_of_a_signalled_command_end_before_the_lock_is_free() {
    // As Ctrl-C or a service manager do, and as the kernel does for want of memory.
    for to_all in [true, false] {
        let harness = Harness::with("?lease=30m");
        let (running, pid) = slow(&harness, &["--grace", "30m"]);
        if to_all {
            running.send(Signal::TERM);
        } else {
            signal(pid, Signal::KILL);
        }
        harness.number("told");
        until_reaped(pid);
        for _ in 0..10 {
            harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(75);
        }
        harness.touch("end");
        running.done().code(if to_all { 143 } else { 137 });
        assert!(harness.read("finished").is_some());
        harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
    }
}

#[test]
fn children_of_a_signalled_command_have_the_grace() {
    let harness = Harness::with("?lease=30m");
    let stubborn =
        "(trap '' TERM; sh -c 'echo $$ > left; while :; do sleep 0.02; done') & echo $$ > pid; wait";
    let running = harness.start(&["run", "demo", "--grace", "300ms", "-c", stubborn]);
    let left = harness.number("left");
    harness.number("pid");
    running.send(Signal::TERM);
    running.done().died_of(Signal::TERM);
    assert!(!is_alive(left));
    harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
}

#[test]
fn children_of_a_signalled_command_do_not_outlive_the_lock() {
    let harness = Harness::with("?lease=9s");
    let (running, pid) = slow(&harness, &["--grace", "30m"]);
    running.send(Signal::TERM);
    harness.number("told");
    until_reaped(pid);
    std::fs::remove_file(harness.path("told")).unwrap();
    harness.run(&["release", "demo", "--force", "--yes"]).code(0);
    // Once more, since the lock is lost.
    harness.number("told");
    harness.touch("end");
    running.done().code(76).says("demo is lost: ");
}

#[test]
fn signals_that_came_before_the_end_of_the_command_do_not_keep_the_lock() {
    for _ in 0..10 {
        let harness = Harness::with("?lease=30m");
        let script = "echo $$ > pid; until [ -e end ]; do sleep 0.02; done; exit 3";
        let running = harness.start(&["run", "demo", "-c", script]);
        let pid = harness.number("pid");
        // All that follows is new to tenure at the same moment.
        stop(running.id().into());
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
            running.send(signal);
        }
        harness.touch("end");
        until_dead(pid);
        running.send(Signal::CONT);
        running.done().code(3);
        harness.run(&["show", "demo"]).code(1);
    }
}

#[test]
fn a_signal_that_ends_the_command_shows_in_the_code() {
    for signal in [Signal::INT, Signal::QUIT, Signal::USR2] {
        let harness = Harness::new();
        let running = harness.start(&["run", "demo", "--", "sleep", "600"]);
        // From here on it has its own name, and the dispositions it will keep.
        let pid = child(running.id(), "sleep");
        running.send(signal);
        running.done().died_of(signal);
        assert!(!is_alive(pid));
    }
}

#[test]
fn a_signal_that_the_command_survives_ends_nothing() {
    let harness = Harness::new();
    let script = "trap 'echo 1 > usr' USR2; echo 1 > ready; until [ -e end ]; do sleep 0.02; done; exit 3";
    let mut running = harness.start(&["run", "demo", "-c", script]);
    harness.number("ready");
    running.send(Signal::USR2);
    harness.number("usr");
    assert!(running.is_running());
    harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(75);
    harness.touch("end");
    running.done().code(3);
}

#[test]
fn ignored_signals_stay_ignored() {
    let harness = Harness::new();
    let mut command = Command::new("sh");
    let script = "echo 1 > ready; until [ -e end ]; do sleep 0.02; done; exit 3";
    command.args(["-c", "trap '' HUP; exec \"$0\" run demo -c \"$1\"", env!("CARGO_BIN_EXE_tenure"), script]);
    command.current_dir(harness.path("")).env("TENURE_URL", harness.url());
    let running = Running::start(command);
    harness.number("ready");
    running.send(Signal::HUP);
    // It is handled in order: were HUP passed on, the command would not see this one's end.
    running.send(Signal::USR1);
    running.done().died_of(Signal::USR1);
}

#[test]
fn the_command_dies_with_tenure_and_the_lock_is_free_after_a_lease() {
    // Long enough to be held until it is killed; and nobody looks again by himself.
    let harness = Harness::with("?lease=6s&poll=30m");
    let running = harness.start(&["run", "demo", "-c", "echo $$ > pid; exec sleep 600"]);
    let pid = harness.number("pid");
    assert!(is_alive(pid));
    running.send(Signal::KILL);
    assert_eq!(running.done().status.code(), None);
    until_dead(pid);
    harness.run(&["run", "demo", "--", "true"]).code(0);
}

#[test]
fn background_processes_of_the_command_live_on() {
    let harness = Harness::new();
    harness
        .run(&[
            "run",
            "demo",
            "-c",
            "(exec >&- 2>&-; until [ -e end ]; do sleep 0.02; done; echo 1 > left) & exit 0",
        ])
        .code(0);
    harness.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
    harness.touch("end");
    wait_until("what was left behind", || harness.read("left"));
}

/// A process namespace of its own for these words. `None` where that is not allowed.
fn first_process(words: &[&str]) -> Option<Command> {
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        if !rustix::process::getuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).args(words);
        command
    };
    let allowed = unshare(&["true"]).status().is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("not tried: there are no process namespaces here");
    }
    allowed.then(|| unshare(words))
}

/// A shell under the name of a program that ends services.
fn service_manager(harness: &Harness) -> PathBuf {
    let path = harness.path("tini");
    symlink("/bin/sh", &path).unwrap();
    path
}

#[test]
fn a_signal_to_all_processes_of_a_service_comes_once() {
    // The service manager is the first process, and the command no longer at its start.
    let manager = r#"
        "$0" run demo -c '
            trap "echo t >> got" TERM; trap "echo u >> got" USR2
            echo $$ > pid; until [ -e end ]; do sleep 0.02; done; exit 3' &
        tenure=$!
        until [ -s pid ]; do sleep 0.02; done
        guardian=$(grep -l tenure-guardian /proc/[0-9]*/comm | cut -d/ -f3)
        kill -TERM $(cat pid)
        until [ -s got ]; do sleep 0.02; done
        sleep 1.1
        kill -TERM $guardian $tenure
        # They are passed on in order: with this one the command has got all.
        kill -USR2 $tenure
        until grep -q u got; do sleep 0.02; done
        touch end
        wait $tenure"#;
    in_time(|| {
        let harness = Harness::new();
        let shell = service_manager(&harness);
        let words = [shell.to_str().unwrap(), "-c", manager, env!("CARGO_BIN_EXE_tenure")];
        let Some(mut command) = first_process(&words) else { return Ok(()) };
        command.current_dir(harness.path("")).env("TENURE_URL", harness.url());
        Running::captured(command).done().code(3);
        let got = harness.read("got").unwrap();
        (got.matches('t').count() == 1).then_some(()).ok_or(format!("TERM came more than once: {got:?}"))
    });
}

#[test]
fn a_script_that_is_the_first_process_signals_whom_it_means() {
    let script = r#"
        "$0" run demo -c 'trap "exit 3" TERM; echo $$ > pid; while :; do sleep 0.02; done' &
        tenure=$!
        until [ -s pid ]; do sleep 0.02; done
        guardian=$(grep -l tenure-guardian /proc/[0-9]*/comm | cut -d/ -f3)
        sleep 1.1
        kill -TERM $guardian $tenure
        wait $tenure"#;
    let harness = Harness::new();
    let words = ["sh", "-c", script, env!("CARGO_BIN_EXE_tenure")];
    let Some(mut command) = first_process(&words) else { return };
    command.current_dir(harness.path("")).env("TENURE_URL", harness.url());
    Running::captured(command).done().code(3);
}

#[test]
fn a_signal_to_both_processes_of_tenure_is_passed_on() {
    let harness = Harness::new();
    let script = "trap 'exit 3' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let running = harness.start(&["run", "demo", "-c", script]);
    harness.number("pid");
    // As `pkill -f 'tenure run'`.
    let guardian = child(running.id(), "tenure-guardian");
    signal(guardian, Signal::TERM);
    running.send(Signal::TERM);
    running.done().code(3);
}

#[test]
fn as_the_first_process_of_a_container_it_reaps() {
    let harness = Harness::new();
    let script = "sh -c 'sleep 600 &'; until [ -e end ]; do sleep 0.02; done; exit 3";
    let words = [env!("CARGO_BIN_EXE_tenure"), "run", "demo", "-c", script];
    let Some(mut command) = first_process(&words) else { return };
    command.current_dir(harness.path("")).env("TENURE_URL", harness.url());
    let running = Running::captured(command);
    let tenure = u32::try_from(child(running.id(), "tenure")).unwrap();
    // It has lost its parent, and is given to the first process.
    let orphan = child(tenure, "sleep");
    signal(orphan, Signal::KILL);
    wait_until("its end", || children(tenure).iter().all(|(pid, _)| *pid != orphan).then_some(()));
    harness.touch("end");
    running.done().code(3);
}

#[test]
fn as_the_first_process_it_reaps_and_heeds_signals_while_it_connects() {
    for command in ["run", "elect"] {
        // Whoever connects is never answered.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let harness = Harness::at(format!("redis://{}?timeout=30m", silent.local_addr().unwrap()));
        let script = "(sleep 600 &); exec \"$0\" \"$1\" demo -- touch ran";
        let words = ["sh", "-c", script, env!("CARGO_BIN_EXE_tenure"), command];
        let Some(mut first) = first_process(&words) else { return };
        first.current_dir(harness.path("")).env("TENURE_URL", harness.url());
        let running = Running::captured(first);
        let _connection = silent.accept().unwrap();
        let tenure = child(running.id(), "tenure");
        let orphan = child(tenure.try_into().unwrap(), "sleep");
        signal(orphan, Signal::KILL);
        until_reaped(orphan);
        signal(tenure, Signal::TERM);
        running.done().code(143);
        assert!(harness.read("ran").is_none());
    }
}
