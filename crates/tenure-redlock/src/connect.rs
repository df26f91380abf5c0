//! Connects to the nodes, and returns as soon as a majority answers. A node that hangs would otherwise delay every
//! connect by its full timeout.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt;

use super::fan_out::Calls;
use super::votes::reason;
use super::{Inner, Quorum, SCHEME};
use tenure_core::backend::Reason;
use tenure_core::{Error, Result};

/// The least time that nodes slower than the majority have to answer: their errors are best reported at once.
const GRACE: Duration = Duration::from_millis(50);
/// No limit here: nodes have their own timeouts.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

impl Quorum {
    /// Calls `connect` for each node, until a majority has answered and the others have had as much time again. The
    /// remaining calls continue in the background.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answer; `Config` if a node reports a permanent error.
    pub async fn connect<F>(&self, connect: impl Fn(usize) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let inner = &self.0;
        let (n, needed, begun) = (inner.nodes.len(), inner.needed(), inner.clock().now());
        let mut calls: Calls<Result<()>> = Calls::new();
        for node in 0..n {
            let answer = connect(node);
            calls.push(Box::pin(async move { (node, answer.await) }));
        }
        let (mut connected, mut failed, mut refused) = (0, Vec::new(), None);
        let mut done = |node: usize, answer: Result<()>| {
            match answer {
                Ok(()) => connected += 1,
                Err(error) if error.is_transient() => {
                    failed.push(reason(&error).at(format_args!("node {}", inner.nodes[node].name)));
                }
                Err(error) => refused = Some(inner.node_error(node, &error)),
            }
            connected >= needed || refused.is_some()
        };
        inner.collect(&mut calls, begun.after(NO_LIMIT), &mut done).await;
        if !calls.is_empty() {
            let now = inner.clock().now();
            let grace = now.after(now.since(begun).max(GRACE));
            let mut rest = |node: usize, answer: Result<()>| {
                done(node, answer);
                false
            };
            inner.collect(&mut calls, grace, &mut rest).await;
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        if connected < needed {
            let answer = format!("{connected} of {n} nodes answer, {needed} needed");
            let why = Reason::all(std::iter::once(answer.into()).chain(failed));
            return Err(inner.info.unavailable("connect", why));
        }
        if !calls.is_empty() {
            failed.push(format!("{} have not answered yet", calls.len()).into());
        }
        if !failed.is_empty() {
            let failed = Reason::all(failed);
            tracing::warn!(%failed, "some nodes do not answer; the others decide without them");
        }
        inner.finish_connecting(calls);
        Ok(())
    }
}

impl Inner {
    fn node_error(&self, node: usize, error: &Error) -> Error {
        Error::Config(format!("{SCHEME}: node {}: {error}", self.nodes[node].name))
    }

    fn finish_connecting(self: &Arc<Self>, mut calls: Calls<Result<()>>) {
        if calls.is_empty() {
            return;
        }
        let inner = self.clone();
        self.spawn_on_caller(async move {
            while let Some((node, answer)) = calls.next().await {
                let name = &inner.nodes[node].name;
                match answer {
                    Ok(()) => tracing::info!(node = name, "the node answers now"),
                    Err(error) if error.is_transient() => {
                        tracing::warn!(node = name, %error, "the node does not answer");
                    }
                    Err(error) => tracing::error!(node = name, %error, "the node cannot be used"),
                }
            }
        });
    }
}
