//! Holds that outlive their guards: a hold with a minimum time ends by itself when that time is over, also if its
//! process is gone by then.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::backend::{Claim, LostReason, Renewal, Result, Time};
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
        Ok(self.runtime()?.spawn(async move {
            let extended = core.extend_to(&hold, end).await;
            match &extended {
                Ok(()) => drop(tokio::spawn(core.clone().release_at(hold, end))),
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
        let stored = hold.is_stored_until(end);
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
