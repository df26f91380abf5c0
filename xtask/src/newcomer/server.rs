//! A Redis server on its usual port, which the README's program connects to. In a network namespace of its own, where
//! that port is free whatever runs on this machine; where there are no such namespaces, on the machine's own port.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PORT: u16 = 6379;

/// For a server that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Killed on drop.
pub(super) struct Server {
    process: Child,
    socket: PathBuf,
    isolated: bool,
}

impl Server {
    /// Starts it with its files in `folder`, and waits until it answers.
    pub(super) fn start(folder: &Path) -> Result<Self, String> {
        let isolated = in_own_network(&["true"]).status().is_ok_and(|status| status.success());
        if !isolated && TcpListener::bind(("127.0.0.1", PORT)).is_err() {
            return Err(format!(
                "port {PORT} is in use, and `unshare` cannot make a network of its own here"
            ));
        }
        // Ends with this process, whatever becomes of it.
        let words = ["setpriv", "--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--save", ""];
        let mut command = if isolated { in_own_network(&words) } else { direct(&words) };
        let socket = folder.join("redis.socket");
        command.args(["--port", &PORT.to_string(), "--unixsocket"]).arg(&socket).arg("--dir").arg(folder);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let process = process.map_err(|e| format!("redis-server does not start: {e}"))?;
        let mut server = Self { process, socket, isolated };
        let end = Instant::now() + PATIENCE;
        while server.ask("PING").is_err() {
            if let Ok(Some(status)) = server.process.try_wait() {
                return Err(format!("redis-server: {status}"));
            }
            if Instant::now() > end {
                return Err("redis-server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Sends one command over the socket, which is reached from all namespaces. Returns what comes after its reply.
    fn ask(&self, command: &str) -> std::io::Result<BufReader<UnixStream>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let mut replies = BufReader::new(stream);
        let mut reply = String::new();
        replies.read_line(&mut reply)?;
        if reply.starts_with('+') { Ok(replies) } else { Err(std::io::Error::other(reply)) }
    }

    /// Tells when the first command with this text arrives.
    pub(super) fn watch(&self, text: &str) -> Result<mpsc::Receiver<Instant>, String> {
        let (tell, told) = mpsc::channel();
        let commands = self.ask("MONITOR").map_err(|e| format!("redis-server: {e}"))?;
        let text = text.to_owned();
        std::thread::spawn(move || {
            if commands.lines().map_while(Result::ok).any(|line| line.contains(&text)) {
                let _ = tell.send(Instant::now());
            }
        });
        Ok(told)
    }

    /// The program, where it reaches the server.
    pub(super) fn beside(&self, program: &Path) -> Command {
        if !self.isolated {
            return Command::new(program);
        }
        let mut command = Command::new("nsenter");
        command.args([
            "--user",
            "--net",
            "--preserve-credentials",
            "--target",
            &self.process.id().to_string(),
        ]);
        command.arg(program);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn direct(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// In a network of its own, with nothing but the loopback device.
fn in_own_network(words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        "ip link set lo up && exec \"$@\"",
        "sh",
    ]);
    command.args(words).stderr(Stdio::null());
    command
}
