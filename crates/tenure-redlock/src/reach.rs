//! Opens a quorum as soon as a majority of nodes answers. A node that hangs would otherwise delay every open by its
//! full timeout.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt;

use super::fan_out::Calls;
use super::{Inner, Quorum, SCHEME};
use tenure_core::{Error, Result};

/// The least time that nodes slower than the majority have to answer: their errors are best reported at once.
const GRACE: Duration = Duration::from_millis(50);
/// No limit here: nodes have their own timeouts.
const LONGEST: Duration = Duration::from_secs(86_400);

impl Quorum {
    /// Calls `reach` for each node until a majority has answered and the others have had as much time again. The
    /// remaining calls continue in the background.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answer; `Config` if a node reports a permanent error.
    pub async fn reach<F>(&self, reach: impl Fn(usize) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let inner = &self.0;
        let (n, needed, begun) = (inner.nodes.len(), inner.needed(), inner.clock().now());
        let mut calls: Calls<Result<()>> = Calls::new();
        for node in 0..n {
            let answer = reach(node);
            calls.push(Box::pin(async move { (node, answer.await) }));
        }
        let (mut there, mut away, mut refused) = (0, Vec::new(), None);
        let mut done = |node: usize, answer: Result<()>| {
            match answer {
                Ok(()) => there += 1,
                Err(Error::Unavailable { reason, .. } | Error::Unknown { reason, .. }) => {
                    away.push(format!("node {}: {reason}", inner.nodes[node].name));
                }
                Err(error) => refused = Some(inner.refused(node, &error)),
            }
            there >= needed || refused.is_some()
        };
        inner.collect(&mut calls, begun.after(LONGEST), &mut done).await;
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
        if there < needed {
            let reason = format!("{there} of {n} nodes answer, {needed} needed; {}", away.join("; "));
            return Err(inner.info.unavailable("connect", reason));
        }
        if !calls.is_empty() {
            away.push(format!("{} have not answered yet", calls.len()));
        }
        if !away.is_empty() {
            let away = away.join("; ");
            tracing::warn!(away, "some nodes do not answer; the others decide without them");
        }
        inner.reach_later(calls);
        Ok(())
    }
}

impl Inner {
    fn refused(&self, node: usize, error: &Error) -> Error {
        Error::Config(format!("{SCHEME}: node {}: {error}", self.nodes[node].name))
    }

    fn reach_later(self: &Arc<Self>, mut calls: Calls<Result<()>>) {
        if calls.is_empty() {
            return;
        }
        let inner = self.clone();
        self.spawn_on_caller(async move {
            while let Some((node, answer)) = calls.next().await {
                let name = &inner.nodes[node].name;
                match answer {
                    Ok(()) => tracing::info!(node = name, "it answers now"),
                    Err(error) if error.is_transient() => {
                        tracing::warn!(node = name, %error, "it does not answer");
                    }
                    Err(error) => tracing::error!(error = %inner.refused(node, &error), "it has no vote"),
                }
            }
        });
    }
}
