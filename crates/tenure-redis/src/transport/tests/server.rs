//! A server for one test, on a free port, in a temporary folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::{PATIENCE, within};

use crate::transport::{Timing, To, Transport, Value};
use crate::{Address, Options, Topology};

pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    pub(super) folder: tempfile::TempDir,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::with(&[])
    }

    /// With more arguments on the command line.
    pub(super) fn with(extra: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut tries = 0;
        loop {
            let port = free_port();
            let mut child = spawn(folder.path(), port, extra);
            if wait_until_up(&mut child, &folder.path().join("redis.sock")) {
                return Self { child, port, folder };
            }
            let _ = child.kill();
            let _ = child.wait();
            tries += 1;
            assert!(tries < 5, "redis-server does not start: {}", log(folder.path()));
        }
    }

    /// A sentinel that watches the master on that port, as one of three.
    pub(super) fn sentinel(master: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nunixsocket redis.sock\ndir {}\nlogfile log\n\
             sentinel monitor it 127.0.0.1 {master} 2\nsentinel down-after-milliseconds it 1500\n\
             sentinel failover-timeout it 5000\n",
            folder.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&config).arg("--sentinel").current_dir(folder.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let up = wait_until_up(&mut child, &folder.path().join("redis.sock"));
        assert!(up, "the sentinel does not start: {}", log(folder.path()));
        Self { child, port, folder }
    }

    pub(super) fn address(&self) -> Address {
        Address::tcp("127.0.0.1", self.port)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    pub(super) fn options(&self) -> Options {
        patient(Options::new(Topology::Standalone(self.address())))
    }

    pub(super) async fn open(&self) -> Arc<Transport> {
        Transport::open(self.options()).await.unwrap()
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same port, after it was killed.
    pub(super) fn restart(&mut self, extra: &[&str]) {
        let _ = std::fs::remove_file(self.socket());
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.child = spawn(self.folder.path(), self.port, extra);
            if wait_until_up(&mut self.child, &self.folder.path().join("redis.sock")) {
                return;
            }
            assert!(Instant::now() < deadline, "{}", log(self.folder.path()));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn spawn(folder: &Path, port: u16, extra: &[&str]) -> Child {
    Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--unixsocket",
            "redis.sock",
        ])
        .args(["--logfile", "log", "--dir"])
        .arg(folder)
        .args(["--enable-debug-command", "yes"])
        .args(extra)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

fn wait_until_up(child: &mut Child, socket: &Path) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

pub(super) fn free_port() -> u16 {
    testbed::free_port().unwrap()
}

/// Sends a command that must be answered.
pub(super) async fn command(transport: &Arc<Transport>, words: &[&str]) -> Value {
    let words: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
    transport.command(To::Key(b""), &words).await.unwrap()
}

/// Shorter than the defaults, for tests that wait for these times.
const TIMING: Timing =
    Timing { ping_after: Duration::from_secs(2), unsubscribe_after: Duration::from_secs(1) };

/// A timeout that is reached only if a call hangs.
pub(super) fn patient(options: Options) -> Options {
    Options { timeout: Duration::from_secs(60), timing: TIMING, ..options }
}

/// A short timeout, for tests in which calls are not answered.
pub(super) fn hasty(options: Options) -> Options {
    Options { timeout: Duration::from_millis(500), ..options }
}

/// Retries, because a short timeout may expire on a busy machine.
pub(super) async fn open(options: Options) -> Arc<Transport> {
    let opening = async {
        loop {
            match Transport::open(options.clone()).await {
                Ok(transport) => break transport,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    };
    within("it opens", opening).await
}
