//! A subscription to a channel that survives broken connections and slot migrations.

use std::future::poll_fn;
use std::sync::{Arc, Weak};

use super::ear::Seat;
use super::hub::Hub;
use super::mailbox::Heard;
use super::pause::Pause;

#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Weak<Hub>,
    channel: Vec<u8>,
    seat: Seat,
}

impl Subscription {
    pub(crate) fn new(hub: &Arc<Hub>, channel: &[u8], seat: Seat) -> Self {
        Self { hub: Arc::downgrade(hub), channel: channel.to_vec(), seat }
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Heard {
        if let Some(heard) = poll_fn(|cx| self.seat.mailbox.poll(cx)).await {
            return heard;
        }
        let mut pause = Pause::default();
        loop {
            let Some(hub) = self.hub.upgrade() else { return std::future::pending().await };
            if let Ok(seat) = hub.seat(&self.channel).await {
                self.seat = seat;
                return Heard::Again;
            }
            pause.failed();
            hub.sleep(pause.delay()).await;
        }
    }
}
