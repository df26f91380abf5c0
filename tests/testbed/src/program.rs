//! A program of the tests' own as a child process: controlled over its standard input and by signals, and killed with
//! this process.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::Process;
use crate::{Error, PATIENCE, Result};

/// A child process. Killed on drop, and when this process ends in any way.
#[derive(Debug)]
pub struct Program {
    process: Mutex<Process>,
    to: Mutex<Option<ChildStdin>>,
}

impl Program {
    /// Starts `words` in `folder`, with its output in `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(words: &[OsString], folder: &Path, log: &File) -> Result<Self> {
        let mut process = Process::start_with(words, folder, log, Stdio::piped())?;
        let to = Mutex::new(process.stdin());
        Ok(Self { process: Mutex::new(process), to })
    }

    /// The process id; it is not used again before this is dropped.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// When it has ended.
    pub fn tell(&self, line: &str) -> Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let to = to.as_mut().ok_or_else(|| Error::failed("it has no standard input"))?;
        Ok(to.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Suspends it (SIGSTOP), and waits until all its threads stand still.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&self) -> Result<()> {
        self.process().signal(Signal::STOP)?;
        wait_until_stopped(self.pid())
    }

    /// Continues it (SIGCONT).
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.process().signal(Signal::CONT)
    }

    /// Kills it (SIGKILL) and waits for its end.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(&self) -> Result<()> {
        self.process().kill().map(drop)
    }

    /// Returns its exit status, if it has ended.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        self.process().ended()
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until all threads of a process that was sent SIGSTOP stand still: one of them may run on for a moment.
pub(crate) fn wait_until_stopped(pid: u32) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_stopped(pid) {
        if Instant::now() >= end {
            return Err(Error::failed(format!("process {pid} does not stop")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether it has ended, or all its threads are stopped: `T` behind the name in `/proc/PID/task/TID/stat`.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else { return true };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't' | 'Z' | 'X'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_and_stands_still_when_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = File::create(&path).unwrap();
        let program = Program::start(&["cat".into()], folder.path(), &log).unwrap();
        let said = || std::fs::read_to_string(&path).unwrap();
        program.tell("one").unwrap();
        crate::wait_until_true("it repeats", || said() == "one\n");
        program.stop().unwrap();
        assert!(is_stopped(program.pid()));
        program.tell("two").unwrap();
        assert_eq!(said(), "one\n");
        program.resume().unwrap();
        crate::wait_until_true("it goes on", || said() == "one\ntwo\n");
        program.kill().unwrap();
        assert!(program.ended().unwrap().is_some());
    }
}
