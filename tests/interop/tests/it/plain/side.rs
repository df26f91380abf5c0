//! A process of either side, with one interface for both.

use std::time::Duration;

use interop::Pending;
use interop::trials::TrialProcess;
use testbed::PATIENCE;

use super::fixture::LEASE;
use crate::fixture::wait_for_grant;

#[derive(Clone, Copy)]
pub(crate) enum Who {
    Peer,
    Tenure,
}

/// A process that acts as one owner on the trial's own name.
pub(crate) struct Side {
    process: TrialProcess,
    who: Who,
}

/// The owner.
const THREAD: &str = "owner";

impl Side {
    pub(crate) fn new(process: TrialProcess, who: Who) -> Self {
        Self { process, who }
    }

    /// Acquires the lock in the background. Zero stands for the lease of the URL.
    pub(crate) fn spawn_acquire(&self, lease: Duration) -> Pending {
        let (lease, patience) = (lease.as_millis(), PATIENCE.as_millis());
        let request = match self.who {
            Who::Peer => format!("lock @ {lease} {patience}"),
            Who::Tenure => format!("lock plain @ {lease}"),
        };
        self.process.spawn(THREAD, &request)
    }

    pub(crate) async fn acquire(&self, lease: Duration) {
        wait_for_grant(self.spawn_acquire(lease)).await;
    }

    /// Tries to acquire the lock without waiting.
    pub(crate) async fn try_acquire(&self) -> bool {
        let lease = LEASE.as_millis();
        let request = match self.who {
            Who::Peer => format!("lock @ {lease} 0"),
            Who::Tenure => format!("try plain @ 0 {lease}"),
        };
        self.process.call(THREAD, &request).await == "true"
    }

    pub(crate) async fn release(&self) {
        self.try_release().await.expect("was in");
    }

    pub(crate) async fn try_release(&self) -> interop::Result<String> {
        let request = match self.who {
            Who::Peer => "unlock @",
            Who::Tenure => "unlock plain @",
        };
        self.process.try_call(THREAD, request).await
    }

    /// Increments the unprotected counter `n` times.
    pub(crate) fn count(&self, n: i64) -> Pending {
        let request = match self.who {
            Who::Peer => format!("count @ @:number {n}"),
            Who::Tenure => format!("count @:number {n} plain @"),
        };
        self.process.spawn(THREAD, &request)
    }

    /// Executes any other request.
    pub(crate) async fn call(&self, request: &str) -> String {
        self.process.call(THREAD, request).await
    }

    /// SIGKILL.
    pub(crate) async fn kill(&self) {
        self.process.kill().await;
    }

    /// Any other signal.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }
}
