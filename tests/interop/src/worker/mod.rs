//! Tenure in a separate process: understands the same requests as the drivers of other libraries.

mod counter;
mod template;
mod verbs;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::{Notify, mpsc};

use crate::{Peer, Result};
pub use counter::Numbers;
use verbs::Verbs;

/// A process with a Tenure client. Killed on drop.
#[derive(Debug)]
pub struct Worker(Peer);

impl Worker {
    /// Starts `binary`, which is this crate's `interop-worker`, with a client of the store at `url`.
    ///
    /// # Errors
    /// `Io` when it does not start; `Thrown` when it cannot connect.
    pub async fn start(binary: &str, url: &str, numbers: &Numbers) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args([url, &numbers.to_string()]);
        Peer::start(command).await.map(Self)
    }
}

impl Deref for Worker {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.0
    }
}

/// The main loop of `interop-worker`; runs until its standard input ends.
pub async fn serve() {
    let args: Vec<String> = std::env::args().collect();
    let [_, url, numbers] = &args[..] else { panic!("interop-worker URL NUMBERS") };
    let numbers = Numbers::parse(numbers);
    let client = match tenure::connect(url).await {
        Ok(client) => client,
        Err(wrong) => return say("0", Err(wrong.into())),
    };
    say("0", Ok(String::new()));
    let mut threads = HashMap::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let (Some(id), Some(thread), Some(request)) = (words.next(), words.next(), words.next()) else {
            panic!("no request: {line:?}");
        };
        if request == "parked" {
            // Waiters of Tenure miss no message at any point, so there is nothing to wait for.
            say(&id, Ok("true".to_owned()));
            continue;
        }
        let thread =
            threads.entry(thread).or_insert_with(|| work(Verbs::new(client.clone(), numbers.clone())));
        if request == "interrupt" {
            thread.interrupted.notify_waiters();
            say(&id, Ok(String::new()));
            continue;
        }
        thread.requests.send((id, request)).expect("it works until this end closes");
    }
    // The parent has gone: leave what is held to its lease, as after a crash.
    std::process::exit(0);
}

struct Thread {
    requests: mpsc::UnboundedSender<(String, String)>,
    /// Cancels the current request.
    interrupted: Arc<Notify>,
}

/// Spawns a task that executes the requests of one thread.
fn work(mut verbs: Verbs) -> Thread {
    let (requests, mut next) = mpsc::unbounded_channel::<(String, String)>();
    let interrupted = Arc::new(Notify::new());
    let stop = interrupted.clone();
    tokio::spawn(async move {
        while let Some((id, request)) = next.recv().await {
            let outcome = tokio::select! {
                outcome = verbs.perform(&request) => outcome,
                () = stop.notified() => Err(Wrong("Interrupted".into(), request.clone())),
            };
            say(&id, outcome);
        }
    });
    Thread { requests, interrupted }
}

/// Why a request failed: the error variant, in place of a class, and the message.
struct Wrong(String, String);

impl From<tenure::Error> for Wrong {
    fn from(error: tenure::Error) -> Self {
        let debug = format!("{error:?}");
        let variant = debug.split([' ', '(']).next().unwrap_or_default();
        Self(variant.to_owned(), error.to_string())
    }
}

fn say(id: &str, outcome: std::result::Result<String, Wrong>) {
    let line = match outcome {
        Ok(value) if value.is_empty() => format!("{id} ok"),
        Ok(value) => format!("{id} ok {value}"),
        Err(Wrong(class, message)) => format!("{id} error {class} {message}"),
    };
    println!("{}", line.replace('\n', " "));
}
