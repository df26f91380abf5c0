//! Watches of a quorum: one on each node. A name that a majority of nodes has signalled may be free.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::Inner;
use super::fan_out::Calls;
use tenure_core::backend::{Interest, Signal, Watch};
use tenure_core::{Name, Result};

type Opened = Result<Box<dyn Watch>>;

pub(super) async fn open(inner: &Arc<Inner>, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
    let Interest::Claim(claim) = interest else {
        return Err(inner.info.unavailable(format!("watch {name}"), "a quorum supports locks only"));
    };
    let limit = inner.clock().now().after(inner.options.node_timeout(claim.lease));
    let arguments = (name.clone(), Arc::new(claim.clone()));
    let mut opening = inner.call_nodes(&arguments, |backend, (name, claim)| -> BoxFuture<'static, Opened> {
        Box::pin(async move { backend.watch(&name, Interest::Claim(&claim)).await })
    });
    let (mut watches, mut failed) = (Vec::new(), None);
    inner
        .collect(&mut opening, limit, |node, opened| {
            match opened {
                Ok(watch) => watches.push((node, watch)),
                Err(error) => failed = Some(error),
            }
            watches.len() >= inner.needed()
        })
        .await;
    match failed {
        Some(error) if watches.is_empty() && opening.is_empty() => Err(error),
        _ => Ok(Box::new(QuorumWatch {
            inner: inner.clone(),
            name: name.clone(),
            watches,
            opening: Mutex::new(opening),
            signalled: BTreeSet::new(),
        })),
    }
}

struct QuorumWatch {
    inner: Arc<Inner>,
    name: Name,
    watches: Vec<(usize, Box<dyn Watch>)>,
    /// Watches that are still being opened.
    opening: Mutex<Calls<Opened>>,
    /// The nodes that have signalled since the last signal of this watch.
    signalled: BTreeSet<usize>,
}

#[async_trait]
impl Watch for QuorumWatch {
    async fn signal(&mut self) -> Signal {
        loop {
            let Self { watches, opening, .. } = self;
            let opening = opening.get_mut().unwrap_or_else(|e| e.into_inner());
            let mut signals: FuturesUnordered<_> = watches
                .iter_mut()
                .map(|(node, watch)| async move {
                    watch.signal().await;
                    *node
                })
                .collect();
            let signalled = async {
                match signals.next().await {
                    Some(node) => node,
                    None => std::future::pending().await,
                }
            };
            let opened = async {
                match opening.next().await {
                    Some(opened) => opened,
                    None => std::future::pending().await,
                }
            };
            match select(Box::pin(signalled), Box::pin(opened)).await {
                Either::Left((node, _)) => {
                    self.signalled.insert(node);
                }
                Either::Right(((node, opened), _)) => {
                    drop(signals);
                    self.watches.extend(opened.ok().map(|watch| (node, watch)));
                    // Releases before the watch was opened are not signalled.
                    self.signalled.insert(node);
                }
            }
            if self.signalled.len() >= self.inner.needed() {
                self.signalled.clear();
                if self.inner.backoffs.end_on_change(&self.name, self.inner.clock().now()) {
                    return Signal::Changed;
                }
            }
        }
    }
}
