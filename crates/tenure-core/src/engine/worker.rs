//! The worker: a thread of the client for everything that must progress no matter whether callers poll: gates,
//! background releases, alarms, and wake-ups of tasks. Renewal has its own thread, so that nothing here delays it: a
//! waker or a telemetry sink is foreign code, which may block or panic.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::backend::Result;
use crate::engine::core::Core;
use crate::engine::exit::flush_at_exit;

#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// Its runtime, set once the keeper runs, too.
    handle: OnceLock<Handle>,
    /// Its runtime, set once it runs. If the keeper cannot be started, the next call tries that again beside the same
    /// worker: of two workers the wrong one might be stopped, or serve the alarms.
    running: OnceLock<Handle>,
    starting: Mutex<()>,
    stop: Notify,
    /// Jobs handed over by the keeper that are not done yet.
    jobs: AtomicUsize,
}

impl Worker {
    /// Returns its runtime, if it has been started.
    pub(crate) fn started(&self) -> Option<&Handle> {
        self.handle.get()
    }

    /// Stops the thread once the pending releases are done.
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Whether all jobs handed over by the keeper are done.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.load(SeqCst) == 0
    }
}

/// A job of the keeper, counted until it is dropped.
pub(crate) struct Job(Arc<Core>);

impl Job {
    pub(crate) fn begin(core: &Arc<Core>) -> Self {
        core.worker.jobs.fetch_add(1, SeqCst);
        Self(core.clone())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.worker.jobs.fetch_sub(1, SeqCst);
        self.0.releases.look_again();
    }
}

impl Core {
    /// Returns the worker's runtime. The first call starts both threads of the client.
    pub(crate) fn runtime(self: &Arc<Self>) -> Result<&Handle> {
        if let Some(handle) = self.worker.handle.get() {
            return Ok(handle);
        }
        let _one = self.worker.starting.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(handle) = self.worker.handle.get() {
            return Ok(handle);
        }
        let handle = self.start().map_err(|e| self.backend.info().unavailable("start a thread", e))?;
        Ok(self.worker.handle.get_or_init(|| handle))
    }

    fn start(self: &Arc<Self>) -> io::Result<Handle> {
        let worker = match self.worker.running.get() {
            Some(worker) => worker.clone(),
            None => {
                let worker = self.environment().start("tenure-worker", self.clone().work())?;
                self.worker.running.get_or_init(|| worker).clone()
            }
        };
        self.environment().start("tenure-keeper", self.clone().keep(self.suspicions()))?;
        flush_at_exit(self);
        Ok(worker)
    }

    /// Ensures that both threads run, before anything is acquired that must be renewed.
    pub(crate) fn ensure_threads(self: &Arc<Self>) -> Result<()> {
        self.runtime().map(drop)
    }

    async fn work(self: Arc<Self>) {
        tokio::spawn(self.clone().ring());
        self.worker.stop.notified().await;
        self.leave_all_alone();
        let _ = timeout(self.settings.close_timeout, self.all_released()).await;
    }

    /// Runs a job of the keeper on the worker. Each in its own task, so that a panic does not affect the others.
    pub(crate) fn hand_over(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let Ok(runtime) = self.runtime() else { return };
        let done = Job::begin(self);
        runtime.spawn(async move { job(&done.0) });
    }

    /// Runs `work` on the worker, counted as a pending release of `name`.
    pub(crate) fn in_background(
        self: &Arc<Self>,
        name: &crate::backend::Name,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let pending = self.releases.begin(name);
        if let Ok(runtime) = self.runtime() {
            runtime.spawn(async move {
                work.await;
                drop(pending);
            });
        }
    }
}

/// Wakes a task. A waker is foreign code: panics are caught.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// Wakes all tasks that wait on `notify`. Panics of their wakers are caught.
pub(crate) fn wake_all(notify: &Notify) {
    let _ = catch_unwind(AssertUnwindSafe(|| notify.notify_waiters()));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::Environment;
    use crate::{Client, Memory};

    #[tokio::test]
    async fn a_keeper_that_is_started_later_has_the_worker_that_was_started_before() {
        let started = Arc::new(Mutex::new(Vec::new()));
        let names = started.clone();
        let environment = Environment::without_threads(move |name| {
            let mut names = names.lock().unwrap();
            names.push(name.to_owned());
            *names == ["tenure-worker", "tenure-keeper"]
        });
        let client = Client::new(Memory::in_environment(environment));
        let lock = client.lock("x");
        assert!(lock.acquire().await.unwrap_err().is_transient());
        let guard = lock.acquire().await.unwrap();
        assert_eq!(*started.lock().unwrap(), ["tenure-worker", "tenure-keeper", "tenure-keeper"]);
        assert!(lock.try_acquire_for(Duration::from_millis(1)).await.unwrap().is_none());
        guard.release().await.unwrap();
        client.close().await.unwrap();
    }
}
