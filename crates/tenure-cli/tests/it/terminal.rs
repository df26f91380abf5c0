//! What only shows on a terminal: colours, the waiting line, and who may read it.

use testbed::wait_until;

use crate::common::{Harness, Running};
use crate::pty::{Pty, session};

#[test]
fn colours_are_for_terminals_and_can_be_refused() {
    let harness = Harness::new();
    let _holder = harness.hold("demo", &[]);
    for (no_color, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let pty = Pty::new();
        let mut command = harness.tenure(["ls"]);
        command.stdout(pty.end());
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        Running::start(command).done().code(0);
        pty.until_seen("demo");
        pty.until_seen("\n");
        assert_eq!(pty.seen().contains('\x1b'), coloured, "NO_COLOR={no_color:?}: {:?}", pty.seen());
    }
}

#[test]
fn a_waiting_run_shows_for_whom_and_wipes_it() {
    let harness = Harness::new();
    let holder = harness.hold("demo", &["--note", "nightly"]);
    let pty = Pty::new();
    let mut command = harness.tenure(["run", "demo", "--", "true"]);
    command.stderr(pty.end());
    let waiting = Running::start(command);
    // The seconds in the line as it is now.
    let waited = || {
        let seen = pty.seen();
        let (_, line) = seen.rsplit_once("\rtenure: waiting for demo (")?;
        line.split_once(" s), held by ")?.0.parse::<u32>().ok()
    };
    let first = wait_until("the waiting line", waited);
    pty.until_seen(&format!(":{} since 20", holder.id()));
    // Written anew, with the time gone on.
    wait_until("more seconds", || waited().filter(|now| *now > first));
    harness.touch("end");
    waiting.done().code(0);
    wait_until("the wiped line", || pty.seen().ends_with("\r\x1b[K").then_some(()));
    assert!(!pty.seen().contains('\n'), "one line all the time: {:?}", pty.seen());
}

/// The command reads a line from the terminal, and then the script that started it another.
fn the_command_and_its_script_read(script: &str) {
    let harness = Harness::new();
    let pty = Pty::new();
    let session = session(&harness, &pty, script);
    pty.write("one\n");
    pty.until_seen("got-one");
    pty.write("two\n");
    pty.until_seen("then-two");
    session.done().code(0);
}

#[test]
fn the_command_reads_the_terminal_and_gives_it_back() {
    the_command_and_its_script_read("\"$0\" run demo -c 'read a; echo got-$a'; read b; echo then-$b");
}

#[test]
fn a_command_in_a_pipeline_gets_the_terminal_when_it_asks() {
    the_command_and_its_script_read("\"$0\" run demo -c 'read a; echo got-$a' | cat; read b; echo then-$b");
}

#[test]
fn ctrl_c_reaches_the_command() {
    let harness = Harness::new();
    let pty = Pty::new();
    // A trap, since a shell that forks as the signal comes may forget it.
    let inner = "trap 'exit 5' INT; echo 1 > ready; while :; do sleep 0.02; done";
    let script = format!("trap '' INT; (trap - INT; exec \"$0\" run demo -c \"{inner}\"); echo code-$?");
    let session = session(&harness, &pty, &script);
    harness.number("ready");
    pty.write("\x03");
    pty.until_seen("code-5");
    session.done().code(0);
    harness.run(&["show", "demo"]).code(1);
}

#[test]
fn ctrl_c_ends_a_loop_of_the_shell() {
    let harness = Harness::new();
    let pty = Pty::new();
    let script =
        "for i in 1 2 3; do \"$0\" run demo -c \"echo $i >> turns; exec sleep 600\"; done; echo after";
    let mut session = session(&harness, &pty, script);
    wait_until("the first turn", || harness.read("turns").filter(|turns| turns == "1\n"));
    pty.write("\x03");
    // With a code that only looks like it the second turn would begin.
    wait_until("an end", || {
        (!session.is_running() || harness.read("turns").is_some_and(|turns| turns.contains('2')))
            .then_some(())
    });
    assert_eq!(harness.read("turns").unwrap(), "1\n");
    assert!(!pty.seen().contains("after"), "{:?}", pty.seen());
    harness.run(&["show", "demo"]).code(1);
}
