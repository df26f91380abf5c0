//! Child processes for tests: the test binary runs itself with a role, and communicates through lines of text.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;

use tenure_core::{Client, Settings};
use tenure_sqlite::Options;
use testbed::{FAR, until, wait_until, within};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const ROLE: &str = "TENURE_TEST_ROLE";
const PATH: &str = "TENURE_TEST_PATH";

/// A folder and a path in it.
pub(crate) fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    (folder, path)
}

pub(crate) fn client(path: &Path) -> Client {
    Client::new(tenure_sqlite::open(path, Options::default()).unwrap())
}

/// A client that does not poll, and whose holds do not end: its waiters, and those who wait for it, continue only when
/// they are woken.
pub(crate) fn patient(path: &Path) -> Client {
    let mut settings = Settings::default();
    (settings.poll, settings.lease) = (Some(FAR), FAR);
    Client::with(Arc::new(tenure_sqlite::open(path, Options::default()).unwrap()), settings)
}

/// Waits until `n` processes wait for `name`.
pub(crate) async fn until_waiting(client: &Client, name: &str, n: usize) {
    until(&format!("{n} waiting for {name}"), || async {
        client.show(name).await.unwrap().is_some_and(|s| s.waiters.len() == n)
    })
    .await;
}

/// A child process that runs this test binary.
pub(crate) struct ChildProcess {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: UnboundedReceiver<String>,
}

impl ChildProcess {
    /// Starts this test binary with a role, which `processes::role` runs.
    pub(crate) fn start(role: &str, path: &Path) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), role, path)
    }

    /// Starts it through a command that ends up running this test binary.
    pub(crate) fn start_by(mut command: Command, role: &str, path: &Path) -> Self {
        let mut process = command
            .args(["--exact", "processes::role", "--nocapture", "--quiet"])
            .env(ROLE, role)
            .env(PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = unbounded_channel();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test harness writes lines of its own.
                if let Some((_, said)) = line.split_once('@') {
                    let _ = send.send(said.to_owned());
                }
            }
        });
        let stdin = process.stdin.take();
        Self { process, stdin, lines }
    }

    /// Returns the next line that it prints.
    pub(crate) async fn next_line(&mut self) -> String {
        within("the child process prints a line", self.lines.recv()).await.expect("it is alive")
    }

    /// Lets it continue after `wait_for_parent`.
    pub(crate) fn proceed(&mut self) {
        writeln!(self.stdin.as_mut().unwrap(), "go").unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end, and expects success.
    pub(crate) fn wait_for_success(mut self) {
        drop(self.stdin.take());
        let status = wait_until("the other process ends", || self.process.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In a child process: prints a line for the parent.
pub(crate) fn print_line(line: impl std::fmt::Display) {
    println!("@{line}");
}

/// In a child process: waits for `proceed`.
pub(crate) fn wait_for_parent() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

/// In a child process: its role, and the path of the store.
fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(PATH)?.into()))
}

/// In a child process: runs its role. In the test run itself: nothing.
pub(crate) fn run_role(act: impl AsyncFnOnce(&str, &Path)) {
    let Some((role, path)) = role() else { return };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(act(&role, &path));
}
