//! Connections, topology, pub/sub and timeouts. Independent of locks.
//!
//! A call goes from `calls` to `discovery`, which names the node that serves its key, and to `connections`, which has the
//! calling runtime's own `connection` to that node; a lone call writes and reads it by itself. Subscriptions share one
//! `subscriber` connection per runtime and node.

mod advice;
mod attempts;
mod batch;
mod call;
mod calls;
mod cluster;
mod connect;
mod connection;
mod connections;
mod discovery;
mod driver;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod failure;
mod joined;
mod sentinel;
mod subscriber;
mod subscription;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod wire;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tenure_core::backend::{Backoff, Reason};
use tenure_core::{Background, Suspicion};

pub(crate) use batch::join_all;
pub(crate) use call::{Call, Order, Script, Word};
pub(crate) use calls::Answer;
pub(crate) use connect::Resolver;
pub use discovery::{Deployment, deployment};
pub(crate) use failure::{ErrorReply, Failure};
pub(crate) use subscription::{Event, Subscription};
pub(crate) use wire::Value;

use attempts::Attempts;
use connect::{Connector, ServerInfo};
use connection::Connection;
use connections::Runtimes;
use discovery::Discovery;
use failure::{Cause, ErrorClass, classify};

use crate::nat::Place;
use crate::{Address, Options, Siblings};

/// The backend name in errors.
pub(crate) const SCHEME: &str = "redis";

/// How many redirects a call follows.
const MAX_REDIRECTS: u32 = 5;

/// Why connections to a former master are closed.
const NOT_MASTER: &str = "the server is no longer the master";

/// Times that are not part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// A subscriber connection that is silent for this long is pinged, to detect half-open connections.
    pub(crate) ping_after: Duration,
    /// How long a channel stays subscribed after its last subscriber left: short contended locks would otherwise
    /// resubscribe all the time.
    pub(crate) unsubscribe_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { ping_after: Duration::from_secs(10), unsubscribe_after: Duration::from_secs(5) }
    }
}

/// The servers: which node serves a key, the last known identity of each node, and the connections of all calling
/// runtimes.
pub(crate) struct Transport {
    timeout: Duration,
    timing: Timing,
    connector: Connector,
    attempts: Arc<Attempts>,
    runtimes: Runtimes,
    background: Background,
    discovery: Discovery,
    /// The last known identity of each node; with sentinels only that of the master, under `None`.
    identities: Mutex<HashMap<Option<Address>, NodeIdentity>>,
    /// Raised when another server may have taken over, or a server may have lost what it held.
    pub(crate) suspicion: Suspicion,
    siblings: Option<Siblings>,
    restart_delay: Option<Duration>,
}

/// The identity of a node.
#[derive(Clone, Debug)]
struct NodeIdentity {
    run_id: String,
    /// When a connection to it was last opened or ended.
    seen: Instant,
    /// The earliest time at which it can have been started, if known.
    earliest_start: Option<Instant>,
}

/// The destination of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'a> {
    /// The node that serves this key.
    Key(&'a [u8]),
    Node(&'a Address),
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("discovery", &self.discovery).finish_non_exhaustive()
    }
}

impl Transport {
    pub(crate) fn new(options: &Options) -> tenure_core::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            timeout: bounded(options.timeout),
            timing: options.timing,
            connector: Connector::new(options)?,
            attempts: Arc::default(),
            runtimes: Runtimes::default(),
            background: Background::new("tenure-redis"),
            discovery: Discovery::new(options)?,
            identities: Mutex::default(),
            suspicion: Suspicion::new(),
            siblings: options.siblings.clone(),
            restart_delay: options.restart_delay,
        }))
    }

    #[cfg(test)]
    pub(crate) async fn open(options: Options) -> tenure_core::Result<Arc<Self>> {
        let transport = Self::new(&options)?;
        transport.reach().await?;
        Ok(transport)
    }

    /// Connects once, so that a wrong address or password is reported at once.
    pub(crate) async fn reach(self: &Arc<Self>) -> tenure_core::Result<()> {
        match self.command(To::Key(b""), &[b"PING"]).await {
            // `NOPERM` too proves that the server is reachable.
            Err(Failure::Refused(reply)) if reply.code != "NOPERM" => {
                Err(tenure_core::Error::Config(format!("{SCHEME}: cannot connect: {}", reply.message)))
            }
            Ok(_) | Err(Failure::Refused(_)) => self.probe_sharded_pubsub().await.map_err(unavailable),
            Err(failure) => Err(unavailable(failure)),
        }
    }

    /// Detects sharded pub/sub by trying it, not by the server's version. The result is kept for the lifetime of this
    /// transport, so a missing answer must not count as a no.
    async fn probe_sharded_pubsub(self: &Arc<Self>) -> Result<(), Failure> {
        let Discovery::Cluster(cluster) = &self.discovery else { return Ok(()) };
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

    /// The known masters.
    pub(crate) fn nodes(&self) -> Vec<Address> {
        self.discovery.masters()
    }

    /// This server as errors and findings show it.
    pub(crate) fn place(&self, node: &Address) -> Place {
        self.connector.place(node)
    }

    /// Tries to connect to each of the servers that may take over.
    pub(crate) async fn reach_replicas(self: &Arc<Self>) -> Result<Vec<Result<(), Failure>>, Failure> {
        let replicas = match &self.discovery {
            Discovery::Fixed(_) => Vec::new(),
            Discovery::Sentinel(sentinel) => sentinel.replicas().await?,
            Discovery::Cluster(cluster) => cluster.replicas(self).await,
        };
        let tries =
            replicas.iter().map(|at| async move { self.connector.connect(at, self.timeout).await.map(drop) });
        Ok(join_all(tries.collect()).await)
    }

    /// The command by which scripts must publish for our subscribers.
    pub(crate) fn publish_command(&self) -> &'static str {
        if self.discovery.sharded() { "SPUBLISH" } else { "PUBLISH" }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.discovery, Discovery::Cluster(_))
    }

    /// The slot of a key; 0 without a cluster.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster() { cluster::slot(key) } else { 0 }
    }

    /// An opaque number of the node that owns a key, as far as is known.
    pub(crate) fn shard(&self, key: &[u8]) -> usize {
        if !self.is_cluster() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.discovery.owner(key).hash(&mut hasher);
        hasher.finish() as usize
    }

    /// Sleeps without needing a time driver in the runtime that polls it.
    pub(crate) async fn sleep(&self, time: Duration) {
        self.background.sleep(time).await;
    }

    /// Records the server that a connection reached. If its run id has changed, it has lost what it held, or is another
    /// server.
    fn on_connect(&self, node: &Address, info: &mut ServerInfo) -> Result<(), Failure> {
        let by_sentinel = matches!(self.discovery, Discovery::Sentinel(_));
        if by_sentinel && info.role.as_deref() != Some("master") {
            return Err(Failure::not_executed(format!("{} is not a master", self.connector.place(node))));
        }
        let Some(run_id) = &info.run_id else { return Ok(()) };
        if let Some(other) = self.siblings.as_ref().and_then(|s| s.record_run_id(node, run_id)) {
            return Err(Failure::Refused(ErrorReply::new(&format!(
                "SAME {node} and {other} are the same server: each node must be a server of its own"
            ))));
        }
        let mut identities = self.identities.lock().unwrap_or_else(|e| e.into_inner());
        let key = (!by_sentinel).then(|| node.clone());
        let before = identities.get(&key).cloned();
        let earliest_start = match &before {
            Some(identity) if identity.run_id == *run_id => identity.earliest_start,
            // It was started after its predecessor was last seen. The uptime it reports may be longer, if its clock was
            // set.
            Some(identity) => Some(identity.seen),
            None => None,
        };
        let identity = NodeIdentity { run_id: run_id.clone(), seen: Instant::now(), earliest_start };
        identities.insert(key, identity);
        drop(identities);
        if let (Some(start), Some((uptime, asked))) = (earliest_start, &mut info.uptime) {
            *uptime = (*uptime).min(asked.saturating_duration_since(start));
        }
        if before.is_some_and(|identity| identity.run_id != *run_id) {
            self.suspicion.raise();
        }
        Ok(())
    }

    /// Records that a connection to this node ended, and that the node was up until then.
    fn on_disconnect(&self, node: &Address) {
        let by_sentinel = matches!(self.discovery, Discovery::Sentinel(_));
        let mut identities = self.identities.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(identity) = identities.get_mut(&(!by_sentinel).then(|| node.clone())) {
            identity.seen = Instant::now();
        }
    }

    /// Fails if the server behind this connection has not been up for long enough to grant and renew.
    fn past_restart_delay(&self, connection: &Connection) -> Result<(), Failure> {
        let Some(delay) = self.restart_delay else { return Ok(()) };
        let Some((uptime, asked)) = connection.uptime else {
            return Err(Failure::Refused(ErrorReply::new(
                "NOPERM the server's uptime must be known, and this user may not run INFO: allow it, or set \
                 restart_delay=off",
            )));
        };
        let age = uptime + asked.elapsed();
        let Some(left) = delay.checked_sub(age).filter(|left| !left.is_zero()) else { return Ok(()) };
        let why =
            format!("restarted {} s ago, votes in {} s", age.as_secs(), left.as_secs().saturating_add(1));
        Err(Failure::RecentlyRestarted(why, left))
    }

    /// Closes the subscriber connections to this node, in all runtimes; with `calls` also those for calls, which would
    /// be in vain.
    fn forget(&self, node: &Address, calls: bool, why: &str) {
        for connections in self.runtimes.all() {
            connections.subscribers.close(node, why);
            if calls {
                connections.forget(node, why);
            }
        }
    }

    /// Maps an error reply to the failure of a call on this connection, and acts on what it says about the server.
    fn call_failure(&self, reply: &ErrorReply, connection: &Connection) -> Failure {
        let stale = match classify(reply, &connection.to) {
            ErrorClass::NotExecuted(Cause::Replica) => true,
            // The connection was logged in when it was opened: it is replaced.
            ErrorClass::LoggedOut => {
                connection.retire(&reply.message);
                return Failure::not_executed(format!("{}: {}", connection.place, reply.message));
            }
            _ => false,
        };
        // Subscribers of that server receive only what is published there.
        if stale && connection.retire(NOT_MASTER) {
            self.forget(&connection.to, false, NOT_MASTER);
        }
        self.subscription_failure(reply, &connection.to)
    }

    /// Maps an error reply to the failure of a subscription, and acts on what it says about the node.
    fn subscription_failure(&self, reply: &ErrorReply, from: &Address) -> Failure {
        match classify(reply, from) {
            ErrorClass::NotExecuted(cause) => {
                if cause != Cause::Temporary {
                    self.discovery.invalidate(from);
                }
                Failure::not_executed(format!("{}: {}", self.connector.place(from), reply.message))
            }
            _ => Failure::Refused(reply.clone()),
        }
    }
}

/// The delays between tries to reach a server.
pub(crate) const fn reconnect_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(10), Duration::from_secs(1))
}

/// Clamps so that `Instant + d` cannot overflow: some callers use `Duration::MAX` for "forever".
fn bounded(d: Duration) -> Duration {
    d.min(Duration::from_secs(100 * 365 * 86_400))
}

fn unavailable(why: impl Into<Reason>) -> tenure_core::Error {
    tenure_core::Error::unavailable(SCHEME, "connect", why)
}

fn no_thread(e: io::Error) -> Failure {
    Failure::NotExecuted(Reason::from(e).at("cannot start the thread for connections"))
}
