//! Another process, steered line by line: each line is a command, each answer one line.
//!
//! `acquire NAME KIND [LEASE_MS]` → `granted SLOT FENCE`; `try NAME KIND` → `granted SLOT FENCE` or `busy`;
//! `release SLOT` → `ok` or `error …`; `held SLOT` → `yes` or `no`; `add NAME KIND FILE N TASKS` → `done`.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Guard, Lock, Settings};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bench::{PATIENCE, within};

/// A process of its own.
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

    /// The next answer.
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

    /// SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }
}

/// The template that a word names.
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

/// The worker's own main loop.
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
            // A server that is busy may not answer a first time. Whoever started this waits with a patience.
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
            ["add", name, kind, file, n, tasks] => {
                let (n, tasks) = (n.parse().expect("a number"), tasks.parse().expect("a number"));
                add(&template(&client, name, kind), file, n, tasks).await;
                "done".into()
            }
            _ => format!("error what is {line:?}?"),
        };
        println!("{answer}");
    }
    let _ = client.close().await;
}

/// Adds 1 to the number in an unprotected file, `n` times in each of `tasks` tasks, under `lock`.
pub async fn add(lock: &Lock, file: &str, n: usize, tasks: usize) {
    let (lock, file) = (Arc::new(lock.clone()), Arc::new(file.to_owned()));
    let each = (0..tasks).map(|_| {
        let (lock, file) = (lock.clone(), file.clone());
        tokio::spawn(async move {
            for _ in 0..n {
                let guard = lock.acquire().await.expect("granted");
                let number: u64 =
                    std::fs::read_to_string(&*file).expect("the file").trim().parse().expect("a number");
                // Room for another to come between, if there is one.
                tokio::time::sleep(Duration::from_millis(1)).await;
                std::fs::write(&*file, (number + 1).to_string()).expect("the file");
                guard.release().await.expect("released");
                // Room for the queue here and in the store to come apart: others come while this one is away.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    });
    for task in each.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}
