//! Requests to release: data written to the holder's node, as in Curator.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use tenure_core::backend::{Signal, Watch};
use tenure_core::{Claim, Error, Kind};
use tokio::sync::watch;

use crate::error::{RequestError, RequestResult, SCHEME};
use crate::recipe::Store;
use crate::recipe::queue::Queue;

/// The data that Curator's revoker writes, and its holders watch for.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

impl Store {
    /// Asks all holders that block this kind. Returns whether there were any.
    pub(crate) async fn revoke(&self, path: &str, kind: Kind) -> RequestResult<bool> {
        let why = match kind {
            // A waiting LeaderLatch of Curator loses its watch on such a change, and never leads.
            Kind::Leader => "a waiting LeaderLatch of Curator would never lead",
            Kind::Permit { .. } => "the permits have no single holder",
            _ => "",
        };
        if !why.is_empty() {
            return Err(RequestError::Config(Error::Unsupported {
                backend: SCHEME,
                what: format!("revoking a {}", kind.family()),
                reason: why.into(),
            }));
        }
        let session = self.sessions.get_or_connect().await?;
        session.client.sync().await?;
        let queue = match session.client.list(path).await {
            Err(error) if error.is_no_node() => return Ok(false),
            names => Queue::new(names?),
        };
        let inside = &queue.children[..queue.holder_count()];
        let in_the_way = inside.iter().filter(|child| !child.shares_with(&kind));
        let asked = join_all(in_the_way.map(async |child| {
            match session.client.write(&format!("{path}/{}", child.name), REVOKE, None).await {
                Ok(_) => Ok(true),
                Err(error) if error.is_no_node() => Ok(false),
                Err(error) => Err(error),
            }
        }))
        .await;
        asked.into_iter().try_fold(false, |any, one| Ok(any | one?))
    }

    /// Signals once the holder of this claim was asked.
    pub(crate) async fn revoked(self: &Arc<Self>, claim: &Claim) -> RequestResult<Box<dyn Watch>> {
        let nothing = || RequestError::not_sent("it is no longer held");
        let record = self.records.get(claim.id).ok_or_else(nothing)?;
        let asked = record.revocation().subscribe();
        let unwatched = record
            .status()
            .hold
            .as_ref()
            .is_some_and(|hold| hold.watched_connection != hold.session.connection_number());
        if unwatched && !self.watch_nodes(&record).await? {
            return Err(nothing());
        }
        Ok(Box::new(RevocationWatch(asked)))
    }
}

struct RevocationWatch(watch::Receiver<bool>);

#[async_trait]
impl Watch for RevocationWatch {
    async fn signal(&mut self) -> Signal {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // The hold is over, so it cannot be asked any more.
            std::future::pending::<()>().await;
        }
        Signal::Changed
    }
}
