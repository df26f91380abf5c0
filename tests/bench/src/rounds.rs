//! Alternating rounds of two sides.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::Result;
use crate::stats::{Spread, median};

/// The rates of both sides, and the ratios of the rounds.
#[derive(Debug)]
pub(crate) struct Rates {
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    pub(crate) ratio: Spread,
}

/// Runs both sides alternately. The first round of each is a warm-up and does not count.
pub(crate) async fn alternate<A, B>(
    rounds: usize,
    mut ours: impl FnMut() -> A,
    mut peer: impl FnMut() -> B,
) -> Result<Rates>
where
    A: Future<Output = Result<f64>>,
    B: Future<Output = Result<f64>>,
{
    ours().await?;
    peer().await?;
    let (mut mine, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (a, b) = (ours().await?, peer().await?);
        ratios.push(a / b);
        mine.push(a);
        theirs.push(b);
    }
    Ok(Rates { ours: median(&mine), peer: median(&theirs), ratio: Spread::of(&ratios) })
}

/// Repeats `work`, a batch of `batch`, until `time` is over. Returns operations per second.
pub(crate) async fn rate<F>(time: Duration, batch: u32, mut work: impl FnMut() -> F) -> Result<f64>
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
