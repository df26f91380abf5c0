//! The count-down latch: opens when its count reaches zero, and wakes all waiters.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Client;
use crate::backend::{CountOp, CountReply, Counter, Error, Family, Interest, Name, Result, Signal};
use crate::engine::core::Core;
use crate::engine::ops::Op;

/// A count-down latch (Redisson's `RCountDownLatch`). A latch that does not exist is open; deleting it opens it, too.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let ready = client.latch("ready");
/// ready.try_set_count(2).await?;
/// assert!(!ready.try_wait_for(Duration::from_millis(10)).await?); // not open yet
/// ready.count_down().await?;
/// assert_eq!(ready.count().await?, 1);
/// let (opened, counted) = tokio::join!(ready.wait(), ready.count_down());
/// # opened?; counted?;
///
/// ready.try_set_count(1).await?;
/// ready.delete().await?; // opens it
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    client: Client,
    name: Result<Name>,
}

impl Latch {
    pub(crate) fn new(client: &Client, name: Result<Name>) -> Self {
        Self { client: client.clone(), name }
    }

    fn parts(&self) -> Result<(&Arc<Core>, &Name)> {
        let core = &self.client.engine.core;
        core.check_open()?;
        core.backend.info().require(Family::Latch)?;
        Ok((core, self.name.as_ref().map_err(Clone::clone)?))
    }

    async fn change(&self, op: CountOp) -> Result<CountReply> {
        let (core, name) = self.parts()?;
        core.change(name, Counter::Latch, op).await
    }

    async fn get(&self) -> Result<CountReply> {
        let (core, name) = self.parts()?;
        core.read_count(name, Counter::Latch).await
    }

    /// Sets the count if the latch is open. Returns whether it did.
    ///
    /// # Errors
    /// `Config` for a count of 0; `Unavailable` or `Unknown` when the store does not answer.
    pub async fn try_set_count(&self, count: u64) -> Result<bool> {
        if count == 0 {
            return Err(Error::Config("a latch with a count of 0 is open already: set 1 at least".into()));
        }
        Ok(self.change(CountOp::Init(count)).await?.applied)
    }

    /// Counts down by one. At zero the latch opens and is removed. Does nothing if it is open.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    ///
    /// # Cancel safety
    /// Once started, it is applied exactly once, even if the future is dropped.
    pub async fn count_down(&self) -> Result<()> {
        self.change(CountOp::Add(-1)).await.map(drop)
    }

    /// Returns the count; 0 if it is open.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn count(&self) -> Result<u64> {
        Ok(self.get().await?.after.unwrap_or(0).max(0) as u64)
    }

    /// Removes the latch, which opens it. Returns whether there was one.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(CountOp::Delete).await?.applied)
    }

    /// Waits until it opens. Returns even if a new count is set after it has opened.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer for longer than
    /// [`Settings::outage`](crate::Settings::outage).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&self) -> Result<()> {
        self.wait_until(None).await.map(drop)
    }

    /// Waits until it opens, for at most `wait`. Returns whether it opened.
    ///
    /// # Errors
    /// As [`Latch::wait`].
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn try_wait_for(&self, wait: Duration) -> Result<bool> {
        self.wait_until(Instant::now().checked_add(wait)).await
    }

    async fn wait_until(&self, deadline: Option<Instant>) -> Result<bool> {
        let (core, name) = self.parts()?;
        let (core, name, latch) = (core.clone(), name.clone(), self.clone());
        // Runs on the worker's runtime, which has timers even if the caller's runtime has none.
        let mut waiting = JoinSet::new();
        let runtime = core.runtime()?.clone();
        waiting.spawn_on(
            async move {
                // A deadline that passes before the first answer is an error, not `false`.
                let failure = Mutex::new(Some(core.out_of_time(format_args!("wait for {name}"))));
                let opens = async {
                    tokio::select! {
                        biased;
                        closed = core.until_closed() => Err(closed),
                        opened = latch.opens(&core, &name, &failure) => opened,
                    }
                };
                match deadline {
                    Some(at) => match tokio::time::timeout_at(at, opens).await {
                        Ok(opened) => opened,
                        Err(_) => failure.lock().unwrap().take().map_or(Ok(false), Err),
                    },
                    None => opens.await,
                }
            },
            &runtime,
        );
        // Dropping the set with the caller's future aborts the task.
        waiting.join_next().await.and_then(std::result::Result::ok).unwrap_or(Err(Error::Closed))
    }

    /// Waits until it opens. `failure` is the last error of the store, `None` after an answer.
    async fn opens(&self, core: &Arc<Core>, name: &Name, failure: &Mutex<Option<Error>>) -> Result<bool> {
        let outage = core.settings.outage;
        let watches = || {
            core.retry(outage, async || {
                let interest = Interest::Count(core.id, Counter::Latch);
                core.backend.watch(name, interest).await.inspect_err(|error| note(failure, Some(error)))
            })
        };
        let looks = || {
            core.retry(outage, async || {
                let id = Op::new(core);
                let answer =
                    core.backend.count(name, Counter::Latch, CountOp::Get, id.repeatable(name)?).await;
                note(failure, answer.as_ref().err());
                answer
            })
        };
        let mut watch = watches().await?;
        let first = looks().await?;
        if first.after.is_none() {
            return Ok(true);
        }
        loop {
            core.check_open()?;
            match tokio::time::timeout(core.poll(), watch.signal()).await {
                Ok(Signal::Open) => return Ok(true),
                Ok(Signal::Changed | Signal::Granted { .. }) => {}
                // A process that counts down may have dropped this watcher: subscribe again before reading the count.
                Err(_) => watch = watches().await?,
            }
            let now = looks().await?;
            // A new latch with the same name: the original one has opened.
            let another = now.born != first.born && now.born != 0 && first.born != 0;
            if now.after.is_none() || another {
                return Ok(true);
            }
        }
    }
}

fn note(failure: &Mutex<Option<Error>>, error: Option<&Error>) {
    *failure.lock().unwrap() = error.cloned();
}
