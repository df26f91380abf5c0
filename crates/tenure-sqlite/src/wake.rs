//! Waking clients of other processes: a FIFO each, in a folder beside the file. One that nobody reads belongs to a
//! client that is gone.

use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use tenure_core::{ClientId, Name, wall_micros};

use crate::folder::Folder;

/// What became of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// It was told, or has so much to read that it looks at everything.
    Told,
    /// There is nobody any more.
    Dead,
    /// There is no way to tell it, or to know: it looks by itself, or is gone.
    Unknown,
}

/// A FIFO gets its name when it is read already. Under this one it is made.
pub(crate) fn unfinished(client: ClientId) -> String {
    format!(".{client}")
}

/// Whose FIFO this is by its name, and whether it is an unfinished one. `None` if no client of ours made it.
pub(crate) fn client_of(name: &str) -> Option<(ClientId, bool)> {
    let (id, unfinished) = name.strip_prefix('.').map_or((name, false), |id| (id, true));
    id.parse().ok().map(|client| (client, unfinished))
}

/// A message: the length of the name in two bytes, low one first, and the name. Short enough to be written at once.
pub(crate) fn message(name: &Name) -> Vec<u8> {
    let bytes = name.as_str().as_bytes();
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_le_bytes(), bytes].concat()
}

/// Tells a client to look at a name again.
pub(crate) fn wake(folder: &Folder, client: ClientId, message: &[u8]) -> Reach {
    let fd = match folder.open_file(&client.to_string(), FileType::Fifo, OFlags::WRONLY) {
        Ok(fd) => fd,
        // It stays until somebody opens the store: it says of all other names, too, that its client is dead.
        Err(Errno::NXIO) => return Reach::Dead,
        // One that could not make a FIFO is alive and polls. That of a dead one may have been removed.
        Err(_) => return Reach::Unknown,
    };
    match rustix::io::write(&fd, message) {
        Ok(_) | Err(Errno::AGAIN) => Reach::Told,
        Err(Errno::PIPE) => Reach::Dead,
        Err(_) => Reach::Unknown,
    }
}

/// Removes the FIFOs of clients that ended without a chance to do it.
pub(crate) fn sweep(folder: &Folder) {
    let old = |name: &str| {
        let made = folder.stat(name).map_or(u64::MAX, |s| s.st_mtime.try_into().unwrap_or(0));
        Duration::from_micros(wall_micros()) > Duration::from_secs(made.saturating_add(60))
    };
    for name in folder.names().unwrap_or_default() {
        // Only what a client of ours may have made.
        let Some((_, unfinished)) = client_of(&name) else { continue };
        let unread = folder.open_file(&name, FileType::Fifo, OFlags::WRONLY).is_err_and(|e| e == Errno::NXIO);
        if unread && (!unfinished || old(&name)) {
            folder.remove(&name);
        }
    }
}
