//! Waking clients of other processes: a FIFO each, in a folder beside the file. One that nobody reads belongs to a
//! client that is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tenure_core::{ClientId, Name};

/// What became of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// It was told, or has so much to read that it looks at everything.
    Told,
    /// There is nobody any more.
    Dead,
    /// There is no way to tell it, or to know: it looks by itself.
    Unknown,
}

/// A FIFO gets its name when it is read already. Under this one it is made.
pub(crate) fn unfinished(folder: &Path, client: ClientId) -> PathBuf {
    folder.join(format!(".{client}"))
}

pub(crate) fn fifo(folder: &Path, client: ClientId) -> PathBuf {
    folder.join(client.to_string())
}

/// A message: the length of the name in two bytes, low one first, and the name. Short enough to be written at once.
pub(crate) fn message(name: &Name) -> Vec<u8> {
    let bytes = name.as_str().as_bytes();
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_le_bytes(), bytes].concat()
}

/// Tells a client to look at a name again.
pub(crate) fn wake(folder: &Path, client: ClientId, message: &[u8]) -> Reach {
    let path = fifo(folder, client);
    let fd = match open(&path) {
        Ok(fd) => fd,
        // It stays until somebody opens the store: it says of all other names, too, that its client is dead.
        Err(Errno::NXIO) => return Reach::Dead,
        // One that could not make a FIFO is alive and polls.
        Err(_) => return Reach::Unknown,
    };
    match rustix::io::write(&fd, message) {
        Ok(_) | Err(Errno::AGAIN) => Reach::Told,
        Err(Errno::PIPE) => Reach::Dead,
        Err(_) => Reach::Unknown,
    }
}

fn open(path: &Path) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Removes the FIFOs of clients that ended without a chance to do it.
pub(crate) fn sweep(folder: &Path) {
    let old = |entry: &fs::DirEntry| {
        let made = entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::now());
        made.elapsed().unwrap_or_default() > Duration::from_secs(60)
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let (id, unfinished) = name.strip_prefix('.').map_or((&*name, false), |id| (id, true));
        // Only what a client of ours may have made.
        if id.parse::<ClientId>().is_err() {
            continue;
        }
        if open(&entry.path()).is_err_and(|e| e == Errno::NXIO) && (!unfinished || old(&entry)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
