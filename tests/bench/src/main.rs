//! Benchmarks, each compared with a peer that does the minimum for the same task. Rounds of ours and of the peer
//! alternate, so that a machine that slows down affects both; the result is the median of the rounds' ratios.

mod contended;
mod cpu;
mod handover;
mod jvms;
mod memory;
mod outage;
mod pairs;
mod redis;
mod report;
mod rounds;
mod sqlite;
mod stats;
mod telemetry;
mod turns;
mod waiting;
mod worker;
mod zookeeper;

use std::process::ExitCode;
use std::time::Duration;

use report::Row;

/// Any error ends the run.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Size of the benchmarks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Rounds of each side for rates. Many short ones, so that other load on the machine affects few of them.
    pub(crate) rounds: usize,
    /// Duration of a round on the memory store.
    pub(crate) memory: Duration,
    /// Duration of a round on SQLite.
    pub(crate) sqlite: Duration,
    /// Rounds of hand-overs, and the number of hand-overs in one.
    pub(crate) turns: usize,
    pub(crate) handovers: usize,
    /// Number of waiting processes, and how long they are observed.
    pub(crate) waiters: usize,
    pub(crate) watched: Duration,
    /// Duration of a round on Redis, and of one with the bare client on ZooKeeper.
    pub(crate) redis: Duration,
    /// Rounds against Redisson and Curator, and the duration of one.
    pub(crate) peer_rounds: usize,
    pub(crate) peer: Duration,
    /// Locks held at once, and pairs done before.
    pub(crate) held: usize,
    pub(crate) earlier: usize,
    /// Whether to run the benchmark that needs two builds.
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

/// Checks that the benchmarks work, with rough results.
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

/// Parts that can be run alone.
const PARTS: &[&str] = &[
    "embedded",
    "telemetry",
    "redlock",
    "redis",
    #[cfg(feature = "redis-rs")]
    "redis-rs",
    "fair",
    "zookeeper",
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut quick, mut json) = (false, false);
    if let ["--worker", ref rest @ ..] = words[..] {
        return exit_code(worker::main(rest));
    }
    if words == ["--outage"] {
        return exit_code(outage::outage());
    }
    let mut only = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word {
            "--quick" => quick = true,
            "--json" => json = true,
            "--only" => match words.next() {
                Some(part) if PARTS.contains(&part) => only = Some(part),
                other => return exit_code(Err(format!("--only one of {PARTS:?}, not {other:?}").into())),
            },
            _ => {
                return exit_code(
                    Err(format!("there is no option `{word}`: --only, --quick, --json").into()),
                );
            }
        }
    }
    let scale = if quick { QUICK } else { FULL };
    exit_code(bench(scale, only, json).map(|met| if met || quick { 0 } else { 1 }))
}

fn exit_code(outcome: Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the benchmarks, and returns whether all bars are met.
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
        if wanted("telemetry") && (scale.builds || only.is_some()) {
            eprintln!("telemetry …");
            rows.push(telemetry::without_a_consumer(scale).await?);
        }
        if wanted("redlock") {
            eprintln!("redlock …");
            rows.extend(redis::quorum::rows(scale).await?);
        }
        if wanted("redis") {
            rows.extend(redis::rows(scale, workers.handle()).await?);
        }
        #[cfg(feature = "redis-rs")]
        if wanted("redis-rs") {
            eprintln!("redis: beside the crate redis …");
            rows.extend(redis::redis_rs::rows(scale, workers.handle()).await?);
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
