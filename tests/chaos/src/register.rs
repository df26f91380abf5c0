//! A protected resource, shared by all processes: a value, and the largest fence that it has seen.
//!
//! It is a file to which each access is appended with one write, which is atomic; the order in the file is the order of
//! the accesses, and what each of them found follows from those before it. So there is nothing to lock, and a process
//! that is stopped or killed at any instruction neither keeps others out nor leaves an access half done.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use checker::{Access, Action, Event, What};
use serde::{Deserialize, Serialize};

use crate::clock::now;

/// An access as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Line {
    at: u64,
    process: u32,
    of: u64,
    fence: Option<u64>,
    /// The value that is written, and the place of the access that it was computed from; none for a read.
    write: Option<(u64, u64)>,
}

/// What the accesses so far have left.
#[derive(Clone, Copy, Default)]
struct State {
    seq: u64,
    highest: u64,
    value: u64,
    written: u64,
}

impl State {
    /// The next access; whether it is accepted.
    fn take(&mut self, line: &Line) -> bool {
        self.seq += 1;
        let accepted = line.fence.is_none_or(|fence| fence >= self.highest);
        if accepted {
            self.highest = line.fence.unwrap_or(0).max(self.highest);
            if let Some((value, _)) = line.write {
                (self.value, self.written) = (value, self.seq);
            }
        }
        accepted
    }
}

/// An open register.
pub(crate) struct Register {
    file: File,
    process: u32,
    read: u64,
    state: State,
}

/// The value of a register, and the access that wrote it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: u64,
    pub(crate) written: u64,
}

impl Register {
    pub(crate) fn open(folder: &Path, name: &str, process: u32) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).read(true).open(path(folder, name))?;
        Ok(Self { file, process, read: 0, state: State::default() })
    }

    /// Reads it, unless a larger fence has been here.
    pub(crate) fn read(&mut self, of: u64, fence: Option<u64>) -> std::io::Result<Option<Value>> {
        let accepted = self.access(of, fence, None)?;
        let State { value, written, .. } = self.state;
        Ok(accepted.then_some(Value { value, written }))
    }

    /// Writes one more than what was read, unless a larger fence has been here.
    pub(crate) fn write(&mut self, of: u64, fence: Option<u64>, read: Value) -> std::io::Result<()> {
        self.access(of, fence, Some((read.value + 1, read.written))).map(drop)
    }

    fn access(&mut self, of: u64, fence: Option<u64>, write: Option<(u64, u64)>) -> std::io::Result<bool> {
        let line = Line { at: now(), process: self.process, of, fence, write };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        // Up to its own line; those of others that are already behind it are read the next time.
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut rest = Vec::new();
        self.file.read_to_end(&mut rest)?;
        for found in rest.split_inclusive(|byte| *byte == b'\n') {
            self.read += found.len() as u64;
            let accepted = self.state.take(&serde_json::from_slice(found)?);
            if found == text {
                return Ok(accepted);
            }
        }
        Err(std::io::Error::other("the register has lost an access"))
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.register"))
}

/// What happened to a register, as events.
pub(crate) fn events(folder: &Path, name: &str) -> std::io::Result<Vec<Event>> {
    let text = match std::fs::read(path(folder, name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let mut state = State::default();
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let event = |line: &[u8]| {
        let line: Line = serde_json::from_slice(line)?;
        let before = state.value;
        let accepted = state.take(&line);
        let action = match line.write {
            None => Action::Read { value: before },
            Some((value, based_on)) => Action::Write { value, based_on },
        };
        let (register, seq) = (name.to_owned(), state.seq);
        let access = Access { register, seq, of: Some(line.of), fence: line.fence, accepted, action };
        Ok(Event { at: line.at, process: line.process, what: What::Access(access) })
    };
    lines.map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_fence_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |process| Register::open(folder.path(), "lock-0", process).unwrap();
        let (mut one, mut two) = (open(1), open(2));
        let early = one.read(1, Some(7)).unwrap().unwrap();
        let later = two.read(1, Some(8)).unwrap().unwrap();
        assert_eq!((early, later), (Value { value: 0, written: 0 }, Value { value: 0, written: 0 }));
        two.write(1, Some(8), later).unwrap();
        one.write(1, Some(7), early).unwrap();
        assert_eq!(one.read(2, Some(7)).unwrap(), None);
        assert_eq!(one.read(3, Some(9)).unwrap(), Some(Value { value: 1, written: 3 }));
        let accepted: Vec<bool> = events(folder.path(), "lock-0")
            .unwrap()
            .into_iter()
            .map(|event| matches!(event.what, What::Access(Access { accepted: true, .. })))
            .collect();
        assert_eq!(accepted, [true, true, true, false, false, true]);
    }
}
