//! The receiving side of wake-ups from other processes: each client of this store has a FIFO, and a background task
//! that reads it and wakes the client's watches.

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
use crate::shared::users_of;
use crate::wake;
use crate::wake_folder::{self, WakeFolder};

/// How long an unused FIFO stays open: a claim may be queued before it is watched.
const UNUSED_FOR: Duration = Duration::from_secs(60);
/// A writer that finds the pipe full drops its message. The smallest pipe is one page, so if a read returns less than
/// this, no writer can have found it full.
const OVERFLOW: usize = 3072;

/// The FIFO of one client and its reader. Dropping it removes the FIFO.
#[derive(Debug)]
pub(crate) struct Subscriber {
    folder: WakeFolder,
    path: PathBuf,
    name: String,
    id: (u64, u64),
    reader: JoinHandle<()>,
}

impl Subscriber {
    /// Whether its FIFO is being read and can be found by others.
    fn is_reachable(&self) -> bool {
        !self.reader.is_finished() && self.is_at_path()
    }

    /// Whether the FIFO at its path is still this fixture.
    fn is_at_path(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.id)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.reader.abort();
        // Unless another reader of this client has replaced it.
        if self.is_at_path() {
            self.folder.remove(&self.name);
        }
    }
}

/// The subscribers of all clients of one store.
#[derive(Debug)]
pub(crate) struct Subscribers {
    store: PathBuf,
    open: Mutex<HashMap<ClientId, (Arc<Subscriber>, Instant)>>,
    watched: Arc<Watched>,
}

impl Subscribers {
    pub(crate) fn new(store: &Path, watched: Arc<Watched>) -> Self {
        Self { store: store.to_owned(), open: Mutex::default(), watched }
    }

    /// Whether this client belongs to this store, and so is woken without its FIFO.
    pub(crate) fn contains(&self, client: ClientId) -> bool {
        self.open.lock().unwrap_or_else(|e| e.into_inner()).contains_key(&client)
    }

    /// Returns the subscriber of a client; opens a new one if there is none, its reader has stopped, or its FIFO was
    /// removed.
    pub(crate) fn open(&self, client: ClientId, background: &Background) -> io::Result<Arc<Subscriber>> {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((subscriber, used)) = open.get_mut(&client)
            && subscriber.is_reachable()
        {
            *used = Instant::now();
            return Ok(subscriber.clone());
        }
        open.retain(|_, (subscriber, used)| Arc::strong_count(subscriber) > 1 || used.elapsed() < UNUSED_FOR);
        let subscriber = Arc::new(self.create(client, background)?);
        open.insert(client, (subscriber.clone(), Instant::now()));
        Ok(subscriber)
    }

    fn create(&self, client: ClientId, background: &Background) -> io::Result<Subscriber> {
        let handle = background.handle()?;
        let users = users_of(&self.store);
        let folder = WakeFolder::open_or_create(&self.store, users)?;
        let (unfinished, name) = (wake::unfinished_name(client), client.to_string());
        folder.remove(&unfinished);
        rustix::fs::mknodat(&folder, &*unfinished, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let reader = folder.open_file(&unfinished, FileType::Fifo, OFlags::RDONLY)?;
        // Without a writer of its own it would read end-of-file whenever the last writer closes.
        let writer = folder.open_file(&unfinished, FileType::Fifo, OFlags::WRONLY)?;
        let (reads, writes) = (rustix::fs::fstat(&reader)?, rustix::fs::fstat(&writer)?);
        // Others may write to the folder too and could have swapped the file whose mode is about to change.
        let ours = reads.st_uid == rustix::process::geteuid().as_raw() && reads.st_nlink == 1;
        let id = wake_folder::file_id(&reads);
        if !ours || id != wake_folder::file_id(&writes) {
            return Err(io::Error::other("the FIFO was replaced by another file while it was created"));
        }
        users.grant_access(&reader, users.fifo_mode())?;
        let _inside = handle.enter();
        let receiver = Receiver::from_owned_fd(reader)?;
        folder.rename(&unfinished, &name)?;
        let reader = handle.spawn(read_messages(receiver, writer, self.watched.clone()));
        Ok(Subscriber { path: beside(&self.store, "-wake").join(&name), folder, name, id, reader })
    }
}

/// Reads the FIFO, and wakes the watches of each name that it contains.
async fn read_messages(receiver: Receiver, _writer: OwnedFd, watched: Arc<Watched>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut filled = 0;
    while receiver.readable().await.is_ok() {
        let read = match receiver.try_read(&mut buffer[filled..]) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        filled += read;
        let rest = parse_messages(&buffer[..filled], |name| watched.notify_all(Some(name)));
        match rest {
            Some(rest) if read < OVERFLOW => {
                let used = filled - rest;
                buffer.copy_within(used..filled, 0);
                filled = rest;
            }
            _ => {
                watched.notify_all(None);
                filled = 0;
            }
        }
    }
    // The FIFO is not read any more: wakes all watches, so that they check once more and then poll.
    watched.notify_all(None);
}

/// Calls `visit` for each name in `bytes`, and returns the length of an incomplete message at the end; `None` if the
/// bytes are not valid.
fn parse_messages(mut bytes: &[u8], mut visit: impl FnMut(&Name)) -> Option<usize> {
    while let [low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if length == 0 || length > Name::MAX {
            return None;
        }
        let Some((name, rest)) = rest.split_at_checked(length) else { break };
        visit(&Name::new(std::str::from_utf8(name).ok()?).ok()?);
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
    fn messages_are_split_and_invalid_bytes_are_detected() {
        let names = ["a", "line\nbreak", &"x".repeat(512)].map(|n| Name::new(n).unwrap());
        let bytes: Vec<u8> = names.iter().flat_map(wake::encode).collect();
        let mut parsed = Vec::new();
        assert_eq!(parse_messages(&bytes, |n| parsed.push(n.clone())), Some(0));
        assert_eq!(parsed, names);
        assert_eq!(
            parse_messages(&bytes[..bytes.len() - 1], |_| {}),
            Some(513),
            "the rest comes with the next read"
        );
        assert_eq!(parse_messages(&[0, 0, 1], |_| {}), None);
        assert_eq!(parse_messages(&[1, 0, 0xFF], |_| {}), None, "not UTF-8");
        assert_eq!(parse_messages(&[0xFF; 600], |_| {}), None, "too long");
    }

    /// A client with an open FIFO, beside a store that has no database file.
    struct Fixture {
        client: ClientId,
        subscribers: Subscribers,
        watched: Arc<Watched>,
        background: Background,
        folder: WakeFolder,
        _tmp: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let tmp = tempfile::tempdir().unwrap();
            let store = tmp.path().join("locks.db");
            let (watched, background) = (Arc::new(Watched::default()), Background::new("tenure-sqlite"));
            let (client, subscribers) = (ClientId::new(), Subscribers::new(&store, watched.clone()));
            subscribers.open(client, &background).unwrap();
            let folder = WakeFolder::open(&store).unwrap();
            Self { client, subscribers, watched, background, folder, _tmp: tmp }
        }

        fn watch(&self, name: &Name) -> Box<dyn Watch> {
            self.watched.subscribe(name, Interest::Count(self.client, Counter::Latch))
        }

        fn wake(&self, message: &[u8]) -> wake::Delivery {
            wake::send(&self.folder, self.client, message)
        }
    }

    #[tokio::test]
    async fn a_full_pipe_wakes_everybody() {
        let fixture = Fixture::new();
        let mut watch = fixture.watch(&Name::new("quiet").unwrap());
        // More than `OVERFLOW` in one write, so that the reader assumes lost messages.
        let many = wake::encode(&Name::new("loud").unwrap()).repeat(600);
        assert_eq!(fixture.wake(&many), wake::Delivery::Delivered);
        testbed::within("woken", watch.signal()).await;
        drop(fixture.subscribers);
        let delivery = wake::send(&fixture.folder, fixture.client, b"x");
        assert_eq!(delivery, wake::Delivery::Unknown, "gone with the store");
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the caller");
        }
    }

    #[tokio::test]
    async fn all_others_are_woken_when_wakers_panic() {
        let fixture = Fixture::new();
        let (same, other) = (Name::new("same").unwrap(), Name::new("other").unwrap());
        let mut bad: Vec<_> = (0..100).map(|_| fixture.watch(&same)).collect();
        let (mut behind, mut later) = (fixture.watch(&same), fixture.watch(&other));
        let panics = Waker::from(Arc::new(Panics));
        let mut waiting: Vec<_> = bad.iter_mut().map(|watch| watch.signal()).collect();
        for signal in &mut waiting {
            assert!(signal.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
        }
        assert_eq!(fixture.wake(&wake::encode(&same)), wake::Delivery::Delivered);
        testbed::within("a watch behind them is woken", behind.signal()).await;
        assert_eq!(fixture.wake(&wake::encode(&other)), wake::Delivery::Delivered);
        testbed::within("the next message is read", later.signal()).await;
    }

    #[tokio::test]
    async fn a_subscriber_whose_reader_stopped_is_reopened() {
        let fixture = Fixture::new();
        let stopped = fixture.subscribers.open(fixture.client, &fixture.background).unwrap();
        stopped.reader.abort();
        testbed::until("stopped", || async { stopped.reader.is_finished() }).await;
        let name = Name::new("x").unwrap();
        let mut watch = fixture.watch(&name);
        fixture.subscribers.open(fixture.client, &fixture.background).unwrap();
        drop(stopped);
        assert_eq!(fixture.wake(&wake::encode(&name)), wake::Delivery::Delivered);
        testbed::within("woken", watch.signal()).await;
    }
}
