//! What a case works with: a fresh world and clients of it.
//!
//! Times in cases are far apart, so that the result never depends on a slow machine. Leases that must end have
//! [`SHORT`], those that must last have [`FAR`], and those observed while being renewed have [`RENEWED`]. Clients poll
//! after [`FAR`] as well, so a waiter that is granted within [`PATIENCE`] was woken by a signal.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub use testbed::{FAR, PATIENCE, done, until, within};

use tenure::backend::Backend;
use tenure::backend::Liveness;
use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Guard, Holder, Lock, Result, Settings};

use crate::stores::World;
use crate::worker::Worker;

/// The lease of what must end. Cases assert nothing about the hold before that: it may end at any moment.
pub const SHORT: Duration = Duration::from_secs(1);

/// The lease of a hold that is observed while it is renewed, every three seconds. It would be lost only if the machine
/// stalled for six.
pub const RENEWED: Duration = Duration::from_secs(9);

/// Lease, queue position and session of a process that will be killed: what it leaves in the store expires after this.
pub const VICTIM: Duration = Duration::from_secs(3);

/// Long enough for something that must not happen to happen.
pub const A_WHILE: Duration = Duration::from_millis(150);

/// What a case works with.
pub struct Harness {
    world: Box<dyn World>,
    chaos: Option<u64>,
    clients: AtomicU64,
    open: Mutex<Vec<Client>>,
    worker: &'static str,
}

impl Harness {
    /// Creates a harness on this world, behind a faulty network with this seed if one is given.
    pub fn new(world: Box<dyn World>, chaos: Option<u64>, worker: &'static str) -> Self {
        Self { world, chaos, clients: AtomicU64::new(0), open: Mutex::default(), worker }
    }

    /// Whether calls are delayed, repeated, reordered and lost: cases then allow more time.
    pub fn is_chaotic(&self) -> bool {
        self.chaos.is_some()
    }

    /// Opens a separate backend, as another process would have it.
    pub fn backend(&self) -> Arc<dyn Backend> {
        let backend = self.bare_backend();
        match self.chaos {
            None => backend,
            Some(seed) => Arc::new(Faults::chaos(backend, seed + self.clients.fetch_add(1, SeqCst))),
        }
    }

    /// Opens a backend without the faulty network, to inspect the store or to put other layers on.
    pub fn bare_backend(&self) -> Arc<dyn Backend> {
        // A server that is busy with other cases may time out at first.
        testbed::wait_until("the store opens", || match self.world.backend() {
            Err(error) if error.is_transient() => None,
            opened => Some(opened.expect("the store opens")),
        })
    }

    /// Settings in which nothing expires or polls within a case. Behind a faulty network something may stay in the
    /// store for one lease, so that must be shorter, and waiters poll.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        (settings.lease, settings.poll) = if self.is_chaotic() { (RENEWED, None) } else { (FAR, Some(FAR)) };
        settings.call_timeout = PATIENCE;
        settings.outage = PATIENCE;
        settings.close_timeout = PATIENCE;
        settings
    }

    /// Settings with a lease that is renewed while a case watches.
    pub fn renewing_settings(&self) -> Settings {
        let mut settings = self.settings();
        settings.lease = RENEWED;
        settings
    }

    /// Creates a separate client.
    pub fn client(&self) -> Client {
        self.client_with(self.settings())
    }

    /// Creates a separate client with these settings.
    pub fn client_with(&self, settings: Settings) -> Client {
        let client = Client::with(self.backend(), settings);
        self.open.lock().unwrap().push(client.clone());
        client
    }

    /// Creates a client with the faults that `plan` injects, instead of the faulty network.
    pub fn faulty_client(&self, plan: impl Fn(Call<'_>) -> Fate + Send + Sync + 'static) -> Client {
        self.faulty_client_with(self.settings(), plan)
    }

    /// Creates a client with these settings and the faults that `plan` injects, instead of the faulty network.
    pub fn faulty_client_with(
        &self,
        settings: Settings,
        plan: impl Fn(Call<'_>) -> Fate + Send + Sync + 'static,
    ) -> Client {
        Client::with(Arc::new(Faults::new(self.bare_backend(), plan)), settings)
    }

    /// Creates a client without the faulty network.
    pub fn observer(&self) -> Client {
        Client::with(self.bare_backend(), self.settings())
    }

    /// Starts another process on the same world.
    pub async fn start_process(&self) -> Worker {
        Worker::start(self.worker, &self.url(), FAR, FAR).await
    }

    /// Starts a process that will be killed or stopped: what it has in the store expires soon after.
    pub async fn start_victim(&self) -> Worker {
        let url = self.world.victims_url().expect("only cases marked so ask for processes");
        Worker::start(self.worker, &url, VICTIM, VICTIM / 3).await
    }

    /// The address of the world for other processes.
    pub fn url(&self) -> String {
        self.world.url().expect("only cases marked so ask for an address")
    }

    /// Whether holds live as long as a session here: the store shows no end for them, leases are enforced by the
    /// client, and all kinds are queued.
    pub fn has_sessions(&self) -> bool {
        self.bare_backend().info().liveness == Liveness::Session
    }

    /// The remaining time of a holder as the store shows it, or `None` on a store with sessions.
    pub fn remaining_lease(&self, holder: &Holder) -> Option<Duration> {
        assert_eq!(holder.left.is_none(), self.has_sessions(), "{holder:?}");
        holder.left
    }

    /// Whether a name that is valid elsewhere is refused here.
    pub fn refuses(&self, name: &str) -> bool {
        self.world.refuses(name)
    }

    /// Waits until nobody holds or waits for anything, which may take as long as dead holders need to expire.
    pub async fn wait_until_empty(&self) {
        let clients = std::mem::take(&mut *self.open.lock().unwrap());
        for client in clients {
            let closed = client.close().await;
            assert!(self.is_chaotic() || closed.is_ok(), "{closed:?}");
        }
        let look = self.observer();
        until("nothing is left behind", || async {
            let left = look.list("", 1000).await.unwrap();
            left.iter().all(|s| s.holders.is_empty() && s.waiters.is_empty())
        })
        .await;
    }
}

/// Polls a future at most `k` times, then drops it. Returns its output if it was ready before.
///
/// Between polls it waits until the future is woken, as an executor would.
pub async fn poll_times<F: Future>(work: F, k: usize) -> Option<F::Output> {
    let mut work = Box::pin(work);
    for _ in 0..k {
        let (start, limit) = (Instant::now(), Duration::from_millis(100));
        let done = tokio::time::timeout(limit, Once { work: work.as_mut(), polled: false }).await;
        match done {
            Ok(Some(out)) => return Some(out),
            Ok(None) if start.elapsed() < limit => {}
            // It was not woken in time: further polls are of no use.
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

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}

/// Unwraps, and panics with the error's message.
pub fn ok<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Repeats a call with a time limit until the store has answered: one that a busy store did not answer in time shows
/// nothing.
pub async fn repeat_if_unanswered<T, F: Future<Output = Result<T>>>(wait: impl Fn() -> F) -> T {
    testbed::retry("a call with a time limit is answered", tenure::Error::is_transient, wait).await
}

/// Takes what is free. An answer that comes after a short lease is none: it is asked for again.
pub async fn take(lock: &Lock) -> Guard {
    repeat_if_unanswered(|| lock.acquire()).await
}

/// Limits how many cases that keep a core busy for seconds run at once; together they would make each other time out.
pub async fn heavy_case_slot() -> tokio::sync::SemaphorePermit<'static> {
    static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);
    TURNS.acquire().await.expect("never closed")
}
