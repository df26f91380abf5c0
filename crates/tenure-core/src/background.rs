//! A thread with sockets and timers of its own, for what must go on whoever polls, and for callers whose runtime has
//! none.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// The thread, started on first use and ended on drop.
#[derive(Debug)]
pub struct Background {
    name: &'static str,
    handle: OnceLock<Handle>,
    starting: Mutex<()>,
    stop: Arc<Notify>,
}

impl Background {
    /// One that will be shown under this name.
    pub fn new(name: &'static str) -> Self {
        Self { name, handle: OnceLock::new(), starting: Mutex::default(), stop: Arc::default() }
    }

    /// Its runtime.
    ///
    /// # Errors
    /// When no thread can be started.
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
        std::thread::Builder::new()
            .name(self.name.into())
            .spawn(move || runtime.block_on(stop.notified()))?;
        Ok(self.handle.get_or_init(|| handle))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
