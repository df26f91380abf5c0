//! A subscription to a channel, which survives broken connections and slot migrations, and its mailbox: messages that were
//! received and not read yet. The connection never waits for a slow reader.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::cluster::slot;
use super::failure::{ErrorClass, Failure, classify};
use super::subscriber::Seat;
use super::{MAX_REDIRECTS, Transport, reconnect_backoff};

#[derive(Debug)]
pub(crate) struct Subscription {
    transport: Weak<Transport>,
    channel: Vec<u8>,
    seat: Seat,
}

impl Subscription {
    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Heard {
        if let Some(heard) = poll_fn(|cx| self.seat.mailbox.poll(cx)).await {
            return heard;
        }
        let mut backoff = reconnect_backoff();
        loop {
            let Some(transport) = self.transport.upgrade() else { return std::future::pending().await };
            if let Ok(seat) = transport.seat(&self.channel).await {
                self.seat = seat;
                return Heard::Again;
            }
            transport.sleep(backoff.failed()).await;
        }
    }
}

impl Transport {
    /// Subscribes to a channel; no message after the return is missed. With sharded pub/sub the channel's name decides
    /// its slot, which must be that of `route`, the key whose changes are published on it.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        channel: &[u8],
        route: &[u8],
    ) -> Result<Subscription, Failure> {
        debug_assert!(
            !self.map.sharded() || slot(channel) == slot(route),
            "the channel and its key must be in one slot"
        );
        let seat = self.seat(channel).await?;
        Ok(Subscription { transport: Arc::downgrade(self), channel: channel.to_vec(), seat })
    }

    /// Subscribes to a channel on the node that serves it.
    async fn seat(self: &Arc<Self>, channel: &[u8]) -> Result<Seat, Failure> {
        let deadline = Instant::now() + self.timeout;
        let connections = self.connections()?;
        self.map.watch(self);
        let mut hops = 0;
        loop {
            let node = self.map.node_of_channel(self, &connections, channel, deadline).await?;
            let sharded = self.map.sharded();
            let subscribed = connections
                .subscribers
                .subscribe(self, &connections, &node, channel, sharded, deadline)
                .await;
            let failure = match subscribed {
                Ok(seat) => return Ok(seat),
                Err(failure) => failure,
            };
            match &failure {
                Failure::Refused(reply) => match classify(reply, &node) {
                    ErrorClass::Moved(slot, to) if hops < MAX_REDIRECTS => self.map.moved(self, slot, &to),
                    _ => return Err(failure),
                },
                _ => {
                    self.map.doubt(&node);
                    return Err(failure);
                }
            }
            hops += 1;
        }
    }
}

/// The most messages kept. If there are more, the reader checks the state instead.
const MOST: usize = 64;

/// An event of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Message(Vec<u8>),
    /// Messages may have been missed: check the state again.
    Again,
}

#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    messages: VecDeque<Vec<u8>>,
    missed: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the waker, to be woken once no lock is held.
    #[must_use]
    pub(crate) fn put(&self, message: &[u8]) -> Option<Waker> {
        let mut inside = self.lock();
        if inside.messages.len() == MOST {
            inside.missed = true;
            inside.messages.clear();
        }
        if !inside.missed {
            inside.messages.push_back(message.to_vec());
        }
        inside.waker.take()
    }

    /// Closes the mailbox: no more messages will come.
    pub(crate) fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        let waker = inside.waker.take();
        drop(inside);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next event, or `None` once it is closed.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut inside = self.lock();
        if inside.closed {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut inside.missed) {
            return Poll::Ready(Some(Heard::Again));
        }
        if let Some(message) = inside.messages.pop_front() {
            return Poll::Ready(Some(Heard::Message(message)));
        }
        let mut old = None;
        if !inside.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            old = inside.waker.replace(cx.waker().clone());
        }
        drop(inside);
        drop(old);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_told_once_and_then_messages_come_again() {
        let (mailbox, mut cx) = (Mailbox::default(), Context::from_waker(Waker::noop()));
        for _ in 0..MOST + 10 {
            assert!(mailbox.put(b"old").is_none());
        }
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(Some(Heard::Again)));
        assert!(mailbox.poll(&mut cx).is_pending());
        assert!(mailbox.put(b"new").is_some());
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(Some(Heard::Message(b"new".to_vec()))));
        mailbox.close();
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(None));
    }
}
