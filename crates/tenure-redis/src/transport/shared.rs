//! State shared by all runtimes: the servers, their last known identity, and how to reach them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_core::{Background, Doubt};
use tokio::sync::watch;

use super::Timing;
use super::attempts::Attempts;
use super::backoff::bounded;
use super::connect::{Connector, Hello};
use super::connection::Connection;
use super::connections::{Connections, Runtimes};
use super::failure::{Cause, Failure, Reply, Verdict, judge};
use super::map::Map;
use super::subscriber::Seat;
use crate::{Address, Options, Siblings};

/// How many redirects a call follows.
pub(super) const HOPS: u32 = 5;

/// Why connections to a former master are closed.
pub(super) const GONE: &str = "it is not the master any more";

pub(crate) struct Shared {
    pub(crate) timeout: Duration,
    pub(crate) timing: Timing,
    pub(crate) connector: Connector,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) runtimes: Runtimes,
    pub(crate) background: Background,
    pub(crate) map: Map,
    /// The last known identity of each node; with sentinels only that of the master, under `None`.
    identities: Mutex<HashMap<Option<Address>, NodeIdentity>>,
    pub(crate) doubt: watch::Sender<u64>,
    pub(crate) told: Doubt,
    siblings: Option<Siblings>,
    restart_delay: Option<Duration>,
}

/// The identity of a node.
#[derive(Clone, Debug)]
struct NodeIdentity {
    run_id: String,
    /// When a connection to it was last opened or ended.
    heard: Instant,
    /// The earliest time at which it can have been started, if known.
    born: Option<Instant>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("map", &self.map).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(options: &Options) -> tenure_core::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            timeout: bounded(options.timeout),
            timing: options.timing,
            connector: Connector::new(options)?,
            attempts: Arc::default(),
            runtimes: Runtimes::default(),
            background: Background::new("tenure-redis"),
            map: Map::new(options)?,
            identities: Mutex::default(),
            doubt: watch::Sender::new(0),
            told: Doubt::new(),
            siblings: options.siblings.clone(),
            restart_delay: options.restart_delay,
        }))
    }

    pub(crate) fn connections(self: &Arc<Self>) -> Result<Arc<Connections>, Failure> {
        self.runtimes
            .current(self)
            .map_err(|e| Failure::NotExecuted(format!("no thread for connections: {e}")))
    }

    /// Sleeps without needing a time driver in the runtime that polls it.
    pub(crate) async fn sleep(self: &Arc<Self>, time: Duration) {
        match self.connections() {
            Ok(connections) => connections.sleep_until(Instant::now() + time).await,
            // Without a thread there is no timer: at least yield to other tasks.
            Err(_) => tokio::task::yield_now().await,
        }
    }

    /// Records the server that a connection reached. If its run id has changed, it has lost what it held, or is another
    /// server.
    pub(crate) fn on_connect(&self, node: &Address, hello: &mut Hello) -> Result<(), Failure> {
        let one = matches!(self.map, Map::Sentinel(_));
        if one && hello.role.as_deref() != Some("master") {
            return Err(Failure::NotExecuted(format!("{node} is not a master")));
        }
        let Some(run_id) = &hello.run_id else { return Ok(()) };
        if let Some(other) = self.siblings.as_ref().and_then(|s| s.meet(node, run_id)) {
            return Err(Failure::Refused(Reply::new(&format!(
                "SAME {node} and {other} are the same server: each node must be a server of its own"
            ))));
        }
        let mut identities = self.identities.lock().unwrap_or_else(|e| e.into_inner());
        let key = (!one).then(|| node.clone());
        let before = identities.get(&key).cloned();
        let born = match &before {
            Some(face) if face.run_id == *run_id => face.born,
            // It was started after its predecessor was last seen. The uptime it reports may be longer, if its clock was
            // set.
            Some(face) => Some(face.heard),
            None => None,
        };
        identities.insert(key, NodeIdentity { run_id: run_id.clone(), heard: Instant::now(), born });
        drop(identities);
        if let (Some(born), Some((up, asked))) = (born, &mut hello.up) {
            *up = (*up).min(asked.saturating_duration_since(born));
        }
        if before.is_some_and(|face| face.run_id != *run_id) {
            self.raise_doubt();
        }
        Ok(())
    }

    /// Records that a connection to this node ended, and that the node was up until then.
    pub(crate) fn on_disconnect(&self, node: &Address) {
        let one = matches!(self.map, Map::Sentinel(_));
        let mut identities = self.identities.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(face) = identities.get_mut(&(!one).then(|| node.clone())) {
            face.heard = Instant::now();
        }
    }

    /// Fails if the server behind this connection has not been up for long enough to grant and renew.
    pub(crate) fn past_restart_delay(&self, connection: &Connection) -> Result<(), Failure> {
        let Some(delay) = self.restart_delay else { return Ok(()) };
        let Some((up, asked)) = connection.up else {
            return Err(Failure::Refused(Reply::new(
                "NOPERM INFO tells when a server was started, and this user may not ask: allow it, or set \
                 restart_delay=off",
            )));
        };
        let age = up + asked.elapsed();
        let Some(left) = delay.checked_sub(age).filter(|left| !left.is_zero()) else { return Ok(()) };
        let why =
            format!("restarted {} s ago, votes in {} s", age.as_secs(), left.as_secs().saturating_add(1));
        Err(Failure::RecentlyRestarted(why, left))
    }

    /// Makes clients check everything they hold again.
    pub(crate) fn raise_doubt(&self) {
        self.doubt.send_modify(|n| *n += 1);
        self.told.raise();
    }

    /// Marks a node as unreachable, or as no longer the right one.
    pub(crate) fn doubt_node(&self, node: &Address) {
        self.map.doubt(node);
    }

    /// Closes the subscriber connections to this node, in all runtimes; with `calls` also those for calls, which would
    /// be in vain.
    pub(crate) fn forget(&self, node: &Address, calls: bool, why: &str) {
        for connections in self.runtimes.all() {
            connections.subscribers.close(node, why);
            if calls {
                connections.forget(node, why);
            }
        }
    }

    /// Maps an error reply to the failure of a call on this connection, and acts on what it says about the server.
    pub(crate) fn judge_for_call(&self, reply: &Reply, connection: &Connection) -> Failure {
        let stale = match judge(reply, &connection.to) {
            Verdict::NotExecuted(Cause::Replica) => true,
            // The connection was logged in when it was opened: it is replaced.
            Verdict::LoggedOut => {
                connection.retire(&reply.message);
                return Failure::NotExecuted(format!("{}: {}", connection.to, reply.message));
            }
            _ => false,
        };
        // Subscribers of that server receive only what is published there.
        if stale && connection.retire(GONE) {
            self.forget(&connection.to, false, GONE);
        }
        self.judge_for_channel(reply, &connection.to)
    }

    /// Maps an error reply to the failure of a subscription, and acts on what it says about the node.
    pub(crate) fn judge_for_channel(&self, reply: &Reply, from: &Address) -> Failure {
        match judge(reply, from) {
            Verdict::NotExecuted(cause) => {
                if cause != Cause::Passing {
                    self.doubt_node(from);
                }
                Failure::NotExecuted(format!("{from}: {}", reply.message))
            }
            _ => Failure::Refused(reply.clone()),
        }
    }

    /// Subscribes to a channel on the node that serves it.
    pub(crate) async fn seat(self: &Arc<Self>, channel: &[u8]) -> Result<Seat, Failure> {
        let deadline = Instant::now() + self.timeout;
        let connections = self.connections()?;
        self.map.watch(self);
        let mut hops = 0;
        loop {
            let node = self.map.node_of_channel(self, &connections, channel, deadline).await?;
            let sharded = self.map.sharded();
            let failure = match connections
                .subscribers
                .subscribe(self, &connections, &node, channel, sharded, deadline)
                .await
            {
                Ok(seat) => return Ok(seat),
                Err(failure) => failure,
            };
            match &failure {
                Failure::Refused(reply) => match judge(reply, &node) {
                    Verdict::Moved(slot, to) if hops < HOPS => self.map.moved(self, slot, &to),
                    _ => return Err(failure),
                },
                _ => {
                    self.doubt_node(&node);
                    return Err(failure);
                }
            }
            hops += 1;
        }
    }
}
