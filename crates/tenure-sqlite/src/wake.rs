//! The sending side of wake-ups: each client has a FIFO, in a folder beside the database file. A FIFO without a reader
//! belongs to a dead client.

use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use tenure_core::{ClientId, Name, wall_micros};

use crate::wake_folder::WakeFolder;

/// The outcome of sending a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// The message was written, or the pipe is full, which makes the reader wake all its watches.
    Delivered,
    /// The FIFO has no reader: the client is dead.
    Dead,
    /// There is no usable FIFO: the client polls, or is dead.
    Unknown,
}

/// The name of a FIFO while it is created. It gets its final name once it has a reader.
pub(crate) fn unfinished_name(client: ClientId) -> String {
    format!(".{client}")
}

/// The client that a FIFO belongs to by its name, and whether the FIFO is unfinished. `None` if no client created it.
pub(crate) fn client_of(name: &str) -> Option<(ClientId, bool)> {
    let (id, unfinished) = name.strip_prefix('.').map_or((name, false), |id| (id, true));
    id.parse().ok().map(|client| (client, unfinished))
}

/// Encodes a message: the length of the name as two bytes, little-endian, and the name. Short enough to be written
/// atomically.
pub(crate) fn encode(name: &Name) -> Vec<u8> {
    let bytes = name.as_str().as_bytes();
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_le_bytes(), bytes].concat()
}

/// Sends a message to a client. It means: check this name again.
pub(crate) fn send(folder: &WakeFolder, client: ClientId, message: &[u8]) -> Delivery {
    let fd = match folder.open_file(&client.to_string(), FileType::Fifo, OFlags::WRONLY) {
        Ok(fd) => fd,
        // The FIFO is kept until the store is next opened: it shows for all other names, too, that its client is dead.
        Err(Errno::NXIO) => return Delivery::Dead,
        // A client that could not create a FIFO is alive and polls. The FIFO of a dead client may have been removed.
        Err(_) => return Delivery::Unknown,
    };
    match rustix::io::write(&fd, message) {
        Ok(_) | Err(Errno::AGAIN) => Delivery::Delivered,
        Err(Errno::PIPE) => Delivery::Dead,
        Err(_) => Delivery::Unknown,
    }
}

/// Removes the FIFOs of clients that ended without removing them.
pub(crate) fn remove_dead_fifos(folder: &WakeFolder) {
    let is_old = |name: &str| {
        let modified = folder.stat(name).map_or(u64::MAX, |s| s.st_mtime.try_into().unwrap_or(0));
        Duration::from_micros(wall_micros()) > Duration::from_secs(modified.saturating_add(60))
    };
    for name in folder.file_names().unwrap_or_default() {
        // Only files that a client may have created.
        let Some((_, unfinished)) = client_of(&name) else { continue };
        let unread = folder.open_file(&name, FileType::Fifo, OFlags::WRONLY).is_err_and(|e| e == Errno::NXIO);
        if unread && (!unfinished || is_old(&name)) {
            folder.remove(&name);
        }
    }
}
