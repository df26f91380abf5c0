//! Another process: this test binary, started again and controlled line by line.
//!
//! `acquire NAME` and `wait NAME` (in the background) → `ok`; `mind` → `ok`, and then, after the process was
//! stopped for a while, whether the first guard was held on continuing, and whether work under it went on.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use testbed::PATIENCE;
use tokio::sync::oneshot;

use super::harness::{self, SESSION};

const PORT: &str = "TENURE_FAILURES_PORT";
/// Marks our lines among those of the test harness.
const OURS: &str = "> ";
/// A process that was stopped for this long has no session any more.
const STANDS_STILL: Duration = SESSION;
const STEP: Duration = Duration::from_millis(1);

pub(crate) struct Worker {
    child: Child,
    from: Option<BufReader<ChildStdout>>,
}

impl Worker {
    /// Its session timeout is [`SESSION`].
    pub(crate) fn start(port: u16) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "failures::worker::run", "--ignored", "--nocapture", "--test-threads=1"])
            .env(PORT, port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let from = child.stdout.take().map(BufReader::new);
        let mut worker = Self { child, from };
        assert_eq!(worker.answer(), "ready");
        worker
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        let to = self.child.stdin.as_mut().expect("piped");
        writeln!(to, "{command}").expect("the worker reads");
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut from = self.from.take().expect("one reads at a time");
        let (from, line) = testbed::with_deadline("an answer of the worker", PATIENCE, move || {
            let mut line = String::new();
            loop {
                line.clear();
                let read = from.read_line(&mut line).expect("the worker writes");
                assert!(read > 0, "the worker lives");
                if let Some((_, ours)) = line.split_once(OURS) {
                    let ours = ours.trim_end().to_owned();
                    return (from, ours);
                }
            }
        })
        .expect("in time");
        self.from = Some(from);
        line
    }

    /// `STOP`, `CONT` or `KILL`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "{signal}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// The other process: not a test, but this program started again with only this function selected. A library crate has
/// no other program to start, and this one needs the helpers of the tests. It is ignored in a normal run, where it
/// would do nothing; the tests in `shutdown.rs` fail without it.
#[test]
#[ignore = "run by other tests, as a process of its own"]
fn run() {
    let Some(port) = std::env::var(PORT).ok().and_then(|port| port.parse().ok()) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = harness::client(harness::options(port, SESSION)).await;
        let mut guards = Vec::new();
        say("ready");
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            match line.split_once(' ') {
                Some(("acquire", name)) => guards.push(client.lock(name).acquire().await.unwrap()),
                Some(("wait", name)) => drop(harness::wait_for(client.lock(name))),
                _ => {
                    let (client, guard) = (client.clone(), guards.remove(0));
                    let (begun, begins) = oneshot::channel();
                    tokio::spawn(async move { mind(&client, guard, begun).await });
                    begins.await.unwrap();
                }
            }
            say("ok");
        }
    });
}

fn say(what: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\n{OURS}{what}").unwrap();
    out.flush().unwrap();
}

/// Reports what a thread and work under the guard see right after the process continues.
async fn mind(client: &tenure_core::Client, guard: tenure_core::Guard, begun: oneshot::Sender<()>) {
    let guard = Arc::new(guard);
    let (clock, looked) = (client.backend().info().clock().clone(), guard.clone());
    let (looks, looking) = oneshot::channel();
    let first_look = tokio::task::spawn_blocking(move || {
        let mut last = clock.now();
        looks.send(()).unwrap();
        loop {
            std::thread::sleep(STEP);
            let now = clock.now();
            if now.since(last) > STANDS_STILL {
                return looked.is_held();
            }
            last = now;
        }
    });
    looking.await.unwrap();
    let (mut last, mut went_on) = (harness::now(client), false);
    let work = async {
        begun.send(()).unwrap();
        loop {
            tokio::time::sleep(STEP).await;
            went_on |= harness::now(client).since(last) > STANDS_STILL;
            last = harness::now(client);
        }
    };
    let ended: tenure_core::Result<()> = guard.while_held(work).await;
    let held = first_look.await.unwrap();
    say(&format!("woke held={held} went_on={went_on} told={}", ended.is_err()));
}
