//! A thread with sockets and timers of its own, for callers whose runtime has none.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

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
            .name("tenure-redis".into())
            .spawn(move || runtime.block_on(stop.notified()))?;
        Ok(self.handle.get_or_init(|| handle))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
