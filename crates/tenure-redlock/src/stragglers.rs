//! Stragglers: attempts still in flight when their round was won. They continue in the background, so that a node that
//! is slow, or is still being connected to, gets the hold as well. Releasing the hold cancels them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use futures_util::stream::StreamExt;
use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::Inner;
use super::fan_out::Calls;
use super::rounds::{Entry, Round};
use super::votes::Vote;
use tenure_core::Time;

/// The most rounds whose attempts continue. Those of all others are cancelled by the decision, so that they do not pile
/// up for a node that is down for long.
pub(super) const MAX_ROUNDS: usize = 64;

/// The remaining attempts of one round.
#[derive(Default)]
pub(super) struct Stragglers {
    calls: Mutex<Option<(Calls<Vote>, OwnedSemaphorePermit)>>,
    task: AtomicWaker,
}

impl Stragglers {
    fn lock(&self) -> MutexGuard<'_, Option<(Calls<Vote>, OwnedSemaphorePermit)>> {
        self.calls.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Cancels what has not been sent yet.
    pub(super) fn cancel(&self) {
        let calls = self.lock().take();
        drop(calls);
        self.task.wake();
    }
}

impl fmt::Debug for Stragglers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stragglers")
    }
}

impl Inner {
    /// Lets the remaining attempts of a won round continue. Each ends by its node's own timeout; none is polled after
    /// `until`.
    pub(super) fn finish_in_background(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        round: Round,
        calls: Calls<Vote>,
        until: Time,
    ) {
        if calls.is_empty() {
            return;
        }
        let Ok(permit) = self.straggler_permits.clone().try_acquire_owned() else { return };
        let stragglers =
            Arc::new(Stragglers { calls: Mutex::new(Some((calls, permit))), ..Stragglers::default() });
        entry.set_stragglers(&stragglers);
        let (clock, entry) = (self.clock().clone(), entry.clone());
        let finishing = poll_fn(move |cx| {
            stragglers.task.register(cx.waker());
            loop {
                let mut calls = stragglers.lock();
                let Some((in_flight, _)) = calls.as_mut().filter(|_| clock.now() < until) else {
                    drop(calls);
                    stragglers.cancel();
                    return Poll::Ready(());
                };
                match in_flight.poll_next_unpin(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => *calls = None,
                    Poll::Ready(Some((node, vote))) if vote.is_not_executed() && !round.is_repeated => {
                        entry.mark_not_executed(node, round.id);
                    }
                    Poll::Ready(Some(_)) => {}
                }
            }
        });
        self.spawn_on_caller(finishing);
    }

    /// Spawns on the caller's runtime, whose connections the work uses; in the background if there is none.
    pub(super) fn spawn_on_caller(&self, work: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(caller) => drop(caller.spawn(work)),
            Err(_) => drop(self.spawn(work)),
        }
    }
}
