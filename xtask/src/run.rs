//! Runs a command with a time limit, in a process group of its own that is killed at the end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long to wait for the remaining output of a killed group.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    Well,
    Badly(String),
}

/// When the output of a command is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Show {
    /// As it comes.
    Now,
    /// By the caller, which gets each line, including standard error.
    Later,
    /// Never: standard output is for machines. Standard error is shown as it comes.
    Never,
}

/// Runs `command` to its end, for at most `limit`. Calls `line` with each line of its output.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    show: Show,
    line: impl FnMut(&str) + Send + 'static,
) -> Ended {
    command.process_group(0).stdin(Stdio::null());
    let output = match both(&mut command, show) {
        Ok(output) => output,
        Err(e) => return Ended::Badly(format!("no pipe: {e}")),
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return Ended::Badly(format!("{} does not start: {e}", command.get_program().display())),
    };
    let group = Group::of(&child);
    // The command holds the write end; while it is open the reader would not see the end of the pipe.
    drop(command);
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        stream(BufReader::new(output), show, line);
        let _ = done.send(());
    });
    let ended = wait(&mut child, limit);
    drop(group);
    let _ = child.wait();
    let _ = finished.recv_timeout(LAST_WORDS);
    ended
}

/// Redirects the output into a pipe; standard error too, if it is shown later.
fn both(command: &mut Command, show: Show) -> std::io::Result<std::io::PipeReader> {
    let (reader, writer) = std::io::pipe()?;
    if show == Show::Later {
        command.stderr(writer.try_clone()?);
    }
    command.stdout(writer);
    Ok(reader)
}

fn stream(mut from: impl BufRead, show: Show, mut line: impl FnMut(&str)) {
    let mut bytes = Vec::new();
    while matches!(from.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
        let text = String::from_utf8_lossy(&bytes);
        if show == Show::Now {
            print!("{text}");
            let _ = std::io::stdout().flush();
        }
        line(text.trim_end());
        bytes.clear();
    }
}

fn wait(child: &mut Child, limit: Duration) -> Ended {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return judged(status),
            Ok(None) if Instant::now() >= end => return Ended::Badly(format!("not done within {limit:?}")),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => return Ended::Badly(format!("cannot be waited for: {e}")),
        }
    }
}

fn judged(status: ExitStatus) -> Ended {
    if status.success() { Ended::Well } else { Ended::Badly(status.to_string()) }
}

/// Kills a process group on drop, and also when this process dies: a shell, which ignores Ctrl-C, waits for the end of
/// its standard input, which this value holds.
struct Group(Option<Child>);

impl Group {
    fn of(leader: &Child) -> Self {
        let script = "trap '' INT TERM HUP; read -r _; kill -s KILL -- \"-$1\" 2>/dev/null";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", &leader.id().to_string()]);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Err(e) = &shell {
            eprintln!("nothing will end a command that hangs, there is no shell: {e}");
        }
        Self(shell.ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut shell) = self.0.take() {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_seen_and_the_end_is_judged() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let to = seen.clone();
        let ended = run(shell("echo one; echo two >&2; exit 3"), LAST_WORDS, Show::Later, move |l| {
            to.lock().unwrap().push(l.to_owned())
        });
        assert_eq!(*seen.lock().unwrap(), ["one", "two"]);
        assert_eq!(ended, Ended::Badly("exit status: 3".into()));
        assert_eq!(run(shell("true"), LAST_WORDS, Show::Now, |_| ()), Ended::Well);
        assert!(matches!(
            run(Command::new("/no/such/program"), LAST_WORDS, Show::Now, |_| ()),
            Ended::Badly(_)
        ));
    }

    #[test]
    fn what_hangs_is_killed_with_all_it_started() {
        let begin = Instant::now();
        let seen = Arc::new(Mutex::new(String::new()));
        let to = seen.clone();
        let ended =
            run(shell("sleep 600 & echo $!; wait"), Duration::from_millis(300), Show::Now, move |l| {
                *to.lock().unwrap() = l.to_owned();
            });
        assert_eq!(ended, Ended::Badly("not done within 300ms".into()));
        assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", begin.elapsed());
        let sleeper = format!("/proc/{}/stat", seen.lock().unwrap());
        let end = Instant::now() + Duration::from_secs(120);
        // Gone, or a zombie that was not reaped yet.
        while std::fs::read_to_string(&sleeper).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < end, "{sleeper} lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
