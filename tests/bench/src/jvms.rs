//! Two JVMs with a peer's client in each, controlled through its driver.

use std::ops::Deref;
use std::time::Duration;

use interop::Peer;

use crate::Result;
use crate::turns::Turns;

pub(crate) struct Jvms<J>(pub(crate) [J; 2]);

/// Pairs done, and how long a thread waited for the lock: longest and median.
pub(crate) struct LoopResult {
    pub(crate) pairs: f64,
    pub(crate) longest: Duration,
    pub(crate) p50: Duration,
}

impl<J: Deref<Target = Peer>> Jvms<J> {
    /// Pairs per second of one JVM with `threads` threads, each on its own name.
    pub(crate) async fn own_names(&self, name: &str, threads: usize, time: Duration) -> Result<f64> {
        Ok(run_loop(&self.0[0], &format!("plain {name} {} {threads} own", seconds(time)), time).await?.pairs)
    }

    /// Both JVMs on one name, half of the threads each.
    pub(crate) async fn one_name(&self, turns: Turns, threads: usize, time: Duration) -> Result<LoopResult> {
        let Turns { kind, hold, pause } = turns;
        let (threads, hold, pause) = (threads / 2, hold.as_millis(), pause.as_millis());
        let what =
            format!("{} j{kind} {} {threads} shared {hold} {pause}", kind.driver_word(), seconds(time));
        let (a, b) = tokio::try_join!(run_loop(&self.0[0], &what, time), run_loop(&self.0[1], &what, time))?;
        Ok(a.and(&b))
    }
}

impl LoopResult {
    /// Combines the results of two JVMs that did the same work.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            pairs: self.pairs + other.pairs,
            longest: self.longest.max(other.longest),
            p50: (self.p50 + other.p50) / 2,
        }
    }
}

/// The driver takes whole seconds.
fn seconds(time: Duration) -> u64 {
    time.as_secs().max(1)
}

async fn run_loop(jvm: &Peer, what: &str, time: Duration) -> Result<LoopResult> {
    let said = jvm.call("bench", &format!("bench {what}")).await?;
    let mut words = said.split(' ');
    let mut number = || words.next().unwrap_or_default().parse::<u64>();
    Ok(LoopResult {
        pairs: number()? as f64 / seconds(time) as f64,
        longest: Duration::from_micros(number()?),
        p50: Duration::from_micros(number()?),
    })
}
