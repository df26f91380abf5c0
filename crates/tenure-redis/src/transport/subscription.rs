//! A subscription to a channel that survives broken connections and slot migrations.

use std::future::poll_fn;
use std::sync::{Arc, Weak};

use super::backoff::Backoff;
use super::mailbox::Heard;
use super::shared::Shared;
use super::subscriber::Seat;

#[derive(Debug)]
pub(crate) struct Subscription {
    shared: Weak<Shared>,
    channel: Vec<u8>,
    seat: Seat,
}

impl Subscription {
    pub(crate) fn new(shared: &Arc<Shared>, channel: &[u8], seat: Seat) -> Self {
        Self { shared: Arc::downgrade(shared), channel: channel.to_vec(), seat }
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Heard {
        if let Some(heard) = poll_fn(|cx| self.seat.mailbox.poll(cx)).await {
            return heard;
        }
        let mut backoff = Backoff::default();
        loop {
            let Some(shared) = self.shared.upgrade() else { return std::future::pending().await };
            if let Ok(seat) = shared.seat(&self.channel).await {
                self.seat = seat;
                return Heard::Again;
            }
            backoff.failed();
            shared.sleep(backoff.delay()).await;
        }
    }
}
