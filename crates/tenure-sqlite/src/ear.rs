//! The receiving side of wake-ups from other processes: a FIFO per client of this store, and the task that reads it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use tenure_core::backend::Background;
use tenure_core::ledger::Watched;
use tenure_core::{ClientId, Name};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

use crate::database::beside;
use crate::folder::{self, Folder};
use crate::shared::users_of;
use crate::wake;

/// How long an unused FIFO stays open: a claim may be queued before it is watched.
const UNUSED: Duration = Duration::from_secs(60);
/// A writer that finds the pipe full drops its message. The smallest pipe is one page, so if a read returns less than
/// this, no writer can have found it full.
const OVERFLOW: usize = 3072;

/// The FIFO of one client, open until dropped.
#[derive(Debug)]
pub(crate) struct Ear {
    folder: Folder,
    path: PathBuf,
    name: String,
    id: (u64, u64),
    reader: JoinHandle<()>,
}

impl Ear {
    /// Whether its FIFO is being read and can be found by others.
    fn hears(&self) -> bool {
        !self.reader.is_finished() && self.is_found()
    }

    /// Whether the FIFO at its path is still this one.
    fn is_found(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.id)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.reader.abort();
        // Unless another reader of this client has replaced it.
        if self.is_found() {
            self.folder.remove(&self.name);
        }
    }
}

/// The FIFOs of all clients of one store.
#[derive(Debug)]
pub(crate) struct Ears {
    store: PathBuf,
    open: Mutex<HashMap<ClientId, (Arc<Ear>, Instant)>>,
    watched: Arc<Watched>,
}

impl Ears {
    pub(crate) fn new(store: &Path, watched: Arc<Watched>) -> Self {
        Self { store: store.to_owned(), open: Mutex::default(), watched }
    }

    /// Whether this client belongs to this store, and so is woken directly.
    pub(crate) fn has(&self, client: ClientId) -> bool {
        self.open.lock().unwrap_or_else(|e| e.into_inner()).contains_key(&client)
    }

    /// Returns the reader of a client; opens a new one if there is none, it has stopped reading, or its FIFO was
    /// removed.
    pub(crate) fn open(&self, client: ClientId, background: &Background) -> io::Result<Arc<Ear>> {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((ear, used)) = open.get_mut(&client)
            && ear.hears()
        {
            *used = Instant::now();
            return Ok(ear.clone());
        }
        open.retain(|_, (ear, used)| Arc::strong_count(ear) > 1 || used.elapsed() < UNUSED);
        let ear = Arc::new(self.make(client, background)?);
        open.insert(client, (ear.clone(), Instant::now()));
        Ok(ear)
    }

    fn make(&self, client: ClientId, background: &Background) -> io::Result<Ear> {
        let handle = background.handle()?;
        let users = users_of(&self.store);
        let folder = Folder::make(&self.store, users)?;
        let (made, name) = (wake::unfinished(client), client.to_string());
        folder.remove(&made);
        rustix::fs::mknodat(&folder, &*made, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let reader = folder.open_file(&made, FileType::Fifo, OFlags::RDONLY)?;
        // Without a writer of its own it would read end-of-file whenever the last writer closes.
        let keep = folder.open_file(&made, FileType::Fifo, OFlags::WRONLY)?;
        let (found, kept) = (rustix::fs::fstat(&reader)?, rustix::fs::fstat(&keep)?);
        // Others may write to the folder too and could have swapped the file whose mode is about to change.
        let ours = found.st_uid == rustix::process::geteuid().as_raw() && found.st_nlink == 1;
        let id = folder::id(&found);
        if !ours || id != folder::id(&kept) {
            return Err(io::Error::other("another file was put in the place of the FIFO"));
        }
        users.admit(&reader, users.fifo())?;
        let _inside = handle.enter();
        let receiver = Receiver::from_owned_fd(reader)?;
        folder.rename(&made, &name)?;
        let reader = handle.spawn(listen(receiver, keep, self.watched.clone()));
        Ok(Ear { path: beside(&self.store, "-wake").join(&name), folder, name, id, reader })
    }
}

async fn listen(receiver: Receiver, _keep: OwnedFd, watched: Arc<Watched>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut filled = 0;
    while receiver.readable().await.is_ok() {
        let read = match receiver.try_read(&mut buffer[filled..]) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        filled += read;
        let rest = hear(&buffer[..filled], |name| watched.tell_all(Some(name)));
        match rest {
            Some(rest) if read < OVERFLOW => {
                let used = filled - rest;
                buffer.copy_within(used..filled, 0);
                filled = rest;
            }
            _ => {
                watched.tell_all(None);
                filled = 0;
            }
        }
    }
    // Nothing is read any more: wake all watches so that they check once more, and then poll.
    watched.tell_all(None);
}

/// Calls `tell` for each name in `bytes`, and returns the length of an incomplete message at the end; `None` if the
/// bytes are not valid.
fn hear(mut bytes: &[u8], mut tell: impl FnMut(&Name)) -> Option<usize> {
    while let [low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if length == 0 || length > Name::MAX {
            return None;
        }
        let Some((name, rest)) = rest.split_at_checked(length) else { break };
        tell(&Name::new(std::str::from_utf8(name).ok()?).ok()?);
        bytes = rest;
    }
    Some(bytes.len())
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use tenure_core::backend::{Counter, Interest, Watch};

    use super::*;

    #[test]
    fn messages_are_told_apart_and_garbage_is_noticed() {
        let names = ["a", "line\nbreak", &"x".repeat(512)].map(|n| Name::new(n).unwrap());
        let bytes: Vec<u8> = names.iter().flat_map(wake::message).collect();
        let mut heard = Vec::new();
        assert_eq!(hear(&bytes, |n| heard.push(n.clone())), Some(0));
        assert_eq!(heard, names);
        assert_eq!(hear(&bytes[..bytes.len() - 1], |_| {}), Some(513), "the rest comes with the next read");
        assert_eq!(hear(&[0, 0, 1], |_| {}), None);
        assert_eq!(hear(&[1, 0, 0xFF], |_| {}), None, "not UTF-8");
        assert_eq!(hear(&[0xFF; 600], |_| {}), None, "too long");
    }

    /// A client with an open FIFO, in a store without a file.
    struct One {
        client: ClientId,
        ears: Ears,
        watched: Arc<Watched>,
        background: Background,
        folder: Folder,
        _tmp: tempfile::TempDir,
    }

    impl One {
        fn new() -> Self {
            let tmp = tempfile::tempdir().unwrap();
            let store = tmp.path().join("locks.db");
            let (watched, background) = (Arc::new(Watched::default()), Background::new("tenure-sqlite"));
            let (client, ears) = (ClientId::new(), Ears::new(&store, watched.clone()));
            ears.open(client, &background).unwrap();
            let folder = Folder::open(&store).unwrap();
            Self { client, ears, watched, background, folder, _tmp: tmp }
        }

        fn listen(&self, name: &Name) -> Box<dyn Watch> {
            self.watched.listen(name, Interest::Count(self.client, Counter::Latch))
        }

        fn wake(&self, message: &[u8]) -> wake::Reach {
            wake::wake(&self.folder, self.client, message)
        }
    }

    #[tokio::test]
    async fn a_full_pipe_wakes_everybody() {
        let one = One::new();
        let mut watch = one.listen(&Name::new("quiet").unwrap());
        // More than `OVERFLOW` in one write, so that the reader assumes lost messages.
        let many = wake::message(&Name::new("loud").unwrap()).repeat(600);
        assert_eq!(one.wake(&many), wake::Reach::Told);
        testbed::within("woken", watch.signal()).await;
        drop(one.ears);
        let reach = wake::wake(&one.folder, one.client, b"x");
        assert_eq!(reach, wake::Reach::Unknown, "gone with the store");
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("the waker of somebody else");
        }
    }

    #[tokio::test]
    async fn a_waker_that_panics_keeps_nobody_else_from_being_told() {
        let one = One::new();
        let (same, other) = (Name::new("same").unwrap(), Name::new("other").unwrap());
        let mut bad: Vec<_> = (0..100).map(|_| one.listen(&same)).collect();
        let (mut behind, mut later) = (one.listen(&same), one.listen(&other));
        let panics = Waker::from(Arc::new(Panics));
        let mut waiting: Vec<_> = bad.iter_mut().map(|watch| watch.signal()).collect();
        for signal in &mut waiting {
            assert!(signal.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
        }
        assert_eq!(one.wake(&wake::message(&same)), wake::Reach::Told);
        testbed::within("who listens behind them is told", behind.signal()).await;
        assert_eq!(one.wake(&wake::message(&other)), wake::Reach::Told);
        testbed::within("and what comes next is heard", later.signal()).await;
    }

    #[tokio::test]
    async fn a_deaf_ear_is_opened_anew() {
        let one = One::new();
        let deaf = one.ears.open(one.client, &one.background).unwrap();
        deaf.reader.abort();
        testbed::until("deaf", || async { deaf.reader.is_finished() }).await;
        let name = Name::new("x").unwrap();
        let mut watch = one.listen(&name);
        one.ears.open(one.client, &one.background).unwrap();
        drop(deaf);
        assert_eq!(one.wake(&wake::message(&name)), wake::Reach::Told);
        testbed::within("woken", watch.signal()).await;
    }
}
