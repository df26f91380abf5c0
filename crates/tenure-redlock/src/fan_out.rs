//! Calls all nodes in parallel, in the caller's task, and collects their answers until they decide.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::Inner;
use tenure_core::{Backend, Time};

/// Calls in flight, each with the index of its node.
pub(super) type Calls<T> = FuturesUnordered<BoxFuture<'static, (usize, T)>>;

/// How often, after a decision, the remaining calls are polled once more. A node that answers now needs no retry.
const EXTRA_POLLS: usize = 3;

impl Inner {
    /// Starts a call to every node, with a clone of `argument`.
    pub(super) fn call_nodes<W, T, F>(
        &self,
        argument: &W,
        call: impl Fn(Arc<dyn Backend>, W) -> F,
    ) -> Calls<T>
    where
        W: Clone,
        F: Future<Output = T> + Send + 'static,
    {
        let started = |(at, node): (usize, &super::Node)| -> BoxFuture<'static, (usize, T)> {
            let answer = call(node.backend.clone(), argument.clone());
            Box::pin(answer.map(move |answer| (at, answer)))
        };
        self.nodes.iter().enumerate().map(started).collect()
    }

    /// Collects answers until `done` returns true or the deadline passes. Calls still in flight stay in `calls`.
    pub(super) async fn collect<T>(
        &self,
        calls: &mut Calls<T>,
        until: Time,
        mut done: impl FnMut(usize, T) -> bool,
    ) {
        let mut timer = pin!(self.timer(until));
        loop {
            let next = poll_fn(|cx| match calls.poll_next_unpin(cx) {
                Poll::Ready(next) => Poll::Ready(next),
                Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
            });
            match next.await {
                Some((node, answer)) => {
                    if done(node, answer) {
                        break;
                    }
                }
                None => return,
            }
        }
        for _ in 0..EXTRA_POLLS {
            while let Some(Some((node, answer))) = calls.next().now_or_never() {
                done(node, answer);
            }
            if calls.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    /// A timer that does not need a time driver in the runtime that polls it.
    pub(super) fn timer(&self, at: Time) -> BoxFuture<'static, ()> {
        let clock = self.clock().clone();
        match self.background.handle() {
            Ok(handle) if clock.is_boot() => {
                let _entered = handle.enter();
                Box::pin(tokio::time::sleep(at.since(clock.now())))
            }
            // If the background thread cannot be started, each node's own timeout still applies.
            Err(_) if clock.is_boot() => Box::pin(std::future::pending()),
            _ => Box::pin(async move { clock.sleep_until(at).await }),
        }
    }

    /// Spawns on the background thread, independent of the caller's polls. Returns false if that thread cannot be
    /// started: what the work would release then ends with its lease.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> bool {
        if !self.clock().is_boot() {
            tokio::spawn(work);
            return true;
        }
        match self.background.handle() {
            Ok(handle) => drop(handle.spawn(work)),
            Err(_) => return false,
        }
        true
    }
}
