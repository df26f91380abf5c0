//! Another process: this program again, controlled line by line. It ends when its standard input does.
//!
//! `lock URL NAME` answers `acquire` with `granted NANOS` and `release` with `released NANOS`; `held`, which runs
//! inside `flock(1)`, prints `granted NANOS` at once and `released NANOS` at the next line, and exits. The nanoseconds
//! are of the boot clock, which all processes of a machine share: taken at the return of acquire, and before release.

use std::ffi::OsStr;
use std::io::BufRead;
use std::process::Stdio;
use std::time::Duration;

use tenure::backend::Clock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Result;

/// Upper bound for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A handle on another process. Killed on drop.
pub(crate) struct Worker {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a process with a client of its own.
    pub(crate) fn lock(url: &str, name: &str) -> Result<Self> {
        let me = std::env::current_exe()?;
        Self::start(Command::new(me).args(["--worker", "lock", url, name]))
    }

    /// Starts a process that runs while `flock(1)` holds `file`.
    pub(crate) fn flock(file: &OsStr) -> Result<Self> {
        let me = std::env::current_exe()?;
        Self::start(Command::new("flock").arg(file).arg(me).args(["--worker", "held"]))
    }

    fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let to = child.stdin.take().ok_or("no input")?;
        let from = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Self { child, to, from })
    }

    pub(crate) async fn send(&mut self, word: &str) -> Result<()> {
        Ok(self.to.write_all(format!("{word}\n").as_bytes()).await?)
    }

    /// Returns the nanoseconds of the next answer, which must begin with `word`.
    pub(crate) async fn answer(&mut self, word: &str) -> Result<u64> {
        let line = tokio::time::timeout(PATIENCE, self.from.next_line()).await;
        let line = line.map_err(|_| format!("a worker has not {word} anything within {PATIENCE:?}"))??;
        let line = line.ok_or_else(|| format!("a worker ended before it has {word} anything"))?;
        let nanos = line.strip_prefix(word).ok_or_else(|| format!("a worker said {line:?}, not {word:?}"))?;
        Ok(nanos.trim().parse()?)
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().ok_or_else(|| "a worker has ended".into())
    }

    /// Closes its standard input and waits for its end.
    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.to);
        tokio::time::timeout(PATIENCE, self.child.wait()).await??;
        Ok(())
    }
}

/// Main function of the worker process.
pub(crate) fn main(words: &[&str]) -> Result<u8> {
    match words {
        ["held"] => held(),
        ["lock", url, name] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(lock(url, name))
        }
        _ => Err("a worker is `lock URL NAME` or `held`".into()),
    }
}

fn now() -> u64 {
    Clock::boot().now().as_nanos()
}

fn held() -> Result<u8> {
    println!("granted {}", now());
    std::io::stdin().lock().read_line(&mut String::new())?;
    println!("released {}", now());
    Ok(0)
}

async fn lock(url: &str, name: &str) -> Result<u8> {
    let client = tenure::connect(url).await?;
    let lock = client.lock(name);
    println!("ready {}", now());
    let mut guard = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match (line.as_str(), guard.take()) {
            ("acquire", None) => {
                guard = Some(lock.acquire().await?);
                println!("granted {}", now());
            }
            ("release", Some(held)) => {
                let begin = now();
                held.release().await?;
                println!("released {begin}");
            }
            (other, _) => return Err(format!("{other:?} makes no sense now").into()),
        }
    }
    client.close().await?;
    Ok(0)
}
