//! A dedicated thread with its own tokio runtime, for work that must progress no matter whether callers poll, and for
//! callers whose runtime has no I/O or timers.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

type Cleanup = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A background thread with a tokio runtime, started on first use and stopped on drop.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::backend::Background;
/// # fn main() -> std::io::Result<()> {
/// let background = Background::new("my-store");
/// let answer = background.handle()?.spawn(async { 40 + 2 });
/// # let waiter = tokio::runtime::Builder::new_current_thread().build()?;
/// # waiter.block_on(async {
/// assert_eq!(answer.await.unwrap(), 42);
/// background.sleep(Duration::from_millis(1)).await; // needs no timer in the caller's runtime
/// # });
/// let closing = Background::with_cleanup("my-session", async { /* close the session */ });
/// # Ok(()) }
/// ```
pub struct Background {
    name: &'static str,
    /// Runs on the thread before it ends.
    cleanup: Arc<Mutex<Option<Cleanup>>>,
    handle: OnceLock<Handle>,
    starting: Mutex<()>,
    stop: Arc<Notify>,
}

impl Background {
    /// Creates a background thread with this thread name; it is not started yet.
    pub fn new(name: &'static str) -> Self {
        Self::build(name, None)
    }

    /// As [`new`](Self::new), but the thread runs `cleanup` before it ends, if it was started.
    pub fn with_cleanup(name: &'static str, cleanup: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::build(name, Some(Box::pin(cleanup)))
    }

    fn build(name: &'static str, cleanup: Option<Cleanup>) -> Self {
        Self {
            name,
            cleanup: Arc::new(Mutex::new(cleanup)),
            handle: OnceLock::new(),
            starting: Mutex::default(),
            stop: Arc::default(),
        }
    }

    /// Returns the handle of its runtime, and starts the thread if necessary.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn handle(&self) -> io::Result<&Handle> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let _one = self.starting.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, cleanup) = (self.stop.clone(), self.cleanup.clone());
        let work = async move {
            stop.notified().await;
            let cleanup = cleanup.lock().unwrap_or_else(|e| e.into_inner()).take();
            if let Some(cleanup) = cleanup {
                cleanup.await;
            }
        };
        run_on(thread::Builder::new().name(self.name.into()), runtime, work)?;
        Ok(self.handle.get_or_init(|| handle))
    }

    /// Sleeps, without a timer in the caller's runtime.
    pub fn sleep(&self, d: Duration) -> impl Future<Output = ()> + Send + use<> {
        let sleeping = self.handle().map(|handle| handle.spawn(async move { tokio::time::sleep(d).await }));
        async move {
            match sleeping {
                Ok(sleeping) => drop(sleeping.await),
                // No thread can be started: blocking this one is better than spinning.
                Err(_) => thread::sleep(d),
            }
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// Runs `work` on a new thread that owns `runtime`.
pub(super) fn run_on(
    thread: thread::Builder,
    runtime: Runtime,
    work: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // If the spawn fails, the runtime is still ours. Dropping a runtime inside another one panics, so it is shut down
    // in the background instead.
    let shared = Arc::new(Mutex::new(Some(runtime)));
    let take = |shared: &Mutex<Option<Runtime>>| shared.lock().unwrap_or_else(|e| e.into_inner()).take();
    let theirs = shared.clone();
    let body = move || {
        if let Some(runtime) = take(&theirs) {
            runtime.block_on(work);
        }
    };
    let started = thread.spawn(body);
    if started.is_err()
        && let Some(runtime) = take(&shared)
    {
        runtime.shutdown_background();
    }
    started.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_cannot_be_started_is_an_error() {
        let runtime = Builder::new_current_thread().build().unwrap();
        // No machine can allocate a stack of this size.
        let thread = thread::Builder::new().stack_size(1 << 60);
        run_on(thread, runtime, async {}).unwrap_err();
    }

    #[tokio::test]
    async fn cleanup_runs_before_the_thread_ends() {
        let (sender, cleaned) = tokio::sync::oneshot::channel();
        let cleanup = async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(()).unwrap();
        };
        let background = Background::with_cleanup("test", cleanup);
        background.handle().unwrap();
        drop(background);
        cleaned.await.unwrap();
    }

    #[tokio::test]
    async fn without_a_thread_there_is_no_cleanup() {
        let (sender, cleaned) = tokio::sync::oneshot::channel();
        drop(Background::with_cleanup("test", async move { sender.send(()).unwrap() }));
        cleaned.await.unwrap_err();
    }
}
