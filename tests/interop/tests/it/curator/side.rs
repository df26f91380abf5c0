//! A process of either side that acquires and releases one kind of lock, with one interface for both.

use interop::Pending;
use interop::trials::TrialProcess;

use crate::fixture::wait_for_grant;

/// A process, and the kind and name that its requests contain.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) process: TrialProcess,
    what: &'static str,
    /// The wait of a try, in milliseconds: a latch has no try without a wait.
    wait: &'static str,
}

impl Side {
    pub(crate) fn new(process: TrialProcess, what: &'static str, wait: &'static str) -> Self {
        Self { process, what, wait }
    }

    /// Acquires the lock in the background.
    pub(crate) fn spawn_acquire(&self, thread: &str) -> Pending {
        self.process.spawn(thread, &format!("lock {}", self.what))
    }

    pub(crate) async fn acquire(&self, thread: &str) {
        wait_for_grant(self.spawn_acquire(thread)).await;
    }

    /// Tries to acquire the lock without waiting.
    pub(crate) async fn try_acquire(&self, thread: &str) -> bool {
        self.process.call(thread, &format!("try {} {}", self.what, self.wait)).await == "true"
    }

    pub(crate) async fn release(&self, thread: &str) {
        self.process.call(thread, &format!("unlock {}", self.what)).await;
    }

    pub(crate) async fn is_held(&self, thread: &str) -> bool {
        self.process.call(thread, &format!("is-held {}", self.what)).await == "true"
    }

    /// Adds `n` to the number of this trial.
    pub(crate) fn count(&self, thread: &str, n: i64) -> Pending {
        self.process.spawn(thread, &format!("count @.number {n} {}", self.what))
    }
}
