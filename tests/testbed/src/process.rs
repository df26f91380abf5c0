//! A child process that ends with its parent, even if the parent is killed.
//!
//! The kernel can kill a child when its parent dies (`PR_SET_PDEATHSIG`), but "parent" means the *thread* that started
//! it. So one thread that never ends starts all children. `setpriv` sets the death signal, and then becomes the server,
//! with the same process id.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// Exits if the parent died before `setpriv` set the death signal: then the parent is another process.
const SCRIPT: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;

type Started = std::io::Result<Child>;

fn spawn(command: Command) -> Started {
    static SPAWNER: OnceLock<mpsc::Sender<(Command, mpsc::Sender<Started>)>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (ask, asked) = mpsc::channel::<(Command, mpsc::Sender<Started>)>();
        std::thread::spawn(move || {
            // Ends with the process: the sender is in a static.
            for (mut command, answer) in asked {
                let _ = answer.send(command.spawn());
            }
        });
        ask
    });
    let gone = || std::io::Error::other("the thread that starts servers is gone");
    let (answer, answered) = mpsc::channel();
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

/// The command with these variables, each `NAME=VALUE`; its process id stays the same.
pub(crate) fn with_environment(variables: &[OsString], command: Vec<OsString>) -> Vec<OsString> {
    if variables.is_empty() {
        return command;
    }
    [vec!["env".into()], variables.to_vec(), command].concat()
}

/// A child process that is killed on drop. Its id is not reused until it has been waited for, so signals cannot reach
/// another process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts `words` in `folder`, with its output in `log`.
    pub(crate) fn start(words: &[OsString], folder: &Path, log: &File) -> Result<Self> {
        Self::start_with(words, folder, log, Stdio::null())
    }

    /// Starts `words` in `folder`, with its output in `log`, and this standard input.
    pub(crate) fn start_with(words: &[OsString], folder: &Path, log: &File, stdin: Stdio) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sh", "-c", SCRIPT, "sh"]);
        command.arg(std::process::id().to_string()).args(words).current_dir(folder);
        command.stdin(stdin).stdout(log.try_clone()?).stderr(log.try_clone()?);
        let child = spawn(command).map_err(|e| Error::failed(format!("setpriv does not start: {e}")))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, if it was started with one; once.
    pub(crate) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends a signal; a process that has ended ignores it.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::failed("no process id"))?;
        kill_process(pid, signal).map_err(|e| Error::Io(e.into()))
    }

    /// Returns its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end, up to `within`.
    pub(crate) fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + within;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() >= end => {
                    return Err(Error::failed(format!("process {} does not end", self.pid())));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Kills it and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus> {
        self.child.kill()?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Formats an exit status.
pub(crate) fn shown(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}
