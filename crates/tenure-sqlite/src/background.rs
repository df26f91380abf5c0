//! A background thread with its own timers and I/O: the caller's runtimes may have neither.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// The thread, started on first use and stopped on drop.
#[derive(Debug, Default)]
pub(crate) struct Background {
    handle: OnceLock<Handle>,
    starting: Mutex<()>,
    stop: Arc<Notify>,
}

impl Background {
    pub(crate) fn handle(&self) -> io::Result<&Handle> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let _one = self.starting.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let (stop, (started, starts)) = (self.stop.clone(), sync_channel(1));
        std::thread::Builder::new().name("tenure-sqlite".into()).spawn(move || run(&started, &stop))?;
        let handle = starts.recv().map_err(io::Error::other)??;
        Ok(self.handle.get_or_init(|| handle))
    }

    /// Runs a job that completes even if the caller is cancelled: first inline as far as it gets without waiting, then
    /// in the background. Waits for its end, but for at most `limit` once it runs there.
    pub(crate) async fn see_through(&self, job: impl Future<Output = ()> + Send + 'static, limit: Duration) {
        let mut job = Box::pin(job);
        if poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await.is_ready() {
            return;
        }
        let Ok(handle) = self.handle() else { return job.await };
        let job = handle.spawn(job);
        let _ = handle.spawn(async move { tokio::time::timeout(limit, job).await }).await;
    }

    /// Sleeps, without a timer in the caller's runtime.
    pub(crate) fn sleep(&self, d: Duration) -> impl Future<Output = ()> + Send + use<> {
        let sleeping = self.handle().map(|handle| handle.spawn(async move { tokio::time::sleep(d).await }));
        async move {
            match sleeping {
                Ok(sleeping) => drop(sleeping.await),
                // No thread can be started: blocking this one is better than spinning.
                Err(_) => std::thread::sleep(d),
            }
        }
    }
}

/// The body of the thread. The runtime is created here: it must not be dropped inside another runtime, which would
/// happen if the thread could not be started.
fn run(started: &SyncSender<io::Result<Handle>>, stop: &Notify) {
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let _ = started.send(Ok(runtime.handle().clone()));
            runtime.block_on(stop.notified());
        }
        Err(error) => drop(started.send(Err(error))),
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
