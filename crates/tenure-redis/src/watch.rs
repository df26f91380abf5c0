//! Wake-ups through pub/sub, on the channels that Redisson uses.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tenure_core::backend::{Counter, Interest, Signal, Watch};
use tenure_core::{Fence, Kind, Name, Result};

use crate::options::Layout;
use crate::store::Redis;
use crate::transport::{Event, Failure, Subscription, Transport, reconnect_backoff};

/// The poll interval of users who may not subscribe.
const POLL: Duration = Duration::from_millis(250);

impl Redis {
    pub(crate) async fn watch_channel(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        let keys = self.keys(name)?;
        let mut latch = false;
        let channel = match interest {
            Interest::Claim(claim) => match claim.kind {
                _ if self.layout == Layout::Plain => keys.plain_channel(),
                Kind::Lock | Kind::Leader => keys.lock_channel(),
                Kind::FairLock => keys.fair_channel(&claim.id.to_string()),
                Kind::Read { .. } | Kind::Write => keys.rw_channel(),
                Kind::Permit { .. } => keys.permit_channel(),
                other => return Err(self.info.unknown(other)),
            },
            Interest::Count(_, Counter::Latch) => {
                latch = true;
                keys.latch_channel()
            }
            Interest::Count(..) => keys.permit_channel(),
            Interest::Holder(_) => keys.leader_channel(),
        };
        let (began, mut backoff) = (Instant::now(), reconnect_backoff());
        let subscribed = loop {
            match self.transport.subscribe(channel.as_bytes(), keys.name().as_bytes()).await {
                // The connection broke while the subscription was being confirmed. Retry, or the waiter would sleep
                // until its next poll.
                Err(Failure::NotExecuted(_) | Failure::Unknown(_)) if began.elapsed() < POLL => {}
                subscribed => break subscribed,
            }
            self.transport.sleep(backoff.failed()).await;
        };
        match subscribed {
            Ok(subscription) => Ok(Box::new(ChannelWatch { subscription, latch })),
            Err(Failure::Refused(reply)) if reply.code == "NOPERM" => {
                if !self.warned_polling.swap(true, Relaxed) {
                    tracing::warn!(%name, %channel, reply = %reply.message, "this user may not subscribe to channels: polling instead");
                }
                Ok(Box::new(PollingWatch(self.transport.clone())))
            }
            Err(failure) => Err(self.call_error("watch", name, &keys, failure)),
        }
    }
}

struct ChannelWatch {
    subscription: Subscription,
    latch: bool,
}

#[async_trait]
impl Watch for ChannelWatch {
    async fn signal(&mut self) -> Signal {
        match self.subscription.next().await {
            // The latch reached zero, even if it was set again since.
            Event::Message(text) if self.latch && text == b"0" => Signal::Open,
            Event::Message(text) => granted(&text).unwrap_or(Signal::Changed),
            Event::MaybeMissed => Signal::Changed,
        }
    }
}

/// Parses `granted <attempt> <fence> <ms>`, which a release publishes on the channel of the waiter that it grants to.
pub(crate) fn granted(text: &[u8]) -> Option<Signal> {
    let mut words = std::str::from_utf8(text).ok()?.strip_prefix("granted ")?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (attempt, fence, ms) = (number()?, number()?, number()?);
    Some(Signal::Granted { attempt, fence: Some(Fence(fence)), lease: Duration::from_millis(ms) })
}

struct PollingWatch(Arc<Transport>);

#[async_trait]
impl Watch for PollingWatch {
    async fn signal(&mut self) -> Signal {
        self.0.sleep(POLL).await;
        Signal::Changed
    }
}
