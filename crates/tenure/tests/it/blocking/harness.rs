//! Stores to test on, and waiting on threads.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tenure::Settings;
use tenure::backend::Backend;
use tenure::blocking::{self, Client};
use testbed::{has_grown, wait_until_true};

pub(crate) struct Store {
    pub(crate) backend: Arc<dyn Backend>,
    _folder: Option<tempfile::TempDir>,
}

impl Store {
    pub(crate) fn memory() -> Self {
        Self { backend: blocking::open("memory:").unwrap(), _folder: None }
    }

    #[cfg(feature = "sqlite")]
    fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { backend: blocking::open(&url).unwrap(), _folder: Some(folder) }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(Duration::from_secs(30))
    }

    pub(crate) fn client_with(&self, lease: Duration) -> Client {
        let mut settings = Settings::default();
        settings.lease = lease;
        Client::new(tenure::Client::with(self.backend.clone(), settings))
    }
}

/// Runs a test on each embedded store, on all at once.
pub(crate) fn on_each(test: fn(&Store)) {
    let memory = thread::spawn(move || within("on memory", move || test(&Store::memory())));
    #[cfg(feature = "sqlite")]
    within("on sqlite", move || test(&Store::sqlite()));
    memory.join().unwrap_or_else(|panic| resume_unwind(panic));
}

/// What `work` comes to on a thread of its own. Fails instead of waiting for ever.
pub(crate) fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let worker = thread::spawn(work);
    wait_until_true(what, || worker.is_finished());
    // Joining also waits until what the thread owns is dropped.
    worker.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// On another thread, which is another owner.
pub(crate) fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    within("elsewhere", work)
}

/// Waits until a lease is renewed, as `left` shows.
pub(crate) fn until_renewed(left: impl Fn() -> Duration) {
    wait_until_true("it is renewed", has_grown(Duration::from_millis(500), left));
}

/// Whether a thread that holds nothing gets it.
pub(crate) fn is_free(client: &Client, name: &str) -> bool {
    let lock = client.lock(name);
    elsewhere(move || lock.try_acquire().unwrap().is_some())
}
