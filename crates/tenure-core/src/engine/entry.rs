//! One entry into a hold, wrapped by a guard. A hold has one entry, and one more for each re-entry by its owner; the
//! last one that leaves releases the hold.

use std::pin::pin;
use std::sync::Arc;

use crate::backend::{Error, HoldId, LostReason, Released, Result};
use crate::engine::core::{Core, Engine};
use crate::engine::hold::{Hold, Leave, Part};
use crate::engine::telemetry::End;

/// An entry into a hold. Dropping it leaves the hold in the background.
pub(crate) struct Entry {
    engine: Arc<Engine>,
    hold: Arc<Hold>,
    part: Part,
    done: bool,
}

impl Entry {
    pub(crate) fn new(engine: Arc<Engine>, hold: Arc<Hold>, part: Part) -> Self {
        Self { engine, hold, part, done: false }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.engine.core
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    fn leave(&self) -> Leave {
        let leave = self.hold.leave(self.part);
        if let Leave::Inner(_) = leave {
            // What remains may end sooner than a hold that is renewed is looked at.
            self.core().keeper.sooner(&self.hold);
        }
        leave
    }

    /// Leaves, and fails if the hold was already lost. If the future is dropped, the release continues in the
    /// background.
    pub(crate) async fn release(mut self) -> Result<()> {
        self.done = true;
        let core = &self.engine.core;
        let last = match self.leave() {
            Leave::Lost(lost) => {
                core.lose(&self.hold, lost.reason);
                return Err(lost.into());
            }
            Leave::Inner(left) => return self.unnest(left).await,
            Leave::Last => {
                // Before it is deregistered, which calls foreign code: it is released even if that panics.
                if let Some(end) = self.hold.kept_until() {
                    core.leaves(&self.hold);
                    let ending = core.end_at(&self.hold, end);
                    core.forget(&self.hold, End::Released);
                    return ending?.await.unwrap_or(Err(Error::Closed));
                }
                if core.pass_on(&self.hold) {
                    return Ok(());
                }
                core.leaves(&self.hold);
                let leaving = Leaving { core, hold: Some(&self.hold) };
                core.forget(&self.hold, End::Released);
                leaving
            }
        };
        let span = core.telemetry.release_span(&self.hold.claim);
        match span.around(pin!(last.send())).await {
            Ok(Released::Freed) => Ok(()),
            Ok(Released::Gone) => {
                core.telemetry.was_gone(&self.hold);
                Err(self.hold.as_lost(LostReason::Gone).into())
            }
            Err(error) => Err(error),
        }
    }

    async fn unnest(&self, left: u32) -> Result<()> {
        let core = &self.engine.core;
        // A store may extend the remaining hold.
        self.hold.may_last(self.hold.claim.lease, core.settings.call_timeout);
        match core.ask(|| core.backend.release(&self.hold.claim, left)).await {
            Ok(Released::Gone) => {
                core.lose(&self.hold, LostReason::Gone);
                // Unless the last guard left meanwhile, which released this entry, too.
                self.hold.lost().map_or(Ok(()), |lost| Err(lost.into()))
            }
            // The count in the store is informational: the next entry or release writes it again.
            Ok(Released::Freed) => Ok(()),
            Err(error) if error.is_transient() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Leaves without releasing: the hold is no longer renewed and ends with its lease.
    pub(crate) fn detach(mut self) -> HoldId {
        self.done = true;
        match self.leave() {
            Leave::Last => {
                let (core, hold) = (&self.engine.core, &self.hold);
                core.leaves(hold);
                if let Some(end) = hold.left_alone() {
                    core.leave_at(hold.claim.clone(), end);
                }
                if !hold.leases.are_stored_until(hold.since.after(hold.claim.lease)) {
                    core.extend_in_background(hold.claim.clone());
                }
                self.engine.core.forget(&self.hold, End::Detached);
            }
            Leave::Lost(lost) => self.engine.core.lose(&self.hold, lost.reason),
            Leave::Inner(_) => {}
        }
        self.hold.claim.id
    }
}

/// A release before the end of the lease, sent from the caller's task; if that is dropped, it is finished in the
/// background.
struct Leaving<'a> {
    core: &'a Arc<Core>,
    hold: Option<&'a Arc<Hold>>,
}

impl Leaving<'_> {
    async fn send(mut self) -> Result<Released> {
        let Some(hold) = self.hold else { return Ok(Released::Gone) };
        match self.core.backend.release(&hold.claim, 0).await {
            Err(error) if error.is_transient() => {
                self.hold = None;
                let unanswered = error.is_unknown().then(|| error.clone());
                match self.core.leave_hold(hold, unanswered) {
                    Some(job) => job.await.unwrap_or(Err(error)),
                    None => Err(error),
                }
            }
            answer => {
                self.hold = None;
                if hold.passing.relay.is_some() {
                    self.core.gates.left(&hold.claim.name);
                }
                if let Err(error) = &answer {
                    self.core.telemetry.release_failed(&hold.claim, error);
                }
                answer
            }
        }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold {
            self.core.leave_hold(hold, None);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let core = &self.engine.core;
        match self.leave() {
            Leave::Lost(lost) => core.lose(&self.hold, lost.reason),
            Leave::Inner(left) => {
                self.hold.may_last(self.hold.claim.lease, core.settings.call_timeout);
                core.unnest_in_background(self.hold.claim.clone(), left);
            }
            Leave::Last => {
                if core.pass_on(&self.hold) {
                    return;
                }
                core.leaves(&self.hold);
                // In this order for the reasons given in `Core::let_go`.
                match self.hold.kept_until() {
                    Some(end) => drop(core.end_at(&self.hold, end)),
                    None => drop(core.leave_hold(&self.hold, None)),
                }
                core.forget(&self.hold, End::Dropped);
            }
        }
    }
}
