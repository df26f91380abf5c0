//! The command as a job: runs it in a process group of its own, waits for its end, handles its stops, and makes it die
//! when tenure dies.

use std::future::pending;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_current_process_group,
    kill_process, kill_process_group, test_kill_process_group, wait, waitid, waitpgid,
};
use tenure::backend::Time;
use tokio::signal::unix;

use crate::exit::Exit;
use crate::guardian::Guardian;
use crate::signals::{Disposition, FORWARDED, asks_to_end, is_ignored, listen};
use crate::terminal::Terminal;

pub(crate) struct Job<'a> {
    group: Pid,
    guardian: &'a mut Guardian,
    /// The command itself has not ended; its process group may outlive it.
    running: bool,
    /// The whole process group is to end with the command: it was asked to end, or was killed by a signal.
    ending_group: bool,
    children: unix::Signal,
    /// TSTP, as by Ctrl-Z while tenure is in the foreground.
    stops: Option<unix::Signal>,
    continues: unix::Signal,
    terminal: Option<Terminal>,
}

/// A state change of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It ended, and tenure is to exit in the same way.
    Ended(Exit),
    /// The terminal stopped it, as by Ctrl-Z.
    Stopped,
    /// Tenure got TSTP and sent it to the group.
    StopAsked,
    /// The guardian ended before the command.
    Unguarded,
}

impl<'a> Job<'a> {
    /// Starts the command, which the guardian kills at `until` unless the deadline is extended. Must be called on the
    /// main thread: on Linux the command is killed when the thread that called this dies.
    pub(crate) fn spawn(mut command: Command, guardian: &'a mut Guardian, until: Time) -> io::Result<Self> {
        // Listen before the start, or an early exit might be missed.
        let children = listen(Signal::CHILD)?;
        let continues = listen(Signal::CONT)?;
        let stops = if is_ignored(Signal::TSTP) { None } else { Some(listen(Signal::TSTP)?) };
        command.process_group(0);
        die_with_parent(&mut command);
        guardian.watch_from_start(&mut command, until);
        let child = command.spawn().inspect_err(|_| guardian.stop_watching()).map_err(|error| match error
            .kind()
        {
            io::ErrorKind::BrokenPipe => io::Error::other("the guardian process was killed"),
            _ => error,
        })?;
        let group = Pid::from_child(&child);
        let terminal = Terminal::controlling();
        let mut job = Self {
            group,
            guardian,
            running: true,
            ending_group: false,
            children,
            stops,
            continues,
            terminal,
        };
        if Terminal::is_ours_alone() {
            job.give_terminal();
        }
        Ok(job)
    }

    /// Waits for the next state change of the command.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop and call again.
    pub(crate) async fn change(&mut self) -> Change {
        loop {
            if !self.running {
                return pending().await;
            }
            if !self.ending_group && self.has_exited() {
                // Before it is reaped: after that its PID may be reused by a process that must not be killed.
                self.guardian.stop_watching();
            }
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((child, status))) if child == self.group => {
                    if let Some(change) = self.classify(status) {
                        return change;
                    }
                    continue;
                }
                // The guardian, or an orphan that was reparented to tenure as PID 1 of a container.
                Ok(Some((child, status))) => {
                    if self.guardian.is_reaped(child, status) {
                        return Change::Unguarded;
                    }
                    continue;
                }
                Ok(None) => {}
                // Not a child any more, so its exit status is lost.
                Err(_) => {
                    self.running = false;
                    return Change::Ended(Exit::code(u8::MAX));
                }
            }
            let Self { children, stops, .. } = self;
            tokio::select! {
                _ = children.recv() => {}
                () = recv_if_some(stops) => {
                    self.send(Signal::TSTP);
                    return Change::StopAsked;
                }
            }
        }
    }

    fn classify(&mut self, status: WaitStatus) -> Option<Change> {
        if let Some(signal) = status.stopping_signal() {
            let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
            let from_terminal = wants_terminal || signal == Signal::TSTP.as_raw();
            // A command stopped in another way, by a debugger for example, is left to whoever stopped it.
            let mirrored = self.terminal.is_some() && from_terminal;
            return (mirrored && !(wants_terminal && self.give_terminal())).then_some(Change::Stopped);
        }
        self.running = false;
        if let Some(signal) = status.terminating_signal()
            && !self.ending_group
        {
            self.mark_group_ending();
            // A crash, or the kernel out of memory: the rest of the group does not know yet.
            if !FORWARDED.iter().any(|known| known.as_raw() == signal) {
                self.send(Signal::TERM);
            }
        }
        let in_foreground = self.terminal.as_ref().is_some_and(Terminal::is_given);
        Some(Change::Ended(Exit::from_command(status, in_foreground)))
    }

    /// Whether the command exited by itself, not by a signal.
    fn has_exited(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.group), look).is_ok_and(|status| status.is_some_and(|s| s.exited()))
    }

    /// Whether the rest of the process group is to end with the command.
    pub(crate) fn is_ending_group(&self) -> bool {
        self.ending_group
    }

    fn mark_group_ending(&mut self) {
        self.ending_group = true;
        // Orphans are reparented to tenure, which reaps them. As zombies they would keep the group alive.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
    }

    /// Sets the deadline at which the guardian kills the group, unless it is extended before.
    pub(crate) fn set_deadline(&mut self, until: Time) {
        if self.running || self.ending_group {
            self.guardian.watch_until(self.group, until);
        }
    }

    /// Sends a signal that tenure received to the group, unless the sender broadcast it to all processes.
    pub(crate) async fn forward(&mut self, signal: Signal) {
        if asks_to_end(signal) {
            self.mark_group_ending();
        }
        if !self.guardian.also_received(signal).await {
            self.send(signal);
        }
    }

    /// Sends a signal to the whole group.
    pub(crate) fn send(&self, signal: Signal) {
        // The group may have just ended.
        let _ = kill_process_group(self.group, signal);
    }

    /// Sends TERM to the command and all that it started.
    pub(crate) fn end(&mut self) {
        self.mark_group_ending();
        self.send(Signal::TERM);
    }

    /// Waits until the group is empty. Call it after the command itself has ended.
    pub(crate) async fn wait_until_empty(&self) {
        loop {
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            // The group id is not reused while the group has members.
            if test_kill_process_group(self.group).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops tenure because the command is stopped, and `all` of tenure's own group, so that the shell notices. Returns
    /// when tenure is continued.
    pub(crate) async fn stop_self(&mut self, all: bool) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
        let _default = Disposition::default(Signal::TSTP);
        let _ =
            if all { kill_current_process_group(Signal::TSTP) } else { kill_process(getpid(), Signal::TSTP) };
        // The kernel does not stop an orphaned process group, which nobody could continue; then go on after a moment.
        let _ = tokio::time::timeout(Duration::from_millis(100), self.continues.recv()).await;
    }

    /// Continues a stopped command.
    pub(crate) fn resume(&mut self) {
        if !(Terminal::is_ours_alone() && self.give_terminal()) {
            self.send(Signal::CONT);
        }
    }

    fn give_terminal(&mut self) -> bool {
        let given = self.terminal.as_mut().is_some_and(|t| t.give(self.group));
        if given {
            // It may have been stopped for reading the terminal in the background.
            self.send(Signal::CONT);
        }
        given
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // On a panic the guardian must see tenure die, and kill the command.
        if !std::thread::panicking() {
            self.guardian.stop_watching();
        }
    }
}

/// Reaps orphans that were reparented to tenure as PID 1 of a container. Never returns.
pub(crate) async fn reap_orphans(guardian: &mut Guardian) {
    let Ok(mut children) = listen(Signal::CHILD) else { return pending().await };
    loop {
        while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
            guardian.is_reaped(child, status);
        }
        children.recv().await;
    }
}

async fn recv_if_some(signal: &mut Option<unix::Signal>) {
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
    // SAFETY: this runs between fork and exec of a process with other threads, where only async-signal-safe calls are
    // allowed. These are three bare system calls; neither they nor the error made from an errno allocate or lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the parent died before the call above, no signal is sent.
            if getppid() == parent { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        });
    }
}

/// Not available on this platform: the guardian kills the command a moment later instead.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}
