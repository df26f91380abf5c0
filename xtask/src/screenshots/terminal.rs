//! A terminal that a program draws on.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::screen::{Row, read};

/// What ends a drawing of `top`: the rest of the screen is cleared.
const DRAWN: &str = "\x1b[J";

/// A program and its terminal. The program is killed on drop.
pub(super) struct Terminal {
    master: File,
    program: Child,
    size: (u16, u16),
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(super) fn start(program: Command, size: (u16, u16)) -> Result<Self, String> {
        let (master, slave) = open(size).map_err(|e| format!("no terminal: {e}"))?;
        // `top` draws on its controlling terminal.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let end = || slave.try_clone().map(Stdio::from).map_err(|e| format!("no terminal: {e}"));
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let program = command.spawn().map_err(|e| format!("setsid does not start: {e}"))?;
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let mut reader = master.try_clone().map_err(|e| format!("no terminal: {e}"))?;
        let kept = seen.clone();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            loop {
                match reader.read(&mut some) {
                    Ok(n @ 1..) => kept.lock().unwrap_or_else(PoisonError::into_inner).extend(&some[..n]),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    _ => return,
                }
            }
        });
        Ok(Self { master, program, size, seen })
    }

    /// What is on the screen after the last complete drawing.
    pub(super) fn screen(&self) -> Result<Vec<Row>, String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seen = String::from_utf8_lossy(&seen);
        let end = seen.rfind(DRAWN).map_or(0, |at| at + DRAWN.len());
        read(&seen[..end], self.size)
    }

    pub(super) fn press(&self, keys: &str) -> Result<(), String> {
        (&self.master).write_all(keys.as_bytes()).map_err(|e| format!("the terminal takes no keys: {e}"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Both ends.
fn open((columns, rows): (u16, u16)) -> std::io::Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    let path = ptsname(&master, Vec::new())?;
    // It must not become the controlling terminal of this process.
    let flags = OFlags::NOCTTY.bits() as i32;
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(String::from_utf8_lossy(path.to_bytes()).as_ref())?;
    Ok((File::from(master), slave))
}
