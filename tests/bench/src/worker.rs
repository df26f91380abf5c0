//! Another process: this program again, controlled line by line. It ends when its standard input does.
//!
//! `lock URL NAME` answers `acquire` with `granted NANOS` and `release` with `released NANOS`; `held`, which runs
//! inside `flock(1)`, prints `granted NANOS` at once and `released NANOS` at the next line, and exits. The nanoseconds
//! are of the boot clock, which all processes of a machine share: taken at the return of acquire, and before release.

use std::ffi::OsStr;
use std::io::BufRead;
use std::process::Stdio;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tenure::backend::Clock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Result;
use crate::stats::percentile;
use crate::turns::Turns;

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

    /// Starts a process with `tasks` tasks that take turns on one name.
    pub(crate) fn contend(url: &str, turns: Turns, tasks: usize) -> Result<Self> {
        let me = std::env::current_exe()?;
        let Turns { kind, hold, pause } = turns;
        let [hold, pause] = [hold, pause].map(|time| time.as_millis().to_string());
        let (kind, tasks) = (kind.to_string(), tasks.to_string());
        Self::start(Command::new(me).args(["--worker", "contend", url, &kind, &tasks, &hold, &pause]))
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
        ["contend", url, kind, tasks, hold, pause] => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            let [hold, pause] = [hold.parse()?, pause.parse()?].map(Duration::from_millis);
            runtime.block_on(contend(url, Turns { kind: kind.parse()?, hold, pause }, tasks.parse()?))
        }
        _ => Err("a worker is `lock URL NAME`, `contend URL KIND TASKS HOLD PAUSE` or `held`".into()),
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

/// For each line `contend MILLIS` all tasks take turns for that long; prints the number of turns, and the longest and
/// the median wait in µs.
async fn contend(url: &str, turns: Turns, tasks: usize) -> Result<u8> {
    let Turns { kind, hold, pause } = turns;
    let client = tenure::connect(url).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let time = Duration::from_millis(line.strip_prefix("contend ").unwrap_or_default().parse()?);
        let begin = std::time::Instant::now();
        let turns = (0..tasks).map(|_| {
            let lock = kind.lock(&client, &format!("shared-{kind}"));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while begin.elapsed() < time {
                    let asked = std::time::Instant::now();
                    let guard = lock.acquire().await?;
                    waits.push(asked.elapsed().as_secs_f64() * 1e6);
                    work(hold).await?;
                    guard.release().await?;
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(waits)
            })
        });
        let mut waits = Vec::new();
        for task in turns.collect::<Vec<_>>() {
            waits.extend(task.await?.map_err(|error| error.to_string())?);
        }
        println!("pairs {}", waits.len());
        println!("longest {:.0}", percentile(&waits, 1.0));
        println!("p50 {:.0}", percentile(&waits, 0.5));
    }
    client.close().await?;
    Ok(0)
}

/// Waits as long as a thread of the peer sleeps, whose sleep the kernel makes longer by its slack, and blocks nothing, as
/// that thread does not. The runtime's own timer has a resolution of a millisecond, and may take two for one.
async fn work(time: Duration) -> std::io::Result<()> {
    const SLACK: Duration = Duration::from_micros(50);
    if time.is_zero() {
        return Ok(());
    }
    let time = Timespec::try_from(time + SLACK).map_err(std::io::Error::other)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value: time };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    // A timer is read as a pipe is.
    Receiver::from_owned_fd_unchecked(timer)?.readable().await
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
