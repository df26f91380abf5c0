//! Which node a key belongs to.

use std::sync::Arc;
use std::time::Instant;

use super::failure::Failure;
use super::home::Home;
use super::hub::Hub;
use crate::{Address, Topology};

#[derive(Debug)]
pub(crate) enum Map {
    One(Address),
}

impl Map {
    pub(crate) fn new(topology: &Topology) -> tenure_core::Result<Self> {
        match topology {
            Topology::Standalone(address) => Ok(Self::One(address.clone())),
            Topology::Sentinel(_) => Err(tenure_core::Error::Config("sentinels are not served yet".into())),
            Topology::Cluster(_) => Err(tenure_core::Error::Config("clusters are not served yet".into())),
        }
    }

    /// The node to ask about `key`.
    pub(crate) async fn node(
        &self,
        _hub: &Arc<Hub>,
        _home: &Arc<Home>,
        _key: &[u8],
        _deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            Self::One(address) => Ok(address.clone()),
        }
    }

    /// The masters that are known.
    pub(crate) fn masters(&self) -> Vec<Address> {
        match self {
            Self::One(address) => vec![address.clone()],
        }
    }

    /// That node does not answer, or is not the right one any more.
    pub(crate) fn doubt(&self, _node: &Address) {}
}
