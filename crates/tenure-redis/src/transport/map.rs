//! The topology: which node serves a key.

use std::sync::Arc;
use std::time::Instant;

use super::Transport;
use super::cluster::Cluster;
use super::connections::Connections;
use super::failure::Failure;
use super::sentinel::Sentinel;
use super::slots::slot;
use crate::{Address, Options, Topology};

#[derive(Debug)]
pub(crate) enum Map {
    One(Address),
    Sentinel(Box<Sentinel>),
    Cluster(Cluster),
}

impl Map {
    pub(crate) fn new(options: &Options) -> tenure_core::Result<Self> {
        Ok(match &options.topology {
            Topology::Standalone(address) => Self::One(address.clone()),
            Topology::Sentinel(sentinels) => Self::Sentinel(Box::new(Sentinel::new(sentinels, options)?)),
            Topology::Cluster(_) if options.db != 0 => {
                return Err(tenure_core::Error::Config("a cluster has only the database 0".to_owned()));
            }
            Topology::Cluster(seeds) => Self::Cluster(Cluster::new(seeds)?),
        })
    }

    /// The node that serves `key`.
    pub(crate) async fn node(
        &self,
        transport: &Arc<Transport>,
        connections: &Connections,
        key: &[u8],
        deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            Self::One(address) => Ok(address.clone()),
            Self::Sentinel(sentinel) => sentinel.find(transport, connections, deadline).await,
            Self::Cluster(cluster) => cluster.find(transport, connections, Some(slot(key)), deadline).await,
        }
    }

    /// The node on which to subscribe to `channel`.
    pub(crate) async fn node_of_channel(
        &self,
        transport: &Arc<Transport>,
        connections: &Connections,
        channel: &[u8],
        deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            // Without sharded pub/sub every node receives all messages: one node is enough for all channels.
            Self::Cluster(cluster) if !cluster.sharded() => {
                cluster.find(transport, connections, None, deadline).await
            }
            _ => self.node(transport, connections, channel, deadline).await,
        }
    }

    /// The known masters.
    pub(crate) fn masters(&self) -> Vec<Address> {
        match self {
            Self::One(address) => vec![address.clone()],
            Self::Sentinel(sentinel) => sentinel.master().into_iter().collect(),
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// False if another node is known to have replaced it.
    pub(crate) fn is_current(&self, node: &Address) -> bool {
        match self {
            Self::Sentinel(sentinel) => sentinel.is_current(node),
            _ => true,
        }
    }

    /// Marks a node as unreachable, or as no longer the right one: the topology is refreshed before the next call.
    pub(crate) fn doubt(&self, node: &Address) {
        match self {
            Self::One(_) => {}
            Self::Sentinel(sentinel) => sentinel.doubt(node),
            Self::Cluster(cluster) => cluster.doubt(),
        }
    }

    /// Whether another node may take over from one that does not answer.
    pub(crate) fn has_others(&self) -> bool {
        !matches!(self, Self::One(_))
    }

    pub(crate) fn moved(&self, transport: &Arc<Transport>, slot: u16, to: &Address) {
        if let Self::Cluster(cluster) = self {
            cluster.moved(transport, slot, to);
        }
    }

    /// Starts to watch for failovers, where they are announced. Called when something is held or waited for.
    pub(crate) fn watch(&self, transport: &Arc<Transport>) {
        if let Self::Sentinel(sentinel) = self {
            sentinel.watch(transport);
        }
    }

    /// Whether pub/sub is sharded.
    pub(crate) fn sharded(&self) -> bool {
        matches!(self, Self::Cluster(cluster) if cluster.sharded())
    }

    pub(crate) fn owner(&self, key: &[u8]) -> Option<Address> {
        match self {
            Self::Cluster(cluster) => cluster.owner(slot(key)),
            _ => self.masters().pop(),
        }
    }
}
