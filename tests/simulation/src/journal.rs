//! The history of a run, written while it happens.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use checker::{Answer, Call, Event, What};
use tokio::time::Instant;

/// The events of all processes.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Vec<Event>>);

impl Journal {
    pub(crate) fn write(&self, at: u64, process: u32, what: What) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(Event { at, process, what });
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

/// The journal of one process.
#[derive(Debug)]
pub(crate) struct Log {
    journal: std::sync::Arc<Journal>,
    pub(crate) process: u32,
    began: Instant,
    calls: AtomicU64,
}

impl Log {
    pub(crate) fn new(journal: std::sync::Arc<Journal>, process: u32, began: Instant) -> Self {
        Self { journal, process, began, calls: AtomicU64::new(0) }
    }

    /// The time, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        (Instant::now() - self.began).as_nanos() as u64
    }

    pub(crate) fn write(&self, what: What) {
        self.journal.write(self.now(), self.process, what);
    }

    pub(crate) fn call(&self, worker: u32, call: Call) -> u64 {
        let op = self.calls.fetch_add(1, SeqCst) + 1;
        self.write(What::Call { op, worker, call });
        op
    }

    pub(crate) fn answer(&self, op: u64, answer: Answer) {
        self.write(What::Answer { op, answer });
    }
}
