//! Connections, nodes, channels and time limits. Knows nothing of locks.
//!
//! Each runtime that calls has connections of its own (`home`): one `lane` per node for calls and one `ear` per node
//! for channels. A lane has a `link`, which a lone call reads and writes by itself.

mod attempts;
mod background;
mod calls;
mod connect;
mod driver;
mod ear;
mod failure;
mod home;
mod hub;
mod join;
mod lane;
mod link;
mod listen;
mod mailbox;
mod map;
mod pause;
mod resp;
mod script;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

pub(crate) use calls::Placed;
pub(crate) use failure::{Failure, Reply};
pub(crate) use mailbox::Heard;
pub(crate) use resp::Value;
pub(crate) use script::{Call, Order, OwnedCall, Script};
pub(crate) use subscription::Subscription;

use hub::Hub;

use crate::{Address, Options};

/// The scheme in errors.
pub(crate) const SCHEME: &str = "redis";

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
    /// Connects once, so that a wrong address or password is told at once.
    pub(crate) async fn open(options: Options) -> tenure_core::Result<Self> {
        let transport = Self { hub: Hub::new(&options)? };
        match transport.command(To::Key(b""), &[b"PING"]).await {
            Ok(_) => Ok(transport),
            // Whoever answers is there, whatever this user may do.
            Err(Failure::Refused(reply)) if reply.code == "NOPERM" => Ok(transport),
            Err(Failure::Refused(reply)) => Err(tenure_core::Error::Config(reply.message)),
            Err(failure) => Err(tenure_core::Error::Unavailable {
                backend: SCHEME,
                what: "connect".to_owned(),
                reason: failure.to_string(),
            }),
        }
    }

    /// Sends any command.
    pub(crate) async fn command(&self, to: To<'_>, words: &[&[u8]]) -> Result<Value, Failure> {
        self.hub.command(to, words, Instant::now() + self.hub.timeout).await
    }

    /// Runs a script.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Placed, Failure> {
        self.hub.call(call, Instant::now() + self.hub.timeout).await
    }

    /// Runs many: each node gets its own in one go, and one that fails fails only its own. Answers in their order.
    pub(crate) async fn calls(&self, calls: Vec<OwnedCall>) -> Vec<Result<Placed, Failure>> {
        self.hub.calls(calls, Instant::now() + self.hub.timeout).await
    }

    /// The masters that are known.
    pub(crate) fn nodes(&self) -> Vec<Address> {
        self.hub.map.masters()
    }

    /// Listens to a channel from the moment this returns. `route` is a key of the node that it is published on.
    pub(crate) async fn subscribe(&self, channel: &[u8], route: &[u8]) -> Result<Subscription, Failure> {
        let seat = self.hub.seat(channel, route).await?;
        Ok(Subscription::new(&self.hub, channel, route, seat))
    }

    /// How scripts publish, so that it is heard here.
    pub(crate) fn publish_command(&self) -> &'static str {
        "PUBLISH"
    }

    /// The slot of a key; 0 where there are none.
    pub(crate) fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    pub(crate) fn is_cluster(&self) -> bool {
        false
    }

    /// Changes whenever another server may have taken over, or one may have lost what it held.
    pub(crate) fn doubt(&self) -> watch::Receiver<u64> {
        self.hub.doubt.subscribe()
    }
}
