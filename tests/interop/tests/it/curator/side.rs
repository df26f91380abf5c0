//! A process of either side, with one vocabulary for both: goes in and out by one kind of lock.

use interop::Pending;
use interop::trials::Party;

/// A party, and how it speaks of what is locked: a kind and a name.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) party: Party,
    what: &'static str,
    /// How long an attempt takes: a latch knows no try without a wait.
    wait: &'static str,
}

impl Side {
    pub(crate) fn new(party: Party, what: &'static str, wait: &'static str) -> Self {
        Self { party, what, wait }
    }

    /// Goes in, and waits for it if need be.
    pub(crate) fn wait(&self, thread: &str) -> Pending {
        self.party.spawn(thread, &format!("lock {}", self.what))
    }

    pub(crate) async fn enter(&self, thread: &str) {
        granted(self.wait(thread)).await;
    }

    /// Whether it is in, without waiting.
    pub(crate) async fn attempt(&self, thread: &str) -> bool {
        self.party.call(thread, &format!("try {} {}", self.what, self.wait)).await == "true"
    }

    pub(crate) async fn leave(&self, thread: &str) {
        self.party.call(thread, &format!("unlock {}", self.what)).await;
    }

    pub(crate) async fn is_in(&self, thread: &str) -> bool {
        self.party.call(thread, &format!("is-held {}", self.what)).await == "true"
    }

    /// Adds `n` to the number of this trial.
    pub(crate) fn count(&self, thread: &str, n: i64) -> Pending {
        self.party.spawn(thread, &format!("count @.number {n} {}", self.what))
    }
}

/// Waits until whoever waits is in.
pub(crate) async fn granted(waiting: Pending) {
    waiting.answer().await.expect("granted");
}
