//! A process of either side, as a trial speaks to it.

use std::time::{Duration, Instant};

use interop::{Pending, Result};

use crate::stage::PATIENCE;
use crate::world::Shared;

/// In requests `@` stands for the trial's name, so that trials do not meet.
#[derive(Clone)]
pub(crate) struct Party {
    peer: Shared,
    name: String,
}

impl Party {
    pub(crate) fn new(peer: Shared, name: &str) -> Self {
        Self { peer, name: name.to_owned() }
    }

    pub(crate) fn spawn(&self, thread: &str, request: &str) -> Pending {
        self.peer.spawn(&format!("{}/{thread}", self.name), &request.replace('@', &self.name))
    }

    pub(crate) async fn try_call(&self, thread: &str, request: &str) -> Result<String> {
        self.spawn(thread, request).answer().await
    }

    /// What must not fail.
    pub(crate) async fn call(&self, thread: &str, request: &str) -> String {
        self.try_call(thread, request).await.unwrap_or_else(|e| panic!("{thread} {request}: {e}"))
    }

    /// What must be answered so.
    pub(crate) async fn says(&self, thread: &str, request: &str, answer: &str) {
        assert_eq!(self.call(thread, request).await, answer, "{thread} {request}");
    }

    /// Waits until a thread sleeps until a message comes. Redisson loses the `1` of a writer that comes a moment earlier.
    pub(crate) async fn parked(&self, thread: &str) {
        let begin = Instant::now();
        while self.call(thread, "parked").await != "true" {
            assert!(begin.elapsed() < PATIENCE, "{thread} does not wait");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) async fn kill(&self) {
        self.peer.kill().await;
    }
}
