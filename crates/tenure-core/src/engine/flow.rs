//! Where something was asked from: the task, or the thread of whoever blocks outside of tasks. Not an owner, but what
//! tells whether two things were asked one after the other.

use std::thread::ThreadId;

use crate::engine::telemetry::AcquireStats;
use crate::engine::{Deadlocks, Settings};

/// What runs one thing after the other, as far as it can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub(crate) task: Option<tokio::task::Id>,
    /// Only looked at where there is no task, and only for those who want to know of deadlocks.
    thread: Option<ThreadId>,
}

impl Flow {
    /// That of the caller.
    pub(crate) fn current(settings: &Settings) -> Self {
        let task = tokio::task::try_id();
        let looked_at = task.is_none() && settings.deadlocks == Deadlocks::Report;
        Self { task, thread: looked_at.then(|| std::thread::current().id()) }
    }
}

/// On whose behalf the store is asked.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) owner: Option<u64>,
    pub(crate) flow: Flow,
    pub(crate) stats: &'a AcquireStats,
}
