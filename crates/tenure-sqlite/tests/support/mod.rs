//! Other processes for tests: the test binary runs itself with a role, and talks through lines.

#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tenure_core::Client;
use tenure_sqlite::Options;

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Well below the poll of two seconds: whoever is this fast was woken.
pub const WOKEN: Duration = Duration::from_millis(500);

const ROLE: &str = "TENURE_TEST_ROLE";
const PATH: &str = "TENURE_TEST_PATH";

/// A folder and a path in it.
pub fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    (folder, path)
}

pub fn client(path: &Path) -> Client {
    Client::new(tenure_sqlite::open(path, Options::default()).unwrap())
}

/// Waits until `look` sees something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < give_up, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until `n` processes wait for `name`.
pub async fn until_waiting(client: &Client, name: &str, n: usize) {
    let waiting = async || {
        let seen = client.show(name).await.unwrap();
        (seen.is_some_and(|s| s.waiters.len() == n)).then_some(())
    };
    until(&format!("{n} waiting for {name}"), waiting).await;
}

/// Another process.
pub struct Other {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Other {
    /// Starts this test binary in a role; its test `role` must call [`play`].
    pub fn start(role: &str, path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture", "--quiet"])
            .env(ROLE, role)
            .env(PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
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

    /// The next line it says.
    pub async fn says(&self) -> String {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(1)) {
                Ok(line) => return line,
                Err(RecvTimeoutError::Timeout) if Instant::now() < give_up => tokio::task::yield_now().await,
                Err(e) => panic!("the other process says nothing: {e}"),
            }
        }
    }

    /// Tells it to go on.
    pub fn go(&mut self) {
        writeln!(self.stdin.as_mut().unwrap(), "go").unwrap();
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub fn ends_well(mut self) {
        drop(self.stdin.take());
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.process.try_wait().unwrap() {
                Some(status) => return assert!(status.success(), "{status}"),
                None if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(2)),
                None => panic!("the other process does not end"),
            }
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says a line to whoever started this process.
pub fn say(line: impl std::fmt::Display) {
    println!("@{line}");
}

/// Waits until told to go on.
pub fn wait_for_go() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

/// In another process: the role to play, and the path of the store.
pub fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(PATH)?.into()))
}

/// In another process: plays its role. In the test run itself: nothing.
pub fn play(act: impl AsyncFnOnce(&str, &Path)) {
    let Some((role, path)) = role() else { return };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(act(&role, &path));
}
