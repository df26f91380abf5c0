//! A process with a client, controlled line by line (see the drivers of this crate).
//!
//! A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`. Requests of one thread
//! are executed one after the other, and a thread is an owner.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use testbed::PATIENCE;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::{Error, Result};

type Answer = std::result::Result<String, (String, String)>;

/// Requests in flight; `None` once the process has ended.
type Open = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>>;

/// A client process. Killed on drop.
#[derive(Debug)]
pub struct Peer {
    child: tokio::sync::Mutex<Child>,
    pid: u32,
    requests: mpsc::UnboundedSender<String>,
    open: Open,
    next: AtomicU64,
}

impl Peer {
    /// Starts it, and waits until it is connected.
    ///
    /// # Errors
    /// `Io` when it does not start; `Thrown` when it cannot connect.
    pub async fn start(mut command: Command) -> Result<Self> {
        let shown = command.as_std().get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.map_err(|e| Error::Io(shown, e))?;
        let pid = child.id().expect("not awaited yet");
        let to = child.stdin.take().expect("piped");
        let from = child.stdout.take().expect("piped");
        let (requests, lines) = mpsc::unbounded_channel();
        let (ready, is_ready) = oneshot::channel();
        let open = Open::new(Mutex::new(Some(HashMap::from([(0, ready)]))));
        tokio::spawn(write(to, lines));
        tokio::spawn(read(from, open.clone()));
        let peer = Self { child: child.into(), pid, requests, open, next: AtomicU64::new(1) };
        Pending { request: "start".into(), answer: is_ready }.answer().await?;
        Ok(peer)
    }

    /// Executes `request` in the thread `thread` and returns the answer; `""` if there is no value.
    ///
    /// # Errors
    /// `Thrown` for an exception in the peer, `Late` when it hangs, `Ended` when the process is gone.
    pub async fn call(&self, thread: &str, request: &str) -> Result<String> {
        self.spawn(thread, request).answer().await
    }

    /// Sends a request without waiting for its answer.
    pub fn spawn(&self, thread: &str, request: &str) -> Pending {
        let id = self.next.fetch_add(1, SeqCst);
        let (reply, answer) = oneshot::channel();
        if let Some(open) = &mut *self.open.lock().unwrap() {
            open.insert(id, reply);
            // Fails if the process has ended, and then `read` drops the reply sender.
            let _ = self.requests.send(format!("{id} {thread} {request}\n"));
        }
        Pending { request: format!("{thread} {request}"), answer }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub async fn kill(&self) {
        self.child.lock().await.kill().await.expect("killed");
    }
}

/// A request in flight. Dropping it does not cancel the request.
#[derive(Debug)]
#[must_use = "the answer is what counts"]
pub struct Pending {
    request: String,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Peer::call`].
    pub async fn answer(self) -> Result<String> {
        self.answer_while(|| ()).await
    }

    /// Waits for the answer to a long request: it counts as hanging only if what `progress` returns does not change.
    ///
    /// # Errors
    /// As [`Peer::call`].
    pub async fn answer_while<T: PartialEq>(mut self, progress: impl Fn() -> T) -> Result<String> {
        let mut seen = progress();
        loop {
            match timeout(PATIENCE, &mut self.answer).await {
                Ok(Ok(Ok(value))) => return Ok(value),
                Ok(Ok(Err((class, message)))) => return Err(Error::Thrown { class, message }),
                Ok(Err(_)) => return Err(Error::Ended { request: self.request }),
                Err(_) => {
                    let now = progress();
                    if now == seen {
                        return Err(Error::Late { request: self.request });
                    }
                    seen = now;
                }
            }
        }
    }

    /// Whether there is no answer yet.
    pub fn is_open(&self) -> bool {
        self.answer.is_empty()
    }
}

async fn write(mut to: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        if to.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(from: ChildStdout, open: Open) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Some((id, answer)) = parse(&line) else {
            eprintln!("the driver says {line:?}");
            continue;
        };
        let reply = open.lock().unwrap().as_mut().and_then(|open| open.remove(&id));
        if let Some(reply) = reply {
            // The caller may have timed out.
            let _ = reply.send(answer);
        }
    }
    // The process has ended: drop all reply senders, and refuse later requests.
    *open.lock().unwrap() = None;
}

/// Parses `ID ok VALUE` or `ID error CLASS MESSAGE`.
fn parse(line: &str) -> Option<(u64, Answer)> {
    let mut words = line.splitn(3, ' ');
    let id = words.next()?.parse().ok()?;
    let (verdict, rest) = (words.next()?, words.next().unwrap_or_default());
    match verdict {
        "ok" => Some((id, Ok(rest.to_owned()))),
        "error" => {
            let (class, message) = rest.split_once(' ').unwrap_or((rest, ""));
            Some((id, Err((class.to_owned(), message.to_owned()))))
        }
        _ => None,
    }
}
