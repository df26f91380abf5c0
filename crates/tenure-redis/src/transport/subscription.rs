//! A subscription to a channel, which survives broken connections and slot migrations, and its mailbox: messages that were
//! received and not read yet. The connection never waits for a slow reader.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::cluster::slot;
use super::failure::{ErrorClass, Failure, classify};
use super::subscriber::Registration;
use super::{MAX_REDIRECTS, Transport, reconnect_backoff};

#[derive(Debug)]
pub(crate) struct Subscription {
    transport: Weak<Transport>,
    channel: Vec<u8>,
    registration: Registration,
}

impl Subscription {
    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Event {
        if let Some(event) = poll_fn(|cx| self.registration.mailbox.poll(cx)).await {
            return event;
        }
        let mut backoff = reconnect_backoff();
        loop {
            let Some(transport) = self.transport.upgrade() else { return std::future::pending().await };
            if let Ok(registration) = transport.register(&self.channel).await {
                self.registration = registration;
                return Event::MaybeMissed;
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
            !self.discovery.sharded() || slot(channel) == slot(route),
            "the channel and its key must be in one slot"
        );
        let registration = self.register(channel).await?;
        Ok(Subscription { transport: Arc::downgrade(self), channel: channel.to_vec(), registration })
    }

    /// Subscribes to a channel on the node that serves it.
    async fn register(self: &Arc<Self>, channel: &[u8]) -> Result<Registration, Failure> {
        let deadline = Instant::now() + self.timeout;
        let connections = self.connections()?;
        self.discovery.watch(self);
        let mut redirects = 0;
        loop {
            let node = self.discovery.node_of_channel(self, &connections, channel, deadline).await?;
            let sharded = self.discovery.sharded();
            let subscribed = connections
                .subscribers
                .subscribe(self, &connections, &node, channel, sharded, deadline)
                .await;
            let failure = match subscribed {
                Ok(registration) => return Ok(registration),
                Err(failure) => failure,
            };
            match &failure {
                Failure::Refused(reply) => match classify(reply, &node) {
                    ErrorClass::Moved(slot, to) if redirects < MAX_REDIRECTS => {
                        self.discovery.moved(self, slot, &to)
                    }
                    _ => return Err(failure),
                },
                _ => {
                    self.discovery.invalidate(&node);
                    return Err(failure);
                }
            }
            redirects += 1;
        }
    }
}

/// The most messages kept. If there are more, the reader checks the state instead.
const CAPACITY: usize = 64;

/// An event of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Message(Vec<u8>),
    /// Messages may have been missed: check the state again.
    MaybeMissed,
}

#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<MailboxState>);

#[derive(Debug, Default)]
struct MailboxState {
    messages: VecDeque<Vec<u8>>,
    missed: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the waker, to be woken once no lock is held.
    #[must_use]
    pub(crate) fn push(&self, message: &[u8]) -> Option<Waker> {
        let mut state = self.lock();
        if state.messages.len() == CAPACITY {
            state.missed = true;
            state.messages.clear();
        }
        if !state.missed {
            state.messages.push_back(message.to_vec());
        }
        state.waker.take()
    }

    /// Closes the mailbox: no more messages will come.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next event, or `None` once it is closed.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut state.missed) {
            return Poll::Ready(Some(Event::MaybeMissed));
        }
        if let Some(message) = state.messages.pop_front() {
            return Poll::Ready(Some(Event::Message(message)));
        }
        let mut old = None;
        if !state.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            old = state.waker.replace(cx.waker().clone());
        }
        drop(state);
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
        for _ in 0..CAPACITY + 10 {
            assert!(mailbox.push(b"old").is_none());
        }
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(Some(Event::MaybeMissed)));
        assert!(mailbox.poll(&mut cx).is_pending());
        assert!(mailbox.push(b"new").is_some());
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(Some(Event::Message(b"new".to_vec()))));
        mailbox.close();
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(None));
    }
}
