//! A dedicated thread with its own tokio runtime, for work that must progress no matter whether callers poll, and for
//! callers whose runtime has no I/O or timers.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// A background thread with a tokio runtime, started on first use and stopped on drop.
#[derive(Debug)]
pub struct Background {
    name: &'static str,
    handle: OnceLock<Handle>,
    starting: Mutex<()>,
    stop: Arc<Notify>,
}

impl Background {
    /// Creates a background thread with this thread name; it is not started yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, handle: OnceLock::new(), starting: Mutex::default(), stop: Arc::default() }
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
        let stop = self.stop.clone();
        run_on(thread::Builder::new().name(self.name.into()), runtime, async move { stop.notified().await })?;
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
}
