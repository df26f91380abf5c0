//! Holds that outlive their guards: a hold with a minimum time ends by itself when that time is over, also if its
//! process is gone by then.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::backend::{Claim, Error, LostReason, Reason, Renewal, Result, Time};
use crate::engine::core::Core;
use crate::engine::hold::Hold;

impl Core {
    /// Makes a hold without guards end at `end`, in the background.
    ///
    /// The store is asked for a lease until `end`, also if it was before: it may have lost that. If it has a longer one,
    /// the hold is released at `end`, or ends with that lease if this process has ended by then.
    pub(crate) fn end_at(self: &Arc<Self>, hold: &Arc<Hold>, end: Time) -> Result<JoinHandle<Result<()>>> {
        let (core, hold) = (self.clone(), hold.clone());
        let pending = self.releases.begin(&hold.claim.name);
        let outlasts = hold.leases.are_asked_beyond(end);
        Ok(self.runtime()?.spawn(async move {
            let extended = core.extend_to(&hold, end).await;
            match &extended {
                // One that ends by itself needs neither a task nor a request until then.
                Ok(()) if outlasts => drop(tokio::spawn(core.clone().release_at(hold, end))),
                Ok(()) => {}
                Err(error) => core.telemetry.release_failed(&hold.claim, error),
            }
            drop(pending);
            extended
        }))
    }

    async fn extend_to(self: &Arc<Self>, hold: &Hold, end: Time) -> Result<()> {
        if hold.until() >= end {
            return Ok(());
        }
        let stored = hold.leases.are_stored_until(end);
        let patience = if stored { Duration::ZERO } else { hold.until().since(self.clock.now()) };
        let extended =
            self.retry(patience, async || {
                let lease = end.since(self.clock.now()).max(Claim::MIN_LEASE);
                hold.may_last(lease, self.settings.call_timeout);
                let claims = [Arc::new(Claim { lease, ..(*hold.claim).clone() })];
                match self.backend.renew(&claims).await?[..] {
                    [Renewal::Held { .. }] => Ok(()),
                    [Renewal::Unanswered] => Err(self
                        .unanswered(format_args!("extend {}", hold.claim.name), self.settings.call_timeout)),
                    _ => Err(hold.as_lost(LostReason::Gone).into()),
                }
            });
        match extended.await {
            Err(error) if stored && error.is_transient() => Ok(()),
            // Never `Unavailable`: what was done under the hold must not be repeated as if nothing had been done.
            Err(
                Error::Unavailable { reason: text, source: cause, .. }
                | Error::Unknown { reason: text, source: cause, .. },
            ) => {
                let what = format!("keep {} for its minimum time", hold.claim.name);
                Err(Error::unknown(hold.backend, what, Reason { text, cause }))
            }
            extended => extended,
        }
    }

    async fn release_at(self: Arc<Self>, hold: Arc<Hold>, end: Time) {
        self.clock.sleep_until(end).await;
        if self.check_open().is_ok() {
            self.leave_hold(&hold, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Client, Clock, Error, Memory};

    /// Does `n` things that are done once a day, and `n` that last for a day at least. Waits until no more tasks of the
    /// worker are left than one for each ten.
    async fn leaves_no_tasks(n: usize) {
        const DAY: Duration = Duration::from_secs(86_400);
        let client = Client::new(Memory::new());
        for i in 0..n {
            client.once(format!("once{i}"), DAY).run(async |_| Ok::<_, Error>(())).await.unwrap();
            client.lock(format!("kept{i}")).at_least(DAY).acquire().await.unwrap().release().await.unwrap();
        }
        let worker = client.engine.core.runtime().unwrap().metrics();
        let what = format!("{} tasks are left for {} names", worker.num_alive_tasks(), 2 * n);
        testbed::until_true(&what, || worker.num_alive_tasks() < n / 10).await;
    }

    #[tokio::test]
    async fn a_kept_hold_costs_nothing_until_its_end() {
        leaves_no_tasks(100).await;
        leaves_no_tasks(400).await;
    }

    #[tokio::test]
    async fn a_hold_that_the_store_would_keep_longer_is_released_at_its_end() {
        let clock = Clock::manual();
        let client = Client::new(Memory::with_clock(clock.clone()));
        let lock = client.lock("x").lease(Duration::from_secs(60)).at_least(Duration::from_secs(10));
        lock.acquire().await.unwrap().release().await.unwrap();
        clock.advance(Duration::from_secs(9));
        assert!(lock.is_locked().await.unwrap());
        clock.advance(Duration::from_secs(1));
        testbed::until("it is free", async || !lock.is_locked().await.unwrap()).await;
    }
}
