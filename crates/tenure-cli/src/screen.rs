//! Full-screen mode of the terminal: alternate screen, unbuffered keys, no echo. Restored on drop, and on a panic
//! before its message is printed.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write, stdout};
use std::sync::{Mutex, Once};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The terminal state to restore, taken by the drop or the panic hook, whichever runs first.
static SAVED: Mutex<Option<(File, Termios)>> = Mutex::new(None);

#[derive(Debug)]
pub(crate) struct Screen {
    tty: File,
}

/// Opens the terminal to draw on, if standard output is one.
pub(crate) fn open_terminal() -> Option<File> {
    let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    stdout().is_terminal().then_some(tty)
}

impl Screen {
    /// Enters full-screen mode. Only one `Screen` may exist at a time.
    pub(crate) fn enter(tty: &File) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let modes = tcgetattr(tty)?;
        // Keep ISIG for Ctrl-C and Ctrl-Z, and the output modes for line breaks.
        let mut ours = modes.clone();
        ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let screen = Self { tty: tty.try_clone()? };
        *saved_state() = Some((tty.try_clone()?, modes));
        tcsetattr(tty, OptionalActions::Now, &ours)?;
        (&screen.tty).write_all(ENTER.as_bytes())?;
        Ok(screen)
    }

    /// Columns and lines; 80 x 24 if the terminal does not report a size.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// Redraws the screen with these lines, in one write.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        (&self.tty).write_all(format!("\x1b[H{}\x1b[J", lines.join("\n")).as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn saved_state() -> std::sync::MutexGuard<'static, Option<(File, Termios)>> {
    SAVED.lock().unwrap_or_else(|e| e.into_inner())
}

fn restore() {
    if let Some((mut tty, modes)) = saved_state().take() {
        // Ignore errors: the terminal may be gone.
        let _ = tty.write_all(LEAVE.as_bytes());
        let _ = tcsetattr(&tty, OptionalActions::Now, &modes);
    }
}

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(u8),
    Up,
    Down,
    Enter,
    Escape,
}

/// The keys in what the terminal sends at once. Sequences of other keys are skipped.
fn parse_keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        keys.push(match (first, rest) {
            (b'\r' | b'\n', _) => Key::Enter,
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let end = sequence
                    .iter()
                    .position(|b| b.is_ascii_alphabetic() || *b == b'~')
                    .unwrap_or(sequence.len());
                bytes = sequence.get(end + 1..).unwrap_or_default();
                match sequence.get(end) {
                    Some(b'A') => Key::Up,
                    Some(b'B') => Key::Down,
                    _ => continue,
                }
            }
            (0x1b, _) => Key::Escape,
            (char, _) => Key::Char(*char),
        });
    }
    keys
}

/// Reads keys on a thread of its own until the terminal is closed. The thread ends with the process.
pub(crate) fn read_keys(mut tty: File) -> mpsc::UnboundedReceiver<Key> {
    let (pressed, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok(n @ 1..) = tty.read(&mut bytes) {
            for key in parse_keys(&bytes[..n]) {
                if pressed.send(key).is_err() {
                    return;
                }
            }
        }
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    #[test]
    fn arrows_are_keys_and_other_sequences_are_none() {
        let keys = parse_keys(b"w\x1b[A\x1bOB\r\x1b[5~q\x1b");
        let char = Key::Char;
        assert_eq!(keys, [char(b'w'), Key::Up, Key::Down, Key::Enter, char(b'q'), Key::Escape]);
    }

    /// One test, since only one screen may exist at a time.
    #[test]
    fn the_terminal_is_as_it_was_after_the_drop_and_after_a_panic() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let flags = rustix::fs::OFlags::NOCTTY.bits() as i32;
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true), flags);
        let tty = options.open(path).unwrap();
        let mut master = File::from(master);
        let mut written = || {
            let mut some = [0; 256];
            let n = master.read(&mut some).unwrap();
            String::from_utf8_lossy(&some[..n]).into_owned()
        };
        let echoes = || tcgetattr(&tty).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON);
        assert!(echoes());

        let screen = Screen::enter(&tty).unwrap();
        assert!(!echoes());
        assert_eq!(written(), ENTER);
        drop(screen);
        assert!(echoes());
        assert_eq!(written(), LEAVE);

        let screen = Screen::enter(&tty).unwrap();
        assert_eq!(written(), ENTER);
        // Panic on another thread, so that only the hook can have restored the terminal: `screen` is not dropped yet.
        std::thread::spawn(|| panic!("to be seen on the page that was there before")).join().unwrap_err();
        assert!(echoes());
        assert_eq!(written(), LEAVE);
        drop(screen);
    }
}
