//! The programs of a run, each in a process of its own that ends with this one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Killed on drop.
pub(super) struct Started {
    name: String,
    process: Child,
    log: PathBuf,
}

impl Started {
    /// Starts `command`, which writes into a file of this name in `folder`.
    pub(super) fn start(name: &str, command: &Command, folder: &Path) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{name} does not start: {e}");
        let log = folder.join(format!("{name}.log"));
        let (out, err) = File::create(&log).and_then(|out| Ok((out.try_clone()?, out))).map_err(failed)?;
        // Ends with this process, whatever becomes of it.
        let mut tied = Command::new("setpriv");
        tied.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
        let process = tied.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(failed)?;
        Ok(Self { name: name.to_owned(), process, log })
    }

    /// Looks again and again until there is something to see.
    ///
    /// # Errors
    /// That of `look`; or when the program ends, or nothing is seen for long, with the last lines that it wrote.
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&str) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(seen) = look(&log)? {
                return Ok(seen);
            }
            let why = match self.process.try_wait() {
                Ok(Some(status)) => status.to_string(),
                _ if Instant::now() > end => format!("not within {PATIENCE:?}"),
                _ => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(10)..].join("\n");
            return Err(format!("{}: {what}: {why}\n{last}", self.name));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn it_is_looked_at_until_it_says_so_or_ends() {
        let folder = Scratch::new("started").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; read -r _ </dev/zero; exit 3"]);
        let mut started = Started::start("shell", &command, folder.path()).unwrap();
        let seen = started.until("two", |log| Ok(log.lines().position(|line| line == "two")));
        assert_eq!(seen, Ok(1));
        let mut command = Command::new("sh");
        command.args(["-c", "echo last words; exit 3"]);
        let mut started = Started::start("shell", &command, folder.path()).unwrap();
        let ended = started.until("more", |_| Ok(None::<()>)).unwrap_err();
        assert!(ended.starts_with("shell: more: exit status: 3"), "{ended}");
    }
}
