//! Attempts that were still under way when their round was won. They go on in the background, so that a node that is
//! slower than most, or is only just being connected to, has the hold as well. The release of the hold ends them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use futures_util::stream::StreamExt;
use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::Inner;
use super::ask::Calls;
use super::rounds::{Begun, Entry};
use super::votes::Vote;
use tenure_core::Time;

/// Rounds whose attempts go on at once. Those of all others end with the decision: a node that is away for long must
/// not collect them.
pub(super) const MOST: usize = 64;

/// The attempts of one round that go on.
#[derive(Default)]
pub(super) struct Late {
    calls: Mutex<Option<(Calls<Vote>, OwnedSemaphorePermit)>>,
    task: AtomicWaker,
}

impl Late {
    fn lock(&self) -> MutexGuard<'_, Option<(Calls<Vote>, OwnedSemaphorePermit)>> {
        self.calls.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What was not sent by now is not sent any more.
    pub(super) fn cancel(&self) {
        let calls = self.lock().take();
        drop(calls);
        self.task.wake();
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Late")
    }
}

impl Inner {
    /// Lets the attempts of a round that was won go on. Each ends by a time limit of its node's own; none begins after
    /// `until`.
    pub(super) fn finish(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        round: Begun,
        calls: Calls<Vote>,
        until: Time,
    ) {
        if calls.is_empty() {
            return;
        }
        let Ok(permit) = self.late.clone().try_acquire_owned() else { return };
        let late = Arc::new(Late { calls: Mutex::new(Some((calls, permit))), ..Late::default() });
        entry.set_late(&late);
        let (clock, entry) = (self.clock().clone(), entry.clone());
        let going_on = poll_fn(move |cx| {
            late.task.register(cx.waker());
            loop {
                let mut calls = late.lock();
                let Some((under_way, _)) = calls.as_mut().filter(|_| clock.now() < until) else {
                    drop(calls);
                    late.cancel();
                    return Poll::Ready(());
                };
                match under_way.poll_next_unpin(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => *calls = None,
                    Poll::Ready(Some((node, vote))) if vote.is_not_executed() && !round.again => {
                        entry.is_not_at(node, round.id);
                    }
                    Poll::Ready(Some(_)) => {}
                }
            }
        });
        self.spawn_here(going_on);
    }

    /// Goes on in the runtime of whoever asks, whose connections it uses. Without one, in the background.
    pub(super) fn spawn_here(&self, work: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(here) => drop(here.spawn(work)),
            Err(_) => drop(self.spawn(work)),
        }
    }
}
