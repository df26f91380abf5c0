//! A process of either side, as a trial speaks to it.

use interop::{Pending, Result};

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

    pub(crate) async fn kill(&self) {
        self.peer.kill().await;
    }
}
