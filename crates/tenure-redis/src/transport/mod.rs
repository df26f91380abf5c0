//! Connections, topology, pub/sub and timeouts. Independent of locks.
//!
//! Each calling runtime has its own `connections`: per node one `lane` for calls and one `subscriber` for pub/sub. A
//! lane has a `connection`, reconnected when it ends, which a lone call reads and writes by itself.

mod asking;
mod attempts;
mod backoff;
mod batch;
mod calls;
mod cluster;
mod connect;
mod connection;
mod connections;
mod deployment;
mod driver;
mod failure;
mod input;
mod join;
mod lane;
mod listen;
mod mailbox;
mod map;
mod pool;
mod resolve;
mod resp;
mod script;
mod sentinel;
mod shared;
mod slots;
mod stream;
mod subscriber;
mod subscription;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
use tokio::sync::watch;

pub(crate) use backoff::Backoff;
pub(crate) use calls::Placed;
pub use deployment::{Deployment, deployment};
pub(crate) use failure::{Failure, Reply};
pub(crate) use join::join;
pub(crate) use mailbox::Heard;
pub(crate) use resolve::Resolver;
pub(crate) use resp::Value;
pub(crate) use script::{Call, Order, OwnedCall, Script};
pub(crate) use subscription::Subscription;

use map::Map;
use shared::Shared;

use crate::{Address, Options};

/// The backend name in errors.
pub(crate) const SCHEME: &str = "redis";

/// Times that are not part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// A subscriber connection that is silent for this long is pinged, to detect half-open connections.
    pub(crate) silence: Duration,
    /// How long a channel stays subscribed after its last subscriber left: short contended locks would otherwise
    /// resubscribe all the time.
    pub(crate) linger: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { silence: Duration::from_secs(10), linger: Duration::from_secs(5) }
    }
}

/// The servers, for the backend.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    shared: Arc<Shared>,
}

/// The destination of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'a> {
    /// The node that serves this key.
    Key(&'a [u8]),
    Node(&'a Address),
}

impl Transport {
    pub(crate) fn new(options: Options) -> tenure_core::Result<Self> {
        Ok(Self { shared: Shared::new(&options)? })
    }

    #[cfg(test)]
    pub(crate) async fn open(options: Options) -> tenure_core::Result<Self> {
        let transport = Self::new(options)?;
        transport.reach().await?;
        Ok(transport)
    }

    /// Connects once, so that a wrong address or password is reported at once.
    pub(crate) async fn reach(&self) -> tenure_core::Result<()> {
        match self.command(To::Key(b""), &[b"PING"]).await {
            // `NOPERM` too proves that the server is reachable.
            Err(Failure::Refused(reply)) if reply.code != "NOPERM" => {
                Err(tenure_core::Error::Config(reply.message))
            }
            Ok(_) | Err(Failure::Refused(_)) => self.probe().await.map_err(|failure| unavailable(&failure)),
            Err(failure) => Err(unavailable(&failure)),
        }
    }

    /// Detects sharded pub/sub by trying it, not by the server's version. The result is kept for the lifetime of this
    /// transport, so a missing answer must not count as a no.
    async fn probe(&self) -> Result<(), Failure> {
        let Map::Cluster(cluster) = &self.shared.map else { return Ok(()) };
        let sharded = match self.command(To::Key(b""), &[b"PUBSUB", b"SHARDNUMSUB"]).await {
            Ok(_) => true,
            Err(Failure::Refused(reply)) if reply.code == "ERR" => false,
            // This user may not run that. If `COMMAND` is forbidden too, a newer server is assumed.
            Err(Failure::Refused(_)) => {
                match self.command(To::Key(b""), &[b"COMMAND", b"INFO", b"SPUBLISH"]).await {
                    Ok(known) => known.array().and_then(<[_]>::first).is_some_and(|k| k.array().is_some()),
                    Err(Failure::Refused(_)) => true,
                    Err(failure) => return Err(failure),
                }
            }
            Err(failure) => return Err(failure),
        };
        cluster.set_sharded(sharded);
        Ok(())
    }

    /// Sends any command.
    pub(crate) async fn command(&self, to: To<'_>, words: &[&[u8]]) -> Result<Value, Failure> {
        self.shared.command(to, words, Instant::now() + self.shared.timeout).await
    }

    /// Sends a command in its order with others of the same hold.
    pub(crate) async fn ordered(&self, to: To<'_>, words: &[&[u8]], order: Order) -> Result<Placed, Failure> {
        self.shared.ordered(to, words, order, Instant::now() + self.shared.timeout).await
    }

    /// Runs a script.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Placed, Failure> {
        self.shared.call(call, Instant::now() + self.shared.timeout).await
    }

    /// Runs many scripts: one pipeline per node, and a failing node fails only its own. Returns the answers in order.
    pub(crate) async fn calls(&self, calls: Vec<OwnedCall>) -> Vec<Result<Placed, Failure>> {
        self.shared.calls(calls, Instant::now() + self.shared.timeout).await
    }

    /// Runs a script, then waits until this many replicas have it or `within` is over. Returns how many have it. The
    /// usual timeout comes on top of `within`.
    pub(crate) async fn durable(
        &self,
        call: Call<'_>,
        replicas: u32,
        within: Duration,
    ) -> Result<(Placed, u32), Failure> {
        self.shared.durable(call, replicas, within).await
    }

    /// The known masters.
    pub(crate) fn nodes(&self) -> Vec<Address> {
        self.shared.map.masters()
    }

    /// Subscribes to a channel; no message after the return is missed. With sharded pub/sub the channel's name decides
    /// its slot, which must be that of `route`, the key whose changes are published on it.
    pub(crate) async fn subscribe(&self, channel: &[u8], route: &[u8]) -> Result<Subscription, Failure> {
        debug_assert!(
            !self.shared.map.sharded() || slots::slot(channel) == slots::slot(route),
            "one slot for both"
        );
        let seat = self.shared.seat(channel).await?;
        Ok(Subscription::new(&self.shared, channel, seat))
    }

    /// The command by which scripts must publish for our subscribers.
    pub(crate) fn publish_command(&self) -> &'static str {
        if self.shared.map.sharded() { "SPUBLISH" } else { "PUBLISH" }
    }

    /// The slot of a key; 0 without a cluster.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster() { slots::slot(key) } else { 0 }
    }

    /// An opaque number of the node that owns a key, as far as is known.
    pub(crate) fn shard(&self, key: &[u8]) -> usize {
        if !self.is_cluster() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.shared.map.owner(key).hash(&mut hasher);
        hasher.finish() as usize
    }

    /// Sleeps without needing a time driver in the runtime that polls it.
    pub(crate) async fn sleep(&self, time: Duration) {
        self.shared.sleep(time).await;
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.shared.map, Map::Cluster(_))
    }

    /// The doubt signal for clients.
    pub(crate) fn told(&self) -> tenure_core::Doubt {
        self.shared.told.clone()
    }

    /// Changes when another server may have taken over, or a server may have lost what it held.
    #[cfg(test)]
    pub(crate) fn doubt(&self) -> watch::Receiver<u64> {
        self.shared.doubt.subscribe()
    }
}

fn unavailable(failure: &Failure) -> tenure_core::Error {
    tenure_core::Error::Unavailable {
        backend: SCHEME,
        what: "connect".to_owned(),
        reason: failure.to_string(),
        retry_after: None,
    }
}
