//! A thread with timers and readers of its own: callers come from several runtimes, and theirs may have neither.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// The thread, started on first use and ended on drop.
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
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let stop = self.stop.clone();
        std::thread::Builder::new()
            .name("tenure-sqlite".into())
            .spawn(move || runtime.block_on(stop.notified()))?;
        Ok(self.handle.get_or_init(|| handle))
    }

    /// Sleeps, without a timer in the caller's runtime.
    pub(crate) fn sleep(&self, d: Duration) -> impl Future<Output = ()> + Send + use<> {
        let sleeping = self.handle().map(|handle| handle.spawn(async move { tokio::time::sleep(d).await }));
        async move {
            match sleeping {
                Ok(sleeping) => drop(sleeping.await),
                // No thread can be started: better to block this one than to spin.
                Err(_) => std::thread::sleep(d),
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
