//! The history file of a process: one line per event, written at once, so that a kill leaves all but the last line.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use checker::{Answer, Call, Class, Event, Phase, Target, What};

use crate::clock::now;

/// Fault numbers of a process begin at this times its number, so that no two processes use the same.
const FAULTS: u32 = 100_000;

/// The history of one process.
#[derive(Debug)]
pub(crate) struct Log {
    process: u32,
    file: Mutex<File>,
    ops: AtomicU64,
    faults: AtomicU32,
}

impl Log {
    pub(crate) fn create(folder: &Path, process: u32) -> std::io::Result<Self> {
        let path = folder.join(format!("{process:05}.jsonl"));
        let file = File::options().create_new(true).append(true).open(path)?;
        let faults = AtomicU32::new(process * FAULTS);
        Ok(Self { process, file: Mutex::new(file), ops: AtomicU64::new(0), faults })
    }

    /// Writes an event of this process.
    ///
    /// # Panics
    /// When it cannot be written: a history with a hole proves nothing.
    pub(crate) fn write(&self, at: u64, what: What) {
        self.write_of(self.process, at, what);
    }

    /// Writes an event of another process.
    pub(crate) fn write_of(&self, process: u32, at: u64, what: What) {
        let mut line = serde_json::to_vec(&Event { at, process, what }).expect("an event is JSON");
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).expect("the history is written");
    }

    /// Notes that a call is about to be made.
    pub(crate) fn call(&self, worker: u32, call: Call) -> u64 {
        let op = self.ops.fetch_add(1, Relaxed) + 1;
        self.write(now(), What::Call { op, worker, call });
        op
    }

    /// Notes the answer of a call, which came at this time.
    pub(crate) fn answer(&self, op: u64, at: u64, answer: Answer) {
        self.write(at, What::Answer { op, answer });
    }

    /// Notes a step of a fault. The first step gives it a number.
    pub(crate) fn fault(&self, class: Class, target: Target) -> Noted<'_> {
        let id = self.faults.fetch_add(1, Relaxed) + 1;
        Noted { log: self, id, class, target }
    }
}

/// A fault of a history.
pub(crate) struct Noted<'a> {
    log: &'a Log,
    id: u32,
    class: Class,
    target: Target,
}

impl Noted<'_> {
    /// Notes that it takes this step now.
    pub(crate) fn is(&self, phase: Phase) {
        self.was(now(), phase);
    }

    /// Notes that it took this step then.
    pub(crate) fn was(&self, at: u64, phase: Phase) {
        let Self { log, id, class, target } = *self;
        log.write(at, What::Fault { id, class, target, phase });
    }
}
