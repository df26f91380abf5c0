//! Operations on counts: retried with one operation id until they are answered, and finished or undone when the caller
//! no longer waits for them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::backend::{CountOp, CountReply, Counter, Error, Name, OpId, Result};
use crate::engine::acquisition::Acquisition;
use crate::engine::core::{Core, Engine};
use crate::engine::gate::{self, Waited, Waiter, Want};
use crate::engine::in_flight::{InFlight, Ran, Undo};
use crate::engine::limit::{Limit, Wait};
use crate::engine::mailbox::Grant;
use crate::engine::ops::{Op, REPEATABLE};
use crate::engine::telemetry::AcquireTrace;
use crate::engine::terms::Terms;

/// An operation that takes permits.
#[derive(Clone)]
struct Take {
    name: Name,
    op: Arc<Op>,
}

impl Take {
    fn new(core: &Arc<Core>, name: &Name) -> Self {
        Self { name: name.clone(), op: Arc::new(Op::new(core)) }
    }

    /// Takes `n` permits, retried with the same id until it is answered. Also returns whether one of the failed calls
    /// may have been executed.
    async fn answer(&self, core: &Arc<Core>, n: u64, limit: Limit) -> (Result<CountReply>, bool) {
        let (unknown, take) = (AtomicBool::new(false), CountOp::TakeIfAtLeast(n));
        let call = async || {
            let answer = core
                .backend
                .count(&self.name, Counter::Semaphore, take, self.op.repeatable(&self.name)?)
                .await;
            unknown.fetch_or(answer.as_ref().is_err_and(Error::is_unknown), Relaxed);
            answer
        };
        (core.ask_until(limit, call).await, unknown.into_inner())
    }
}

impl Undo for Take {
    /// Gives back what it took, or makes sure that it takes nothing when it arrives late.
    fn undo(self, core: &Arc<Core>) {
        let job = {
            let core = core.clone();
            let Self { name, op } = self.clone();
            async move {
                let (undo, id) = (CountOp::Undo(op.number()), op.about());
                let call =
                    async || core.backend.count(&name, Counter::Semaphore, undo, id.repeatable(&name)?).await;
                // A store that has forgotten the take knows nothing to undo.
                let undone = core.retry(REPEATABLE, call).await.and_then(|_| op.repeatable(&name));
                if let Err(error) = undone {
                    core.telemetry.not_given_back(&name, &error);
                }
                // A future that is no longer polled may keep the operation much longer.
                op.settle();
            }
        };
        core.in_background(&self.name, job);
    }
}

/// An unanswered take of a waiter, which may have been executed. The next attempt repeats it with the same id; a waiter
/// that gives up undoes it.
pub(crate) type TakeInFlight = Arc<Mutex<Option<Taken>>>;

/// Permits that were taken, or may have been. Dropping it gives them back, unless [`Taken::keep`] was called.
pub(crate) struct Taken {
    engine: Arc<Engine>,
    take: Take,
    kept: bool,
}

impl Taken {
    pub(crate) fn new(engine: &Arc<Engine>, name: &Name) -> Self {
        Self { engine: engine.clone(), take: Take::new(&engine.core, name), kept: false }
    }

    /// # Errors
    /// `Unknown` if it is too old to be sent again.
    pub(crate) fn id(&self) -> Result<OpId> {
        self.take.op.repeatable(&self.take.name)
    }

    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.kept {
            self.take.clone().undo(&self.engine.core);
        }
    }
}

impl Core {
    /// Reads a count.
    pub(crate) async fn read_count(self: &Arc<Self>, name: &Name, counter: Counter) -> Result<CountReply> {
        let id = Op::new(self);
        self.read(|| async { self.backend.count(name, counter, CountOp::Get, id.repeatable(name)?).await })
            .await
    }

    /// Runs one change of a count, retried with the same id until it is answered.
    pub(crate) async fn change_once(
        self: &Arc<Self>,
        name: &Name,
        counter: Counter,
        op: CountOp,
        id: &Op,
    ) -> Result<CountReply> {
        let unanswered = Mutex::new(None);
        let call = async || {
            let answer = self.backend.count(name, counter, op, id.repeatable(name)?).await;
            if let Err(error) = answer.as_ref()
                && error.is_unknown()
            {
                *unanswered.lock().unwrap() = Some(error.clone());
            }
            answer
        };
        let answer = self.ask(call).await;
        match (answer, unanswered.into_inner().unwrap()) {
            // The last try was not executed, but an earlier one may have been.
            (Err(error), Some(unknown)) if error.is_transient() => Err(unknown),
            (answer, _) => answer,
        }
    }

    /// Runs an operation that is completed once started: if the future is dropped, it continues in the background with
    /// the same id.
    pub(crate) async fn change(
        self: &Arc<Self>,
        name: &Name,
        counter: Counter,
        op: CountOp,
    ) -> Result<CountReply> {
        struct Finish<'a> {
            core: &'a Arc<Core>,
            name: &'a Name,
            counter: Counter,
            op: CountOp,
            id: Arc<Op>,
            done: bool,
        }
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                if self.done {
                    return;
                }
                let (core, name, id) = (self.core.clone(), self.name.clone(), self.id.clone());
                let (counter, op) = (self.counter, self.op);
                self.core.in_background(self.name, async move {
                    let call =
                        || async { core.backend.count(&name, counter, op, id.repeatable(&name)?).await };
                    if let Err(error) = core.retry(REPEATABLE, call).await {
                        core.telemetry.not_finished(&name, &error);
                    }
                });
            }
        }
        let mut finish = Finish { core: self, name, counter, op, id: Arc::new(Op::new(self)), done: false };
        let answer = self.change_once(name, counter, op, &finish.id).await;
        finish.done = true;
        answer
    }
}

/// Takes `n` permits. Returns `false` if they did not become available within the wait.
pub(crate) async fn take(
    engine: &Arc<Engine>,
    name: &Name,
    n: u64,
    wait: Wait,
    trace: &AcquireTrace<'_>,
) -> Result<bool> {
    let core = &engine.core;
    let deadline = wait.deadline();
    core.ensure_threads()?;
    let asked = Acquisition::new(engine, Terms::of_a_count(&core.settings), None, deadline);
    loop {
        let limit = wait.limit(deadline, &core.settings);
        core.settle(name, limit.end).await;
        core.check_open()?;
        // If dropped before it is answered, it is undone.
        let take = Take::new(core, name);
        trace.stats.attempt();
        let mut attempt = InFlight::new(core, &take);
        let call = take.answer(core, n, limit);
        match attempt.run(limit.cut, core.patience(core.settings.lease), call).await? {
            Ran::OutOfTime => return Err(core.out_of_time(format_args!("take permits of {name}"))),
            Ran::Revoked => {}
            Ran::Done((Ok(reply), _)) => {
                attempt.keep();
                if reply.applied || wait.is_try() {
                    return Ok(reply.applied);
                }
                break;
            }
            Ran::Done((Err(error), unknown)) => {
                if !unknown {
                    attempt.keep();
                }
                return Err(error);
            }
        }
    }
    loop {
        let want = Want::Take { n, unanswered: Arc::default() };
        let waiter = Waiter::new(&asked, want, None);
        match gate::wait(core, name, waiter, trace).await? {
            Waited::Granted(Grant::Taken(taken)) => {
                taken.keep();
                return Ok(true);
            }
            Waited::TimedOut => return Ok(false),
            _ => {}
        }
    }
}
