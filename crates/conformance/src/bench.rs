//! What a case works with: a fresh world, clients of it, and waiting with a deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tenure::backend::Liveness;
use tenure::layers::Faults;
use tenure::{Backend, Client, Holder, Result, Settings};

use crate::stores::World;
use crate::worker::Worker;

/// No case waits longer than this for anything that must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The default lease of clients here. Renewed every third of it.
pub const LEASE: Duration = Duration::from_secs(3);

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
        self.world.backend().expect("the store opens")
    }

    /// Settings with the short default lease.
    pub fn settings() -> Settings {
        let mut settings = Settings::default();
        settings.lease = LEASE;
        settings
    }

    /// A client of its own.
    pub fn client(&self) -> Client {
        self.client_with(Self::settings())
    }

    /// A client of its own with these settings.
    pub fn client_with(&self, settings: Settings) -> Client {
        let client = Client::with(self.backend(), settings);
        self.open.lock().unwrap().push(client.clone());
        client
    }

    /// A client without the bad network.
    pub fn observer(&self) -> Client {
        Client::with(self.bare(), Self::settings())
    }

    /// Another process on the same world.
    pub async fn process(&self) -> Worker {
        let url = self.world.url().expect("only cases marked so ask for processes");
        Worker::start(self.worker, &url, LEASE).await
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
        eventually("nothing is left behind", || async {
            let left = look.list("", 1000).await.unwrap();
            left.iter().all(|s| s.holders.is_empty() && s.waiters.is_empty())
        })
        .await;
    }
}

/// Fails unless `work` ends in time.
pub async fn within<F: Future>(limit: Duration, what: &str, work: F) -> F::Output {
    match tokio::time::timeout(limit, work).await {
        Ok(out) => out,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

/// Waits until `holds` says yes; fails after [`PATIENCE`].
pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
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
