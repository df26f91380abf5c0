//! The command as a job: a process group of its own, its exit code, its stops, and its death with tenure's.

use std::future::pending;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_current_process_group, kill_process,
    kill_process_group, test_kill_process_group, waitpgid, waitpid,
};
use tokio::signal::unix;

use crate::signals::{Disposition, is_ignored, listen};
use crate::terminal::Terminal;

pub(crate) struct Job {
    group: Pid,
    /// The command itself; its process group may outlive it.
    running: bool,
    children: unix::Signal,
    /// Ctrl-Z while tenure is in the foreground.
    stops: Option<unix::Signal>,
    continues: unix::Signal,
    terminal: Option<Terminal>,
}

/// What happened to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It ended with this code: 128 + n if signal n ended it.
    Ended(u8),
    /// It was stopped from the terminal, as Ctrl-Z does.
    Stopped,
    /// Tenure was asked to stop, and passed that on.
    StopAsked,
}

impl Job {
    /// Starts the command. To be called on the main thread: on Linux the death of the thread that calls this is what
    /// kills the command.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        // Before the start, or its end might be missed.
        let children = listen(Signal::CHILD)?;
        let continues = listen(Signal::CONT)?;
        let stops = if is_ignored(Signal::TSTP) { None } else { Some(listen(Signal::TSTP)?) };
        command.process_group(0);
        die_with_parent(&mut command);
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        let mut job =
            Self { group, running: true, children, stops, continues, terminal: Terminal::controlling() };
        if Terminal::is_ours_alone() {
            job.give_terminal();
        }
        Ok(job)
    }

    /// What happens next to the command. Safe to drop and call again.
    pub(crate) async fn change(&mut self) -> Change {
        loop {
            if !self.running {
                return pending().await;
            }
            match waitpid(Some(self.group), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((_, status))) => {
                    if let Some(change) = self.judge(status) {
                        return change;
                    }
                    continue;
                }
                Ok(None) => {}
                // Not a child any more: nothing will ever be heard of it.
                Err(_) => {
                    self.running = false;
                    return Change::Ended(u8::MAX);
                }
            }
            let Self { children, stops, .. } = self;
            tokio::select! {
                _ = children.recv() => {}
                () = heard(stops) => {
                    self.send(Signal::TSTP);
                    return Change::StopAsked;
                }
            }
        }
    }

    fn judge(&mut self, status: WaitStatus) -> Option<Change> {
        if let Some(signal) = status.stopping_signal() {
            let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
            let from_terminal = wants_terminal || signal == Signal::TSTP.as_raw();
            // One that was stopped in another way, by a debugger say, is left to whoever did it.
            let mirrored = self.terminal.is_some() && from_terminal;
            return (mirrored && !(wants_terminal && self.give_terminal())).then_some(Change::Stopped);
        }
        self.running = false;
        let code = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code,
            (_, Some(signal)) => 128 + signal,
            _ => i32::from(u8::MAX),
        };
        Some(Change::Ended(u8::try_from(code).unwrap_or(u8::MAX)))
    }

    /// Sends a signal to the whole group.
    pub(crate) fn send(&self, signal: Signal) {
        // An empty group is no error: it may have just ended.
        let _ = kill_process_group(self.group, signal);
    }

    /// Tells the command to end, and all that it started.
    pub(crate) fn end(&self) {
        // Those that lose their parent become tenure's children: where nobody reaps them they would seem to live on.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
        self.send(Signal::TERM);
    }

    /// Waits until nobody is left in the group. Call it after the command itself has ended.
    pub(crate) async fn emptied(&self) {
        loop {
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            // The number cannot be given to another process while the group has members.
            if test_kill_process_group(self.group).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops tenure as the command is, and `all` of tenure's own group, so that the shell notices. Returns when tenure
    /// is continued.
    pub(crate) async fn stop_too(&mut self, all: bool) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
        let _default = Disposition::default(Signal::TSTP);
        let _ =
            if all { kill_current_process_group(Signal::TSTP) } else { kill_process(getpid(), Signal::TSTP) };
        // Where nobody could continue it the system does not stop it: then go on after a moment.
        let _ = tokio::time::timeout(Duration::from_millis(100), self.continues.recv()).await;
    }

    /// Lets a stopped command go on.
    pub(crate) fn resume(&mut self) {
        if !(Terminal::is_ours_alone() && self.give_terminal()) {
            self.send(Signal::CONT);
        }
    }

    fn give_terminal(&mut self) -> bool {
        let given = self.terminal.as_mut().is_some_and(|t| t.give(self.group));
        if given {
            // It may have asked for the terminal before, and been stopped for it.
            self.send(Signal::CONT);
        }
        given
    }
}

async fn heard(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => pending().await,
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{getppid, set_parent_process_death_signal};
    let parent = Some(getpid());
    // SAFETY: this runs between fork and exec of a process with other threads, where only calls that are safe in a
    // signal handler are allowed. These are three bare system calls; neither they nor the error made from a number
    // allocate or lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // A parent that died before the line above sends no signal.
            if getppid() == parent { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        });
    }
}

/// There is no such thing here: a command outlives a tenure that is killed.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}
