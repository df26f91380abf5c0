//! Benchmarks, each beside a peer that does the least that could be called the same. Ours and the peer's rounds
//! alternate, so that a machine that slows down slows down both; what counts is the median of the rounds' ratios.

mod contended;
mod cpu;
mod handover;
mod jvms;
mod memory;
mod pairs;
mod redis;
mod report;
mod rounds;
mod signs;
mod sqlite;
mod stats;
mod turns;
mod waiting;
mod worker;
mod zookeeper;

use std::process::ExitCode;
use std::time::Duration;

use report::Row;

/// Whatever goes wrong ends the run.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Rounds of each side that measure rates. Many short ones: what else the machine does hits few of them.
    pub(crate) rounds: usize,
    /// How long a round of the memory store takes.
    pub(crate) memory: Duration,
    /// And one of SQLite.
    pub(crate) sqlite: Duration,
    /// Rounds of hand-overs, and how many are in one.
    pub(crate) turns: usize,
    pub(crate) handovers: usize,
    /// Waiting processes, and how long they are watched.
    pub(crate) waiters: usize,
    pub(crate) watched: Duration,
    /// How long a round on Redis takes, and one of a bare client on ZooKeeper.
    pub(crate) redis: Duration,
    /// Rounds beside Redisson and Curator, and how long one takes.
    pub(crate) peer_rounds: usize,
    pub(crate) peer: Duration,
    /// Locks held at once, and pairs that came before.
    pub(crate) held: usize,
    pub(crate) earlier: usize,
    /// Whether to measure what has to be built for it, twice.
    pub(crate) builds: bool,
}

const FULL: Scale = Scale {
    rounds: 31,
    memory: Duration::from_millis(50),
    sqlite: Duration::from_millis(100),
    turns: 5,
    handovers: 50,
    waiters: 100,
    watched: Duration::from_secs(10),
    redis: Duration::from_millis(200),
    peer_rounds: 5,
    peer: Duration::from_secs(2),
    held: 10_000,
    earlier: 5_000,
    builds: true,
};

/// Shows that the benchmarks work, and roughly where things stand.
const QUICK: Scale = Scale {
    rounds: 9,
    memory: Duration::from_millis(20),
    sqlite: Duration::from_millis(50),
    turns: 5,
    handovers: 10,
    waiters: 20,
    watched: Duration::from_secs(3),
    redis: Duration::from_millis(50),
    peer_rounds: 1,
    peer: Duration::from_secs(1),
    held: 1_000,
    earlier: 500,
    builds: false,
};

/// What can be measured alone.
const PARTS: [&str; 6] = ["embedded", "signs", "redlock", "redis", "fair", "zookeeper"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut quick, mut json) = (false, false);
    if let ["--worker", ref rest @ ..] = words[..] {
        return said(worker::main(rest));
    }
    let mut only = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word {
            "--quick" => quick = true,
            "--json" => json = true,
            "--only" => match words.next() {
                Some(part) if PARTS.contains(&part) => only = Some(part),
                other => return said(Err(format!("--only one of {PARTS:?}, not {other:?}").into())),
            },
            _ => return said(Err(format!("there is no option `{word}`: --only, --quick, --json").into())),
        }
    }
    let scale = if quick { QUICK } else { FULL };
    said(bench(scale, only, json).map(|met| if met || quick { 0 } else { 1 }))
}

fn said(outcome: Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs all, and says whether all bars are met.
fn bench(scale: Scale, only: Option<&str>, json: bool) -> Result<bool> {
    if cfg!(debug_assertions) {
        eprintln!("not optimised: the numbers mean nothing");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rows: Vec<Row> = runtime.block_on(async {
        let mut rows = Vec::new();
        let wanted = |part| only.is_none_or(|only| only == part);
        if wanted("embedded") {
            eprintln!("memory …");
            rows.push(memory::pairs(scale).await?);
            eprintln!("sqlite …");
            rows.push(sqlite::pairs(scale).await?);
            eprintln!("hand-overs …");
            rows.push(handover::between_processes(scale).await?);
            eprintln!("waiting processes …");
            rows.push(waiting::cpu_of_waiting(scale).await?);
        }
        if wanted("signs") && (scale.builds || only.is_some()) {
            eprintln!("signs …");
            rows.push(signs::unwatched(scale).await?);
        }
        if wanted("redlock") {
            eprintln!("redlock …");
            rows.extend(redis::quorum::rows(scale).await?);
        }
        if wanted("redis") {
            rows.extend(redis::rows(scale, workers.handle()).await?);
        }
        if wanted("fair") {
            eprintln!("redis: fair …");
            rows.extend(redis::fair(scale).await?);
        }
        if wanted("zookeeper") {
            rows.extend(zookeeper::rows(scale, workers.handle()).await?);
        }
        Ok::<_, Box<dyn std::error::Error>>(rows)
    })?;
    let text = if json { report::json(&rows) } else { report::table(&rows) };
    println!("{text}");
    Ok(rows.iter().all(|row| row.met))
}
