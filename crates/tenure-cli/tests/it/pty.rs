//! A terminal to run tenure on.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use testbed::wait_until;

use crate::common::{Harness, Running, heed_signals};

/// Both ends of a terminal; all that is written to it is kept.
pub(crate) struct Pty {
    master: File,
    slave: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Pty {
    pub(crate) fn new() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        // The test's own process must not get it as its controlling terminal.
        let flags = rustix::fs::OFlags::NOCTTY.bits() as i32;
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true), flags);
        let slave = options.open(path).unwrap();
        let master = File::from(master);
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut reader, kept) = (master.try_clone().unwrap(), seen.clone());
        std::thread::spawn(move || {
            let mut some = [0; 1024];
            loop {
                match reader.read(&mut some) {
                    Ok(n) => kept.lock().unwrap().extend(&some[..n]),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Self { master, slave, seen }
    }

    pub(crate) fn end(&self) -> Stdio {
        self.slave.try_clone().unwrap().into()
    }

    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    pub(crate) fn until_seen(&self, text: &str) {
        wait_until(text, || self.seen().contains(text).then_some(()));
    }

    pub(crate) fn write(&self, text: &str) {
        (&self.master).write_all(text.as_bytes()).unwrap();
    }
}

/// A shell whose controlling terminal this is; `$0` is tenure.
pub(crate) fn session(harness: &Harness, pty: &Pty, script: &str) -> Running {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "sh", "-c", script, env!("CARGO_BIN_EXE_tenure")]);
    command.current_dir(harness.path("")).env("TENURE_URL", harness.url());
    command.stdin(pty.end()).stdout(pty.end()).stderr(pty.end());
    heed_signals(&mut command);
    Running::start(command)
}
