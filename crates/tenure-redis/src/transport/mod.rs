//! Connections, nodes, channels and time limits. Knows nothing of locks.
//!
//! Each runtime that calls has connections of its own (`home`): one `lane` per node for calls and one `ear` per node
//! for channels. A lane has a `link`, which a lone call reads and writes by itself.

mod asking;
mod attempts;
mod batch;
mod calls;
mod cluster;
mod connect;
mod deployment;
mod driver;
mod ear;
mod failure;
mod home;
mod hub;
mod input;
mod join;
mod lane;
mod link;
mod listen;
mod mailbox;
mod map;
mod pause;
mod pool;
mod resolve;
mod resp;
mod script;
mod sentinel;
mod slots;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
use tokio::sync::watch;

pub(crate) use calls::Placed;
pub use deployment::{Deployment, deployment};
pub(crate) use failure::{Failure, Reply};
pub(crate) use join::join;
pub(crate) use mailbox::Heard;
pub(crate) use pause::Pause;
pub(crate) use resolve::Resolver;
pub(crate) use resp::Value;
pub(crate) use script::{Call, Order, OwnedCall, Script};
pub(crate) use subscription::Subscription;

use hub::Hub;
use map::Map;

use crate::{Address, Options};

/// The scheme in errors.
pub(crate) const SCHEME: &str = "redis";

/// Times that are not part of any call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// After this long without a word the server of a subscriber is asked for one: half-open connections say nothing.
    pub(crate) silence: Duration,
    /// How long a channel stays after the last one left: short locks that are contended would churn.
    pub(crate) linger: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { silence: Duration::from_secs(10), linger: Duration::from_secs(5) }
    }
}

/// The servers, as the backend sees them.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    hub: Arc<Hub>,
}

/// Where a command goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'a> {
    /// To the node of this key.
    Key(&'a [u8]),
    Node(&'a Address),
}

impl Transport {
    pub(crate) fn new(options: Options) -> tenure_core::Result<Self> {
        Ok(Self { hub: Hub::new(&options)? })
    }

    #[cfg(test)]
    pub(crate) async fn open(options: Options) -> tenure_core::Result<Self> {
        let transport = Self::new(options)?;
        transport.reach().await?;
        Ok(transport)
    }

    /// Connects once, so that a wrong address or password is told at once.
    pub(crate) async fn reach(&self) -> tenure_core::Result<()> {
        match self.command(To::Key(b""), &[b"PING"]).await {
            // Whoever answers is there, whatever this user may do.
            Err(Failure::Refused(reply)) if reply.code != "NOPERM" => {
                Err(tenure_core::Error::Config(reply.message))
            }
            Ok(_) | Err(Failure::Refused(_)) => self.probe().await.map_err(|failure| unavailable(&failure)),
            Err(failure) => Err(unavailable(&failure)),
        }
    }

    /// Asks what the servers can do, rather than which version they are. For as long as this lives, so that no answer
    /// is not taken for a no.
    async fn probe(&self) -> Result<(), Failure> {
        let Map::Cluster(cluster) = &self.hub.map else { return Ok(()) };
        let sharded = match self.command(To::Key(b""), &[b"PUBSUB", b"SHARDNUMSUB"]).await {
            Ok(_) => true,
            Err(Failure::Refused(reply)) if reply.code == "ERR" => false,
            // This user may not ask that. Those who may not ask at all are with the newer servers.
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
        self.hub.command(to, words, Instant::now() + self.hub.timeout).await
    }

    /// The same in its order with others of the same hold.
    pub(crate) async fn ordered(&self, to: To<'_>, words: &[&[u8]], order: Order) -> Result<Placed, Failure> {
        self.hub.ordered(to, words, order, Instant::now() + self.hub.timeout).await
    }

    /// Runs a script.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Placed, Failure> {
        self.hub.call(call, Instant::now() + self.hub.timeout).await
    }

    /// Runs many: each node gets its own in one go, and one that fails fails only its own. Answers in their order.
    pub(crate) async fn calls(&self, calls: Vec<OwnedCall>) -> Vec<Result<Placed, Failure>> {
        self.hub.calls(calls, Instant::now() + self.hub.timeout).await
    }

    /// Runs a script, and waits until so many replicas have it or the time `within` is over. How many have it. The
    /// usual time limit counts from there.
    pub(crate) async fn durable(
        &self,
        call: Call<'_>,
        replicas: u32,
        within: Duration,
    ) -> Result<(Placed, u32), Failure> {
        self.hub.durable(call, replicas, within).await
    }

    /// The masters that are known.
    pub(crate) fn nodes(&self) -> Vec<Address> {
        self.hub.map.masters()
    }

    /// Listens to a channel from the moment this returns. Where channels belong to slots, its name says to which; it
    /// must be that of `route`, the key whose changes are published on it.
    pub(crate) async fn subscribe(&self, channel: &[u8], route: &[u8]) -> Result<Subscription, Failure> {
        debug_assert!(
            !self.hub.map.sharded() || slots::slot(channel) == slots::slot(route),
            "one slot for both"
        );
        let seat = self.hub.seat(channel).await?;
        Ok(Subscription::new(&self.hub, channel, seat))
    }

    /// How scripts publish, so that it is heard here.
    pub(crate) fn publish_command(&self) -> &'static str {
        if self.hub.map.sharded() { "SPUBLISH" } else { "PUBLISH" }
    }

    /// The slot of a key; 0 where there are none.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster() { slots::slot(key) } else { 0 }
    }

    /// A number of the node that has a key, as far as is known.
    pub(crate) fn shard(&self, key: &[u8]) -> usize {
        if !self.is_cluster() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.hub.map.owner(key).hash(&mut hasher);
        hasher.finish() as usize
    }

    /// Needs no timers in the runtime that polls it.
    pub(crate) async fn sleep(&self, time: Duration) {
        self.hub.sleep(time).await;
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.hub.map, Map::Cluster(_))
    }

    /// The same, as clients are told.
    pub(crate) fn told(&self) -> tenure_core::Doubt {
        self.hub.told.clone()
    }

    /// Changes whenever another server may have taken over, or one may have lost what it held.
    #[cfg(test)]
    pub(crate) fn doubt(&self) -> watch::Receiver<u64> {
        self.hub.doubt.subscribe()
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
