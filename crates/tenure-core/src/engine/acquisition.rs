//! One acquire call on its way down: who asks, on which terms and until when.

use std::sync::Arc;
use std::thread::ThreadId;

use tokio::time::Instant;

use crate::engine::core::{Core, Engine};
use crate::engine::terms::Terms;

/// What one caller asked for: made by the API call, and passed unchanged to the first attempt, to the re-entry and to
/// the gate.
#[derive(Clone)]
pub(crate) struct Acquisition {
    pub(crate) engine: Arc<Engine>,
    pub(crate) terms: Terms,
    pub(crate) owner: Option<u64>,
    pub(crate) flow: Flow,
    /// When the caller stops waiting.
    pub(crate) deadline: Option<Instant>,
}

impl Acquisition {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        terms: Terms,
        owner: Option<u64>,
        deadline: Option<Instant>,
    ) -> Self {
        Self { engine: engine.clone(), terms, owner, flow: Flow::current(), deadline }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.engine.core
    }
}

/// The task that a call comes from, or the thread if it does not come from a task of tokio's: from `main`, from
/// `block_on`, from the blocking API. Not an owner: it shows whether two calls were made one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Flow {
    Task(tokio::task::Id),
    Thread(ThreadId),
}

impl Flow {
    /// Returns the flow of the caller.
    pub(crate) fn current() -> Self {
        tokio::task::try_id().map_or_else(|| Self::Thread(std::thread::current().id()), Self::Task)
    }
}
