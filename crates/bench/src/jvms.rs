//! Two JVMs with a peer's client in each, steered through its driver.

use std::ops::Deref;
use std::time::Duration;

use interop::Peer;

use crate::Result;

pub(crate) struct Jvms<J>(pub(crate) [J; 2]);

/// What was done, and how long one who wanted it waited: half of them no longer than `p50`.
pub(crate) struct Done {
    pub(crate) pairs: f64,
    pub(crate) longest: Duration,
    pub(crate) p50: Duration,
}

impl<J: Deref<Target = Peer>> Jvms<J> {
    /// Pairs per second of one JVM with `threads` threads, each on its own name.
    pub(crate) async fn own_names(&self, name: &str, threads: usize, time: Duration) -> Result<f64> {
        Ok(done(&self.0[0], name, threads, time, "own").await?.pairs)
    }

    /// Both JVMs on one name, half of the threads each.
    pub(crate) async fn one_name(&self, name: &str, threads: usize, time: Duration) -> Result<Done> {
        let one = |jvm| done(jvm, name, threads / 2, time, "shared");
        let (a, b) = tokio::try_join!(one(&self.0[0]), one(&self.0[1]))?;
        Ok(a.and(&b))
    }
}

impl Done {
    /// Of two halves that did the same.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            pairs: self.pairs + other.pairs,
            longest: self.longest.max(other.longest),
            p50: (self.p50 + other.p50) / 2,
        }
    }
}

async fn done(jvm: &Peer, name: &str, threads: usize, time: Duration, names: &str) -> Result<Done> {
    let seconds = time.as_secs().max(1);
    let said = jvm.call("bench", &format!("bench plain {name} {seconds} {threads} {names}")).await?;
    let mut words = said.split(' ');
    let mut number = || words.next().unwrap_or_default().parse::<u64>();
    Ok(Done {
        pairs: number()? as f64 / seconds as f64,
        longest: Duration::from_micros(number()?),
        p50: Duration::from_micros(number()?),
    })
}
