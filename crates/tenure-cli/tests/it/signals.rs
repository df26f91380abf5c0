//! Signals: passed on to the whole group, ending a wait, and the death of tenure itself.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use testbed::wait_until;

use crate::common::{Bench, Running, child, children, in_time, is_alive, until_dead};

const SPIN: &str = "while :; do sleep 0.02; done";

#[test]
fn a_signal_ends_the_wait_and_leaves_no_waiter() {
    for (signal, options) in [
        (Signal::TERM, &[][..]),
        (Signal::INT, &["--fair"]),
        (Signal::HUP, &["--wait", "30m"]),
        (Signal::QUIT, &["--limit", "1"]),
    ] {
        let bench = Bench::new();
        let _holder = bench
            .hold("demo", if options == ["--limit", "1"] || options == ["--fair"] { options } else { &[] });
        let waiting = bench.start(&[&["run", "demo"][..], options, &["--", "touch", "ran"]].concat());
        bench.until_waiters("demo", 1);
        waiting.send(signal);
        // Nothing else would end it: the holder stays.
        waiting.done().died_of(signal);
        let after = bench.show("demo");
        assert_eq!(after["waiters"], serde_json::json!([]), "{signal:?}");
        assert_eq!(after["holders"].as_array().unwrap().len(), 1);
        assert!(bench.read("ran").is_none());
    }
}

#[test]
fn signals_reach_the_whole_group() {
    for (signal, trap) in [(Signal::TERM, "TERM"), (Signal::USR1, "USR1"), (Signal::HUP, "HUP")] {
        let bench = Bench::new();
        let script = format!(
            "(trap 'echo 1 > inner; exit' {trap}; echo 1 > ready; {SPIN}) &
             trap 'exit 7' {trap}; echo $$ > pid; {SPIN}"
        );
        let running = bench.start(&["run", "demo", "-c", &script]);
        bench.number("ready");
        bench.number("pid");
        running.send(signal);
        running.done().code(7);
        bench.number("inner");
        // Released, not lost.
        bench.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
    }
}

#[test]
fn a_signal_that_ends_the_command_shows_in_the_code() {
    for signal in [Signal::INT, Signal::QUIT, Signal::USR2] {
        let bench = Bench::new();
        let running = bench.start(&["run", "demo", "--", "sleep", "600"]);
        // From here on it has its own name, and the dispositions it will keep.
        let pid = child(running.id(), "sleep");
        running.send(signal);
        running.done().died_of(signal);
        assert!(!is_alive(pid));
    }
}

#[test]
fn a_signal_that_the_command_survives_ends_nothing() {
    let bench = Bench::new();
    let script = "trap 'echo 1 > usr' USR2; echo 1 > ready; until [ -e end ]; do sleep 0.02; done; exit 3";
    let mut running = bench.start(&["run", "demo", "-c", script]);
    bench.number("ready");
    running.send(Signal::USR2);
    bench.number("usr");
    assert!(running.is_running());
    bench.run(&["run", "demo", "--no-wait", "--", "true"]).code(75);
    bench.touch("end");
    running.done().code(3);
}

#[test]
fn what_is_ignored_stays_ignored() {
    let bench = Bench::new();
    let mut command = Command::new("sh");
    let script = "echo 1 > ready; until [ -e end ]; do sleep 0.02; done; exit 3";
    command.args(["-c", "trap '' HUP; exec \"$0\" run demo -c \"$1\"", env!("CARGO_BIN_EXE_tenure"), script]);
    command.current_dir(bench.path("")).env("TENURE_URL", bench.url());
    let running = Running::start(command);
    bench.number("ready");
    running.send(Signal::HUP);
    // It is handled in order: were HUP passed on, the command would not see this one's end.
    running.send(Signal::USR1);
    running.done().died_of(Signal::USR1);
}

#[test]
fn the_command_dies_with_tenure_and_the_lock_is_free_after_a_lease() {
    // Long enough to be held until it is killed; and nobody looks again by himself.
    let bench = Bench::with("?lease=6s&poll=30m");
    let running = bench.start(&["run", "demo", "-c", "echo $$ > pid; exec sleep 600"]);
    let pid = bench.number("pid");
    assert!(is_alive(pid));
    running.send(Signal::KILL);
    assert_eq!(running.done().status.code(), None);
    until_dead(pid);
    bench.run(&["run", "demo", "--", "true"]).code(0);
}

#[test]
fn what_the_command_leaves_behind_lives_on() {
    let bench = Bench::new();
    bench
        .run(&[
            "run",
            "demo",
            "-c",
            "(exec >&- 2>&-; until [ -e end ]; do sleep 0.02; done; echo 1 > left) & exit 0",
        ])
        .code(0);
    bench.run(&["run", "demo", "--no-wait", "--", "true"]).code(0);
    bench.touch("end");
    wait_until("what was left behind", || bench.read("left"));
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

#[test]
fn a_signal_to_all_processes_of_a_service_comes_once() {
    // The service manager is the first process.
    let manager = r#"
        "$0" run demo -c '
            trap "echo t >> got" TERM; trap "echo u >> got" USR2
            echo $$ > pid; until [ -e end ]; do sleep 0.02; done; exit 3' &
        tenure=$!
        until [ -s pid ]; do sleep 0.02; done
        guardian=$(grep -l tenure-guardian /proc/[0-9]*/comm | cut -d/ -f3)
        kill -TERM $(cat pid)
        until [ -s got ]; do sleep 0.02; done
        kill -TERM $guardian $tenure
        # They are passed on in order: with this one the command has got all.
        kill -USR2 $tenure
        until grep -q u got; do sleep 0.02; done
        touch end
        wait $tenure"#;
    in_time(|| {
        let bench = Bench::new();
        let words = ["sh", "-c", manager, env!("CARGO_BIN_EXE_tenure")];
        let Some(mut command) = first_process(&words) else { return Ok(()) };
        command.current_dir(bench.path("")).env("TENURE_URL", bench.url());
        Running::captured(command).done().code(3);
        let got = bench.read("got").unwrap();
        (got.matches('t').count() == 1).then_some(()).ok_or(format!("TERM came more than once: {got:?}"))
    });
}

#[test]
fn a_signal_to_both_processes_of_tenure_is_passed_on() {
    let bench = Bench::new();
    let script = "trap 'exit 3' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let running = bench.start(&["run", "demo", "-c", script]);
    bench.number("pid");
    // As `pkill -f 'tenure run'`.
    let guardian = child(running.id(), "tenure-guardian");
    kill_process(Pid::from_raw(guardian.try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
    running.send(Signal::TERM);
    running.done().code(3);
}

#[test]
fn as_the_first_process_of_a_container_it_reaps() {
    let bench = Bench::new();
    let script = "sh -c 'sleep 600 &'; until [ -e end ]; do sleep 0.02; done; exit 3";
    let words = [env!("CARGO_BIN_EXE_tenure"), "run", "demo", "-c", script];
    let Some(mut command) = first_process(&words) else { return };
    command.current_dir(bench.path("")).env("TENURE_URL", bench.url());
    let running = Running::captured(command);
    let tenure = u32::try_from(child(running.id(), "tenure")).unwrap();
    // It has lost its parent, and is given to the first process.
    let orphan = child(tenure, "sleep");
    kill_process(Pid::from_raw(orphan.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_until("its end", || children(tenure).iter().all(|(pid, _)| *pid != orphan).then_some(()));
    bench.touch("end");
    running.done().code(3);
}
