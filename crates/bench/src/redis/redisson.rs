//! Redisson, steered through its driver.

use std::time::Duration;

use interop::{Address, Jvm, Options};
use testbed::Redis;

use crate::Result;

/// Two JVMs on the server.
pub(crate) struct Peers([Jvm; 2]);

/// What a JVM did, and the longest that one of its threads waited.
pub(crate) struct Done {
    pub(crate) pairs: f64,
    pub(crate) longest: Duration,
}

impl Peers {
    pub(crate) async fn start(server: &Redis) -> Result<Self> {
        let address = Address::Single(format!("127.0.0.1:{}", server.port()));
        let options = Options { optimised: true, ..Options::default() };
        Ok(Self([Jvm::start(&address, &options).await?, Jvm::start(&address, &options).await?]))
    }

    /// Pairs per second of one JVM with `threads` threads, each on its own name.
    pub(crate) async fn own_names(&self, name: &str, threads: usize, time: Duration) -> Result<f64> {
        Ok(done(&self.0[0], &format!("bench plain {name} {} {threads} own", time.as_secs().max(1)))
            .await?
            .pairs)
    }

    /// Both JVMs on one name, half of the threads each.
    pub(crate) async fn one_name(&self, name: &str, threads: usize, time: Duration) -> Result<Done> {
        let request = format!("bench plain {name} {} {} shared", time.as_secs().max(1), threads / 2);
        let (a, b) = tokio::join!(done(&self.0[0], &request), done(&self.0[1], &request));
        let (a, b) = (a?, b?);
        Ok(Done { pairs: a.pairs + b.pairs, longest: a.longest.max(b.longest) })
    }
}

async fn done(jvm: &Jvm, request: &str) -> Result<Done> {
    let seconds: f64 = request.split(' ').nth(3).unwrap_or_default().parse()?;
    let said = jvm.call("bench", request).await?;
    let mut words = said.split(' ');
    let mut number = || words.next().unwrap_or_default().parse::<f64>();
    Ok(Done { pairs: number()? / seconds, longest: Duration::from_micros(number()? as u64) })
}
