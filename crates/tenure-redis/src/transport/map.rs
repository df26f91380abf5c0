//! Which node a key belongs to.

use std::sync::Arc;
use std::time::Instant;

use super::cluster::Cluster;
use super::failure::Failure;
use super::home::Home;
use super::hub::Hub;
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

    /// The node to ask about `key`.
    pub(crate) async fn node(
        &self,
        hub: &Arc<Hub>,
        home: &Home,
        key: &[u8],
        deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            Self::One(address) => Ok(address.clone()),
            Self::Sentinel(sentinel) => sentinel.find(hub, home, deadline).await,
            Self::Cluster(cluster) => cluster.find(hub, home, Some(slot(key)), deadline).await,
        }
    }

    /// The node to hear `channel` on.
    pub(crate) async fn node_of_channel(
        &self,
        hub: &Arc<Hub>,
        home: &Home,
        channel: &[u8],
        deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            // Without slots of their own, channels are heard on every node: so on one for all of them.
            Self::Cluster(cluster) if !cluster.sharded() => cluster.find(hub, home, None, deadline).await,
            _ => self.node(hub, home, channel, deadline).await,
        }
    }

    /// The masters that are known.
    pub(crate) fn masters(&self) -> Vec<Address> {
        match self {
            Self::One(address) => vec![address.clone()],
            Self::Sentinel(sentinel) => sentinel.master().into_iter().collect(),
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// That node does not answer, or is not the right one any more: ask before the next call.
    pub(crate) fn doubt(&self, node: &Address) {
        match self {
            Self::One(_) => {}
            Self::Sentinel(sentinel) => sentinel.doubt(node),
            Self::Cluster(cluster) => cluster.doubt(),
        }
    }

    /// Whether another node may take the place of one that does not answer.
    pub(crate) fn has_others(&self) -> bool {
        !matches!(self, Self::One(_))
    }

    pub(crate) fn moved(&self, hub: &Arc<Hub>, home: &Home, slot: u16, to: &Address) {
        if let Self::Cluster(cluster) = self {
            cluster.moved(hub, home, slot, to);
        }
    }

    /// Something is held or waited for: hear of a change by itself, where that can be heard.
    pub(crate) fn watch(&self, hub: &Arc<Hub>) {
        if let Self::Sentinel(sentinel) = self {
            sentinel.watch(hub);
        }
    }

    /// Whether channels belong to slots.
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
