//! A process of either side, with one vocabulary for both.

use std::time::Duration;

use interop::Pending;
use interop::trials::Party;
use testbed::PATIENCE;

use super::stage::LEASE;

#[derive(Clone, Copy)]
pub(crate) enum Who {
    Peer,
    Tenure,
}

/// A party and its words. All it does is done by one owner, about the trial's own name.
pub(crate) struct Side {
    party: Party,
    who: Who,
}

/// The owner.
const THREAD: &str = "owner";

impl Side {
    pub(crate) fn new(party: Party, who: Who) -> Self {
        Self { party, who }
    }

    /// Goes in, and waits for it if need be. No lease is the one of the address.
    pub(crate) fn wait(&self, lease: Duration) -> Pending {
        let (lease, patience) = (lease.as_millis(), PATIENCE.as_millis());
        let request = match self.who {
            Who::Peer => format!("lock @ {lease} {patience}"),
            Who::Tenure => format!("lock plain @ {lease}"),
        };
        self.party.spawn(THREAD, &request)
    }

    pub(crate) async fn enter(&self, lease: Duration) {
        granted(self.wait(lease)).await;
    }

    /// Whether it is in, without waiting.
    pub(crate) async fn attempt(&self) -> bool {
        let lease = LEASE.as_millis();
        let request = match self.who {
            Who::Peer => format!("lock @ {lease} 0"),
            Who::Tenure => format!("try plain @ 0 {lease}"),
        };
        self.party.call(THREAD, &request).await == "true"
    }

    pub(crate) async fn leave(&self) {
        self.try_leave().await.expect("was in");
    }

    pub(crate) async fn try_leave(&self) -> interop::Result<String> {
        let request = match self.who {
            Who::Peer => "unlock @",
            Who::Tenure => "unlock plain @",
        };
        self.party.try_call(THREAD, request).await
    }

    /// Counts to `n` on the key `@:number`.
    pub(crate) fn count(&self, n: i64) -> Pending {
        let request = match self.who {
            Who::Peer => format!("count @ @:number {n}"),
            Who::Tenure => format!("count @:number {n} plain @"),
        };
        self.party.spawn(THREAD, &request)
    }

    /// Anything else.
    pub(crate) async fn call(&self, request: &str) -> String {
        self.party.call(THREAD, request).await
    }

    /// SIGKILL.
    pub(crate) async fn kill(&self) {
        self.party.kill().await;
    }

    /// Any other signal.
    pub(crate) fn signal(&self, signal: &str) {
        self.party.signal(signal);
    }
}

/// Waits until whoever waits is in.
pub(crate) async fn granted(waiting: Pending) {
    let answer = waiting.answer().await.expect("granted");
    assert!(answer == "true" || answer.is_empty(), "granted: {answer}");
}
