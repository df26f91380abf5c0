//! What needs no server: the memory store, SQLite, and the command on it.

mod handover;
mod memory;
mod sqlite;
mod start;
mod telemetry;
mod waiting;
pub(crate) mod worker;

use std::time::{Duration, Instant};

use crate::Result;
use crate::bars::RATE;
use crate::run::Run;

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Rounds of each side, and the milliseconds of one.
    rounds: usize,
    time: Duration,
    /// Hand-overs of a round.
    handovers: usize,
    /// Waiting processes, and how long they are observed.
    waiters: usize,
    watched: Duration,
}

const FULL: Scale = Scale {
    rounds: 31,
    time: Duration::from_millis(80),
    handovers: 20,
    waiters: 100,
    watched: Duration::from_secs(10),
};

const QUICK: Scale = Scale {
    rounds: 2,
    time: Duration::from_millis(20),
    handovers: 5,
    waiters: 20,
    watched: Duration::from_secs(1),
};

pub(crate) async fn all(run: &mut Run) -> Result<()> {
    let quick = run.plan.quick;
    let scale = if quick { QUICK } else { FULL };
    if run.plan.wants("embedded memory") {
        memory::pairs(run, scale).await?;
    }
    if run.plan.wants("embedded sqlite") {
        sqlite::pairs(run, scale).await?;
    }
    if run.plan.wants("embedded hand-over") {
        handover::between_processes(run, scale).await?;
    }
    if run.plan.wants("embedded waiting") {
        waiting::cpu_of_waiting(run, scale).await?;
    }
    // These build programs.
    if run.plan.wants("embedded start") && !quick {
        start::of_the_command(run).await?;
    }
    if run.plan.wants("telemetry") && !quick {
        telemetry::without_a_consumer(run, scale).await?;
    }
    Ok(())
}

/// Runs both sides alternately. The first round of each is a warm-up and does not count.
async fn alternate<A, B>(
    run: &mut Run,
    workload: &str,
    rounds: usize,
    (ours, mut one): (&str, impl FnMut() -> A),
    (theirs, mut other): (&str, impl FnMut() -> B),
) -> Result<()>
where
    A: Future<Output = Result<f64>>,
    B: Future<Output = Result<f64>>,
{
    run.progress.at(workload, "");
    one().await?;
    other().await?;
    for _ in 0..rounds {
        run.samples.push(workload, RATE, ours, one().await?);
        run.samples.push(workload, RATE, theirs, other().await?);
    }
    Ok(())
}

/// Repeats `work`, a batch of `batch`, until `time` is over. Returns operations per second.
async fn rate<F>(time: Duration, batch: u32, mut work: impl FnMut() -> F) -> Result<f64>
where
    F: Future<Output = Result<()>>,
{
    let begin = Instant::now();
    let mut done = 0.0;
    while begin.elapsed() < time {
        work().await?;
        done += f64::from(batch);
    }
    Ok(done / begin.elapsed().as_secs_f64())
}
