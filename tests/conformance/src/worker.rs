//! Another process, controlled over stdin and stdout: each line is a command, each answer one line.
//!
//! `acquire NAME KIND [LEASE_MS]` → `granted SLOT FENCE`; `try NAME KIND` → `granted SLOT FENCE` or `busy`;
//! `release SLOT` → `ok` or `error …`; `held SLOT` → `yes` or `no`; `turns NAME KIND FILE N TASKS` → `added N`.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Guard, Lock, Settings};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Barrier;

use crate::harness::{PATIENCE, within};
use crate::mutex::Mutex;

/// A handle on another process.
pub struct Worker {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) async fn start(binary: &str, url: &str, lease: Duration, poll: Duration) -> Self {
        let mut child = Command::new(binary)
            .args([url, &lease.as_millis().to_string(), &poll.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the worker starts");
        let to = child.stdin.take().expect("piped");
        let from = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, to, from }
    }

    /// Sends a command without waiting for its answer.
    pub async fn send(&mut self, command: &str) {
        self.to.write_all(format!("{command}\n").as_bytes()).await.expect("the worker reads");
    }

    /// Waits for the next answer.
    pub async fn answer(&mut self) -> String {
        let line = within("an answer of the worker", self.from.next_line()).await;
        line.expect("the worker writes").expect("the worker lives")
    }

    /// Sends a command and waits for its answer.
    pub async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.answer().await
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("running")
    }

    /// Makes it close its client and exit.
    pub async fn end(mut self) {
        drop(self.to);
        within("the worker ends", self.child.wait()).await.expect("the worker ends");
    }

    /// Kills it (SIGKILL).
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }
}

/// The lock of the kind that a word names.
pub fn template(client: &Client, name: &str, kind: &str) -> Lock {
    match kind {
        "lock" => client.lock(name),
        "fair" => client.lock(name).fair(),
        "read" => client.rwlock(name).read(),
        "write" => client.rwlock(name).write(),
        permits => {
            let limit = permits.strip_prefix("permit/").and_then(|n| n.parse().ok()).expect("a kind");
            client.semaphore(name, limit).permits(1)
        }
    }
}

/// Main loop of the worker process.
pub async fn serve() {
    let args: Vec<String> = std::env::args().collect();
    let ms = |at: usize| Duration::from_millis(args[at].parse().expect("milliseconds"));
    let mut settings = Settings::default();
    settings.lease = ms(2);
    settings.poll = Some(ms(3));
    settings.call_timeout = PATIENCE;
    settings.outage = PATIENCE;
    let client = loop {
        match tenure::connect_with(&args[1], settings.clone()).await {
            // A busy server may time out at first. The parent process limits how long this may take.
            Err(error) if error.is_transient() => {}
            opened => break opened.expect("the store opens"),
        }
    };
    let mut held: HashMap<u64, Guard> = HashMap::new();
    let mut next = 0;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["acquire" | "try", name, kind, ..] => {
                let mut lock = template(&client, name, kind);
                if let Some(ms) = words.get(3) {
                    lock = lock.lease(Duration::from_millis(ms.parse().expect("milliseconds")));
                }
                let got = match words[0] {
                    "acquire" => lock.acquire().await.map(Some),
                    _ => lock.try_acquire().await,
                };
                match got {
                    Ok(Some(guard)) => {
                        next += 1;
                        let fence = guard.fence().map_or(0, |f| f.0);
                        held.insert(next, guard);
                        format!("granted {next} {fence}")
                    }
                    Ok(None) => "busy".into(),
                    Err(error) => format!("error {error}"),
                }
            }
            ["release", slot] => match held.remove(&slot.parse().expect("a slot")) {
                Some(guard) => guard.release().await.map_or_else(|e| format!("error {e}"), |()| "ok".into()),
                None => "error no such slot".into(),
            },
            ["held", slot] => {
                let is_held = held.get(&slot.parse().expect("a slot")).is_some_and(Guard::is_held);
                if is_held { "yes".into() } else { "no".into() }
            }
            ["turns", name, kind, file, n, tasks] => {
                let (n, tasks) = (n.parse().expect("a number"), tasks.parse().expect("a number"));
                match turns(&client, name, kind, file, n, tasks).await {
                    Ok(added) => format!("added {added}"),
                    Err(error) => format!("error {error}"),
                }
            }
            _ => format!("error what is {line:?}?"),
        };
        println!("{answer}");
    }
    let _ = client.close().await;
}

/// The lock for a task of `turns`, and whether it is exclusive: readers, and requests for fewer than all permits, are
/// not.
fn turn(client: &Client, name: &str, kind: &str, task: usize) -> (Mutex, bool) {
    /// Taking all of them is exclusive.
    const PERMITS: u32 = 3;
    match kind {
        "leader" => (Mutex::Leader(client.election(name)), true),
        "rwlock" if task % 2 == 1 => (Mutex::One(client.rwlock(name).read()), false),
        "rwlock" => (Mutex::One(client.rwlock(name).write()), true),
        "permits" => {
            let n = 1 + task as u32 % PERMITS;
            (Mutex::One(client.semaphore(name, PERMITS).permits(n)), n == PERMITS)
        }
        other => (Mutex::One(template(client, name, other)), true),
    }
}

/// Enters `n` times in each of `tasks` tasks. Exclusive holders add 1 to the number in an unprotected file, the others
/// check that it does not change. Returns how often it was added.
async fn turns(
    client: &Client,
    name: &str,
    kind: &str,
    file: &str,
    n: usize,
    tasks: usize,
) -> tenure::Result<u64> {
    let together = Arc::new(Barrier::new(tasks));
    let each = (0..tasks).map(|task| {
        let ((mutex, alone), file, together) =
            (turn(client, name, kind, task), file.to_owned(), together.clone());
        tokio::spawn(async move {
            let number =
                || std::fs::read_to_string(&file).expect("the file").parse::<u64>().expect("a number");
            for _ in 0..n {
                let held = mutex.acquire().await?;
                let before = number();
                // Gives another task the chance to interfere, if it got in wrongly.
                tokio::time::sleep(Duration::from_millis(1)).await;
                match alone {
                    true => std::fs::write(&file, (before + 1).to_string()).expect("the file"),
                    false => assert_eq!(number(), before, "somebody is inside who should be alone"),
                }
                held.release().await?;
                // All return at once, so that the order of the local queue and of the store's queue diverge.
                together.wait().await;
            }
            Ok::<u64, tenure::Error>(if alone { n as u64 } else { 0 })
        })
    });
    let mut added = 0;
    for task in each.collect::<Vec<_>>() {
        added += task.await.expect("no panic")?;
    }
    Ok(added)
}
