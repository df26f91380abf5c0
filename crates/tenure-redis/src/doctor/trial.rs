//! Acquires and releases a real lock, and checks that a subscriber receives the release.

use std::time::{Duration, Instant};

use tenure_core::backend::{Attempt, Backend};
use tenure_core::{Claim, ClientId, Error, Finding, HoldId, Kind, Name};

use crate::keys::Keys;
use crate::options::Layout;
use crate::store::Redis;
use crate::transport::{Failure, To};

/// The prefix of trial names: each trial has a unique name, so that it is not contended.
pub(super) const NAME: &str = "tenure-doctor";
const CHECK: &str = "trial";
/// Short, because the release may not be possible.
const LEASE: Duration = Duration::from_secs(5);
/// A notification that takes longer is of no use to waiters.
const HEAR: Duration = Duration::from_secs(2);

impl Redis {
    pub(super) async fn trial(&self) -> Finding {
        let (took, heard) = match self.take_and_release().await {
            Ok(Some(done)) => done,
            Ok(None) => {
                let what = "a lock that nobody holds was not granted";
                return Finding::error(CHECK, what, "check that this is a Redis server");
            }
            Err(error) => return failed(&error),
        };
        let ms = took.as_secs_f64() * 1000.0;
        let what = format!("a lock was acquired and released in {ms:.1} ms");
        match heard {
            Some(true) => Finding::ok(CHECK, format!("{what}, and a subscriber was notified")),
            // The missing permission is reported by another check.
            None => Finding::ok(CHECK, what),
            Some(false) => Finding::warning(
                CHECK,
                format!("{what}, but a subscriber was not notified: waiters have to poll"),
                "check whether a proxy in between does not forward pub/sub messages",
            ),
        }
    }

    /// Returns how long it took, and whether the release was received, if this user may subscribe. `None` if the lock
    /// was not granted.
    async fn take_and_release(&self) -> tenure_core::Result<Option<(Duration, Option<bool>)>> {
        let id = HoldId { client: ClientId::new(), n: 1 };
        let name = Name::new(format!("{NAME}-{}", id.client))?;
        let keys = self.keys(&name)?;
        let claim = Claim { lease: LEASE, ..Claim::of(id, name.clone(), Kind::Lock) };
        let plain = self.layout == Layout::Plain;
        let channel = if plain { keys.plain_channel() } else { keys.lock_channel() };
        let mut subscriber = match self.transport.subscribe(channel.as_bytes(), keys.name().as_bytes()).await
        {
            Ok(subscriber) => Some(subscriber),
            Err(Failure::Refused(_)) => None,
            Err(failure) => return Err(self.call_error("listen to", &name, &keys, failure)),
        };
        let begun = Instant::now();
        let attempt = self.try_acquire(&claim).await?;
        if !matches!(attempt, Attempt::Granted { .. }) {
            return Ok(None);
        }
        self.release(&claim, 0).await?;
        let took = begun.elapsed();
        let heard = match &mut subscriber {
            Some(subscriber) => Some(tokio::time::timeout(HEAR, subscriber.next()).await.is_ok()),
            None => None,
        };
        self.sweep(&keys).await;
        Ok(Some((took, heard)))
    }

    /// Deletes the fence: nobody needs the fences of this name to grow.
    async fn sweep(&self, keys: &Keys) {
        let (fence, _) = self.fence(keys);
        let words: [&[u8]; 2] = [b"DEL", fence.as_bytes()];
        if let Err(failure) = self.transport.command(To::Key(keys.name().as_bytes()), &words).await {
            tracing::debug!(%failure, fence, "the fence of the trial lock was not deleted; it expires by itself");
        }
    }
}

fn failed(error: &Error) -> Finding {
    let text = error.to_string();
    if text.contains("syntax error") {
        let what = format!("the server lacks commands that locks need: {text}");
        return Finding::error(CHECK, what, "upgrade to Redis 6.2 or newer, or Valkey");
    }
    Finding::error(CHECK, format!("no lock could be acquired: {text}"), "see the other findings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_told_from_other_trouble() {
        let old = Error::Config(
            "redis: acquire x: the server refused it: ERR Error running script: ERR syntax error".into(),
        );
        assert!(failed(&old).advice.unwrap().contains("6.2"));
        assert!(failed(&Error::Closed).what.contains("no lock could be acquired"));
    }
}
