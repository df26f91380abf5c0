//! A subscription to a channel that survives broken connections and slot migrations.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::failure::{Failure, Verdict, judge};
use super::mailbox::Heard;
use super::subscriber::Seat;
use super::{HOPS, Transport, reconnect_backoff, slots};

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
            !self.map.sharded() || slots::slot(channel) == slots::slot(route),
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
                Failure::Refused(reply) => match judge(reply, &node) {
                    Verdict::Moved(slot, to) if hops < HOPS => self.map.moved(self, slot, &to),
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
