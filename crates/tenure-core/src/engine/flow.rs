//! The task that a call comes from, or the thread if the caller blocks outside of tasks. Not an owner: it shows whether
//! two calls were made one after the other.

use std::thread::ThreadId;

use crate::engine::telemetry::AcquireStats;
use crate::engine::{Deadlocks, Settings};

/// A sequential flow of execution, as far as it can be identified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub(crate) task: Option<tokio::task::Id>,
    /// Only set outside of tasks, and only if deadlocks are reported.
    thread: Option<ThreadId>,
}

impl Flow {
    /// Returns the flow of the caller.
    pub(crate) fn current(settings: &Settings) -> Self {
        let task = tokio::task::try_id();
        let looked_at = task.is_none() && settings.deadlocks == Deadlocks::Report;
        Self { task, thread: looked_at.then(|| std::thread::current().id()) }
    }
}

/// The caller on whose behalf the store is asked.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) owner: Option<u64>,
    pub(crate) flow: Flow,
    pub(crate) stats: &'a AcquireStats,
}
