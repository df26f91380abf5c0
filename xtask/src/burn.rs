//! `--stress`: processes that keep all cores busy while the tests run.

use std::process::{Child, Command, Stdio};

/// Busy processes, one for each core. They end when this value is dropped, or with this process.
pub(crate) struct Burners(Vec<Child>);

impl Burners {
    /// Starts the processes.
    ///
    /// # Errors
    /// When one does not start.
    pub(crate) fn start() -> Result<Self, String> {
        let mut burners = Self(Vec::new());
        for _ in 0..crate::cores() {
            // The busy loop is killed by the shell beside it, which waits for the end of its standard input.
            let script = "while :; do :; done & read -r _; kill $!";
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            burners.0.push(shell.spawn().map_err(|e| format!("nothing to burn with: {e}"))?);
        }
        Ok(burners)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for shell in &mut self.0 {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The children of a process, from `/proc`.
    fn children(of: u32) -> Vec<String> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids =
            processes.filter_map(|p| p.file_name().into_string().ok()).filter(|p| p.parse::<u32>().is_ok());
        let parent = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
        };
        pids.filter(|pid| parent(pid) == Some(of)).collect()
    }

    #[test]
    fn what_burns_is_put_out() {
        let burners = Burners::start().unwrap();
        assert_eq!(burners.0.len(), crate::cores());
        let shell = burners.0[0].id();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
        let burning = loop {
            match children(shell) {
                none if none.is_empty() => assert!(std::time::Instant::now() < end, "nothing burns"),
                burning => break burning,
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        drop(burners);
        let gone = || burning.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists());
        while !gone() {
            assert!(std::time::Instant::now() < end, "{burning:?} burn on");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
