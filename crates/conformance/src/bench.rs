//! What a case works with: a fresh world and clients of it.
//!
//! Times in cases are far apart, so that a slow machine never decides. What must end has [`SHORT`], what must last has
//! [`FAR`], and what is seen to be renewed has [`RENEWED`]. Clients poll after [`FAR`] as well: whoever gets in within
//! the patience of a case was woken by a signal.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub use testbed::{FAR, PATIENCE, done, until, within};

use tenure::backend::Backend;
use tenure::backend::Liveness;
use tenure::testing::Faults;
use tenure::{Client, Holder, Result, Settings};

use crate::stores::World;
use crate::worker::Worker;

/// The lease of what must end. Nothing is said of it while it lasts: it may be over at any moment.
pub const SHORT: Duration = Duration::from_secs(1);

/// The lease of what is seen to be renewed, every three seconds. A machine would have to stand still for six.
pub const RENEWED: Duration = Duration::from_secs(9);

/// What a process that will die leaves behind is over after this: its lease, its queue position, its session.
pub const VICTIM: Duration = Duration::from_secs(3);

/// Long enough for what must not happen to happen.
pub const A_WHILE: Duration = Duration::from_millis(150);

/// What a case works with.
pub struct Bench {
    world: Box<dyn World>,
    chaos: Option<u64>,
    clients: AtomicU64,
    open: Mutex<Vec<Client>>,
    worker: &'static str,
}

impl Bench {
    /// On this world, behind a bad network with this seed if there is one.
    pub fn new(world: Box<dyn World>, chaos: Option<u64>, worker: &'static str) -> Self {
        Self { world, chaos, clients: AtomicU64::new(0), open: Mutex::default(), worker }
    }

    /// Whether commands are delayed, repeated, reordered and lost: cases then allow more time.
    pub fn is_chaotic(&self) -> bool {
        self.chaos.is_some()
    }

    /// A backend of its own, as another process would have it.
    pub fn backend(&self) -> Arc<dyn Backend> {
        let backend = self.bare();
        match self.chaos {
            None => backend,
            Some(seed) => Arc::new(Faults::chaos(backend, seed + self.clients.fetch_add(1, SeqCst))),
        }
    }

    /// A backend without the bad network, to look at the store or to build other layers on.
    pub fn bare(&self) -> Arc<dyn Backend> {
        // A server that is busy with the cases beside this one may not answer a first time.
        testbed::wait_until("the store opens", || match self.world.backend() {
            Err(error) if error.is_transient() => None,
            opened => Some(opened.expect("the store opens")),
        })
    }

    /// Settings in which nothing ends by itself. Behind a bad network something may be left in the store for one lease,
    /// and whoever waits for it looks now and then.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        (settings.lease, settings.poll) = if self.is_chaotic() { (RENEWED, None) } else { (FAR, Some(FAR)) };
        settings.call_timeout = PATIENCE;
        settings.outage = PATIENCE;
        settings.close_timeout = PATIENCE;
        settings
    }

    /// Settings with the lease of what is renewed while a case looks on.
    pub fn renewing(&self) -> Settings {
        let mut settings = self.settings();
        settings.lease = RENEWED;
        settings
    }

    /// A client of its own.
    pub fn client(&self) -> Client {
        self.client_with(self.settings())
    }

    /// A client of its own with these settings.
    pub fn client_with(&self, settings: Settings) -> Client {
        let client = Client::with(self.backend(), settings);
        self.open.lock().unwrap().push(client.clone());
        client
    }

    /// A client without the bad network.
    pub fn observer(&self) -> Client {
        Client::with(self.bare(), self.settings())
    }

    /// Another process on the same world.
    pub async fn process(&self) -> Worker {
        Worker::start(self.worker, &self.url(), FAR, FAR).await
    }

    /// One that will die or stand still: what it has in the store ends soon after.
    pub async fn victim(&self) -> Worker {
        let url = self.world.victims_url().expect("only cases marked so ask for processes");
        Worker::start(self.worker, &url, VICTIM, VICTIM / 3).await
    }

    /// The address of the world for other processes.
    pub fn url(&self) -> String {
        self.world.url().expect("only cases marked so ask for an address")
    }

    /// Whether holds live as long as a session here: nobody can see when they end, a lease is kept by its client, and
    /// all kinds have a queue.
    pub fn has_sessions(&self) -> bool {
        self.bare().info().liveness == Liveness::Session
    }

    /// How long a holder has left as the store shows it, or `None` where it cannot.
    pub fn left(&self, holder: &Holder) -> Option<Duration> {
        assert_eq!(holder.left.is_none(), self.has_sessions(), "{holder:?}");
        holder.left
    }

    /// Whether a name that is good elsewhere is refused here.
    pub fn refuses(&self, name: &str) -> bool {
        self.world.refuses(name)
    }

    /// After a case: nobody holds or waits for anything, within what the store needs to forget the dead.
    pub async fn nothing_left(&self) {
        let clients = std::mem::take(&mut *self.open.lock().unwrap());
        for client in clients {
            let _ = client.close().await;
        }
        let look = self.observer();
        until("nothing is left behind", || async {
            let left = look.list("", 1000).await.unwrap();
            left.iter().all(|s| s.holders.is_empty() && s.waiters.is_empty())
        })
        .await;
    }
}

/// Polls a future at most `k` times, then drops it. What it came to if it was ready before.
///
/// Between polls it waits until the future wants to be polled again, as an executor would.
pub async fn poll_times<F: Future>(work: F, k: usize) -> Option<F::Output> {
    let mut work = Box::pin(work);
    for _ in 0..k {
        let (start, limit) = (Instant::now(), Duration::from_millis(100));
        let done = tokio::time::timeout(limit, Once { work: work.as_mut(), polled: false }).await;
        match done {
            Ok(Some(out)) => return Some(out),
            Ok(None) if start.elapsed() < limit => {}
            // Nothing more comes of polling it.
            _ => break,
        }
    }
    None
}

/// Polls once, then waits for the wake-up.
struct Once<'a, F> {
    work: Pin<&'a mut F>,
    polled: bool,
}

impl<F: Future> Future for Once<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polled {
            return Poll::Ready(None);
        }
        self.polled = true;
        match self.work.as_mut().poll(cx) {
            Poll::Ready(out) => Poll::Ready(Some(out)),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Polls a future once, without ever waking for it.
pub fn poll_once<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}

/// Unwraps, with the error's own words.
pub fn ok<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// The turn of a case that keeps a core busy for seconds. Many of them at once would wait for each other's patience to end.
pub async fn heavy() -> tokio::sync::SemaphorePermit<'static> {
    static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);
    TURNS.acquire().await.expect("never closed")
}
