//! Temporary folders of servers: in memory if there is room, and removed when this process ends, however it ends.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{Error, Result};

/// A tmpfs on most machines.
const MEMORY: &str = "/dev/shm";

/// Free space required there: each server needs little, but many run at once.
const ENOUGH: u64 = 1 << 30;

/// File system type of tmpfs, as in `statfs`.
const TMPFS: u64 = 0x0102_1994;

/// Reads folder paths, and removes the folders when its standard input closes, which means that this process ended.
/// Retries, because a server that is being killed may still write.
const SWEEP: &str = r#"trap "" INT TERM HUP
while read -r folder; do set -- "$@" "$folder"; done
for n in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$@" 2>/dev/null && exit; sleep 0.2; done"#;

/// Creates a new folder.
pub(crate) fn fresh() -> Result<tempfile::TempDir> {
    let folder = fresh_in(Path::new(MEMORY), ENOUGH)?;
    sweep_after(folder.path())?;
    Ok(folder)
}

/// Creates it in `memory` if that is a tmpfs with enough room, else in the default temporary directory.
fn fresh_in(memory: &Path, enough: u64) -> Result<tempfile::TempDir> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("testbed-");
    if has_room(memory, enough)
        && let Ok(folder) = folder.tempdir_in(memory)
    {
        return Ok(folder);
    }
    Ok(folder.tempdir()?)
}

fn has_room(memory: &Path, enough: u64) -> bool {
    rustix::fs::statfs(memory).is_ok_and(|fs| {
        let [kind, free, block] = [fs.f_type as u64, fs.f_bavail, fs.f_bsize as u64];
        kind == TMPFS && free.saturating_mul(block) >= enough
    })
}

/// Registers the folder for removal after this process, in case it is killed or keeps the server in a static.
fn sweep_after(folder: &Path) -> Result<()> {
    static SWEEPER: OnceLock<Mutex<Option<ChildStdin>>> = OnceLock::new();
    let sweeper = SWEEPER.get_or_init(Mutex::default);
    let mut sweeper = sweeper.lock().unwrap_or_else(PoisonError::into_inner);
    if sweeper.is_none() {
        let mut sweep = Command::new("sh");
        // In a process group of its own, so that what ends the tests does not end it.
        sweep.args(["-c", SWEEP, "sh"]).current_dir("/").process_group(0);
        sweep.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = sweep.spawn().map_err(|e| Error::failed(format!("sh does not start: {e}")))?;
        *sweeper = started.stdin;
    }
    if let Some(to) = sweeper.as_mut() {
        writeln!(to, "{}", folder.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_live_in_memory_where_there_is_room() {
        let usual = std::env::temp_dir();
        let memory = Path::new(MEMORY);
        let (few, most) = (1, u64::MAX);
        for (place, enough) in [(memory, most), (Path::new("/proc"), few), (Path::new("/no/such"), few)] {
            let folder = fresh_in(place, enough).unwrap();
            assert_eq!(folder.path().parent(), Some(&*usual), "{place:?}, {enough}");
        }
        let folder = fresh().unwrap();
        let expected = if has_room(memory, ENOUGH) { memory } else { &*usual };
        assert_eq!(folder.path().parent(), Some(expected));
    }

    #[test]
    fn room_is_what_can_still_be_written() {
        let memory = Path::new(MEMORY);
        if has_room(memory, 1) {
            let fs = rustix::fs::statfs(memory).unwrap();
            let free = fs.f_bavail * fs.f_bsize as u64;
            assert!(has_room(memory, free / 2) && !has_room(memory, free * 2));
        }
    }
}
