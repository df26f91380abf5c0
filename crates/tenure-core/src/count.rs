//! The counting semaphore: a plain number without holders. What is taken stays taken until someone gives it back.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::acquire::Wait;
use crate::backend::{CountOp, CountReply, Counter};
use crate::client::{Client, Core, Inner};
use crate::driver::{self, Waited, Waiter, Want};
use crate::mailbox::Grant;
use crate::ops::{Op, REPEATABLE};
use crate::signs::{self, Asking, Outcome, Sort};
use crate::unanswered::{Unanswered, Undo};
use crate::{Error, Family, Name, OpId, Result};

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

    /// The answer to taking `n`, which is repeated under its id until there is one; and whether one of those that failed
    /// may have been executed.
    async fn answer(&self, core: &Arc<Core>, n: u64, limit: Instant) -> (Result<CountReply>, bool) {
        let (unknown, take) = (AtomicBool::new(false), CountOp::TakeIfAtLeast(n));
        let call = async || {
            let answer = core.backend.count(&self.name, Counter::Semaphore, take, self.op.id()).await;
            unknown.fetch_or(answer.as_ref().is_err_and(Error::is_unknown), Relaxed);
            answer
        };
        (core.ask_until(limit, call).await, unknown.into_inner())
    }
}

impl Undo for Take {
    /// Gives back what it took, or sees to it that it takes nothing any more.
    fn undo(self, core: &Arc<Core>) {
        let job = {
            let core = core.clone();
            let Self { name, op } = self.clone();
            async move {
                let (undo, id) = (CountOp::Undo(op.number()), op.about());
                let call = || core.backend.count(&name, Counter::Semaphore, undo, id.id());
                if let Err(error) = core.retry(REPEATABLE, call).await {
                    tracing::warn!(%name, %error, "permits taken by a cancelled acquire were not given back");
                }
                // A future that was left alone may keep the operation much longer.
                op.settle();
            }
        };
        core.in_background(&self.name, job);
    }
}

/// A take of a waiter that was not answered, and so may have been executed. The next attempt repeats it under its id;
/// whoever gives up undoes it.
pub(crate) type UnansweredTake = Arc<Mutex<Option<Taken>>>;

/// Permits that were taken, or may have been. Dropping it gives them back; [`Taken::keep`] does not.
pub(crate) struct Taken {
    inner: Arc<Inner>,
    take: Take,
    kept: bool,
}

impl Taken {
    pub(crate) fn new(inner: &Arc<Inner>, name: &Name) -> Self {
        Self { inner: inner.clone(), take: Take::new(&inner.core, name), kept: false }
    }

    pub(crate) fn id(&self) -> OpId {
        self.take.op.id()
    }

    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.kept {
            self.take.clone().undo(&self.inner.core);
        }
    }
}

impl Core {
    /// One operation on a count, repeated under the same id until it is answered.
    pub(crate) async fn count(
        self: &Arc<Self>,
        name: &Name,
        counter: Counter,
        op: CountOp,
        id: &Op,
    ) -> Result<CountReply> {
        self.ask(|| async { self.backend.count(name, counter, op, id.repeatable(name)?).await }).await
    }

    /// A change that happens once begun: dropped half way it goes on in the background, under the same id.
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
                        tracing::warn!(%name, %error, "a change of a count that was begun was not finished");
                    }
                });
            }
        }
        let mut finish = Finish { core: self, name, counter, op, id: Arc::new(Op::new(self)), done: false };
        let answer = self.count(name, counter, op, &finish.id).await;
        finish.done = true;
        answer
    }
}

/// A counting semaphore: a shared number of permits, not tied to whoever took them (Redisson's `RSemaphore`).
///
/// A process that dies with permits taken does not give them back: use [`crate::Semaphore`] unless that is wanted.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let seats = client.counting_semaphore("seats");
/// seats.try_set(10).await?;
/// seats.acquire(3).await?;
/// assert_eq!(seats.available().await?, 7);
/// seats.release(3).await?;
/// # assert_eq!(seats.available().await?, 10); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct CountingSemaphore {
    client: Client,
    name: Result<Name>,
}

impl CountingSemaphore {
    pub(crate) fn new(client: &Client, name: Result<Name>) -> Self {
        Self { client: client.clone(), name }
    }

    fn parts(&self) -> Result<(&Arc<Core>, &Name)> {
        let core = &self.client.inner.core;
        core.check_open()?;
        core.backend.info().require(Family::Count)?;
        Ok((core, self.name.as_ref().map_err(Clone::clone)?))
    }

    async fn change(&self, op: CountOp) -> Result<CountReply> {
        let (core, name) = self.parts()?;
        core.change(name, Counter::Semaphore, op).await
    }

    /// Sets the number of permits if there is none yet. Whether it did.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Config` for a bad or otherwise used name.
    pub async fn try_set(&self, permits: u64) -> Result<bool> {
        Ok(self.change(CountOp::Init(permits)).await?.applied)
    }

    /// Takes `n` permits, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Safe: permits taken for a dropped future are given back.
    pub async fn acquire(&self, n: u64) -> Result<()> {
        self.take(n, Wait::Forever).await.map(drop)
    }

    /// Takes `n` permits if they are there. Whether it did.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Safe: permits taken for a dropped future are given back.
    pub async fn try_acquire(&self, n: u64) -> Result<bool> {
        self.take(n, Wait::No).await
    }

    /// Takes `n` permits, waiting for at most `wait`. Whether it did.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Safe: permits taken for a dropped future are given back.
    pub async fn try_acquire_for(&self, n: u64, wait: Duration) -> Result<bool> {
        self.take(n, Wait::For(wait)).await
    }

    /// Gives `n` permits back; makes the semaphore if there is none.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Once begun it happens, also when the future is dropped.
    pub async fn release(&self, n: u64) -> Result<()> {
        let n = i64::try_from(n).map_err(|_| Error::Config(format!("{n} permits are too many")))?;
        self.change(CountOp::Add(n)).await.map(drop)
    }

    /// Adds to the number of permits, or takes away from it; it may become negative.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn add(&self, n: i64) -> Result<()> {
        self.change(CountOp::Add(n)).await.map(drop)
    }

    /// Takes all permits that are there, and says how many.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn drain(&self) -> Result<u64> {
        let reply = self.change(CountOp::Drain).await?;
        Ok(if reply.applied { reply.before.unwrap_or(0).max(0) as u64 } else { 0 })
    }

    /// How many permits are there; 0 when the semaphore does not exist.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn available(&self) -> Result<i64> {
        let (core, name) = self.parts()?;
        Ok(core.count(name, Counter::Semaphore, CountOp::Get, &Op::new(core)).await?.after.unwrap_or(0))
    }

    /// Removes the semaphore. Whether there was one.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(CountOp::Delete).await?.applied)
    }

    async fn take(&self, n: u64, wait: Wait) -> Result<bool> {
        let (core, name) = self.parts()?;
        let mut asking = Asking::begin(core, Sort::Count, name, None);
        let got = signs::inside(asking.span(), pin!(self.take_of(core, name, n, wait, &asking))).await;
        asking.end(match &got {
            Ok(true) => Outcome::Acquired(None),
            Ok(false) if wait == Wait::No => Outcome::Busy,
            Ok(false) => Outcome::TimedOut,
            Err(error) => Outcome::Failed(error),
        });
        got
    }

    async fn take_of(
        &self,
        core: &Arc<Core>,
        name: &Name,
        n: u64,
        wait: Wait,
        asking: &Asking<'_>,
    ) -> Result<bool> {
        let deadline = wait.deadline();
        core.ensure_threads()?;
        loop {
            let limit = wait.limit(deadline, &core.settings);
            core.settle(name, limit.end).await;
            core.check_open()?;
            // Dropped before it is answered, it is undone.
            let take = Take::new(core, name);
            asking.tally.attempt();
            let mut attempt = Unanswered::new(core, &take);
            let asked = attempt.run(core.patience(core.settings.lease), take.answer(core, n, limit.end));
            let Some(answer) = core.by(limit.cut, asked).await? else {
                return Err(core.out_of_time(format_args!("take permits of {name}")));
            };
            match answer {
                None => {}
                Some((Ok(reply), _)) => {
                    attempt.keep();
                    if reply.applied || wait == Wait::No {
                        return Ok(reply.applied);
                    }
                    break;
                }
                Some((Err(error), unknown)) => {
                    if !unknown {
                        attempt.keep();
                    }
                    return Err(error);
                }
            }
        }
        loop {
            let want = Want::Take { n, unanswered: Arc::default() };
            let waiter = Waiter::new(&self.client.inner, want, deadline, None, None);
            match driver::wait(core, name, waiter, asking).await? {
                Waited::Granted(Grant::Taken(taken)) => {
                    taken.keep();
                    return Ok(true);
                }
                Waited::TimedOut => return Ok(false),
                _ => {}
            }
        }
    }
}
