//! The thread of the sessions: independent of the caller's runtimes, and closes the session when the store is dropped.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use crate::error::SCHEME;

/// How long closing the session may take.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Thread {
    handle: Handle,
    stop: Arc<Notify>,
}

impl Thread {
    /// Starts the thread. `last` runs before it ends.
    pub(crate) fn start<F: Future<Output = ()>>(last: impl FnOnce() -> F + Send + 'static) -> Result<Self> {
        let no_thread = |e: std::io::Error| Error::Unavailable {
            backend: SCHEME,
            what: "start a thread".into(),
            reason: e.to_string(),
            retry_after: None,
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("tenure-zookeeper".into())
            .spawn(move || {
                runtime.block_on(async move {
                    stopped.notified().await;
                    let _ = tokio::time::timeout(LAST_WORDS, last()).await;
                });
            })
            .map_err(no_thread)?;
        Ok(Self { handle, stop })
    }

    /// Runs a task on the thread to its end, even if the caller is cancelled.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.handle.spawn(work)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
