//! The counting semaphore: a plain number without holders. Permits stay taken until somebody gives them back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::api::Client;
use crate::backend::{CountOp, CountReply, Counter, Error, Family, Name, Result};
use crate::engine::core::Core;
use crate::engine::count;
use crate::engine::limit::Wait;
use crate::engine::telemetry::{AcquireTrace, KindLabel, Outcome};

/// A counting semaphore: a shared number of permits, not tied to whoever took them (Redisson's `RSemaphore`).
///
/// A process that dies with permits taken does not give them back: use [`crate::Semaphore`] unless that is wanted.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let seats = client.counting_semaphore("seats");
/// seats.try_set(10).await?;
/// seats.acquire(3).await?;
/// assert_eq!(seats.available().await?, 7);
/// seats.release(3).await?;
///
/// seats.add(-2).await?; // two are broken
/// assert!(!seats.try_acquire(9).await?); // does not wait
/// assert!(!seats.try_acquire_for(9, Duration::from_millis(10)).await?);
/// assert_eq!(seats.drain().await?, 8); // all that are left
/// seats.delete().await?;
/// # Ok(()) }
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
        let core = &self.client.engine.core;
        core.check_open()?;
        core.backend.info().require(Family::Count)?;
        Ok((core, self.name.as_ref().map_err(Clone::clone)?))
    }

    async fn change(&self, op: CountOp) -> Result<CountReply> {
        let (core, name) = self.parts()?;
        core.change(name, Counter::Semaphore, op).await
    }

    /// Sets the number of permits if it is not set yet. Returns whether it did.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Config` for a name that is invalid or in use as
    /// another kind.
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

    /// Takes `n` permits if they are available. Returns whether it did.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Safe: permits taken for a dropped future are given back.
    pub async fn try_acquire(&self, n: u64) -> Result<bool> {
        self.take(n, Wait::No).await
    }

    /// Takes `n` permits, waiting for at most `wait`. Returns whether it did.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Safe: permits taken for a dropped future are given back.
    pub async fn try_acquire_for(&self, n: u64, wait: Duration) -> Result<bool> {
        self.take(n, Wait::For(wait)).await
    }

    /// Gives `n` permits back; creates the semaphore if it does not exist.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    ///
    /// # Cancel safety
    /// Once started, the release happens even if the future is dropped.
    pub async fn release(&self, n: u64) -> Result<()> {
        let n = i64::try_from(n).map_err(|_| Error::Config(format!("{n} permits are too many")))?;
        self.change(CountOp::Add(n)).await.map(drop)
    }

    /// Adds `n` to the number of permits, which may become negative.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn add(&self, n: i64) -> Result<()> {
        self.change(CountOp::Add(n)).await.map(drop)
    }

    /// Takes all available permits, and returns how many.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn drain(&self) -> Result<u64> {
        let reply = self.change(CountOp::Drain).await?;
        Ok(if reply.applied { reply.before.unwrap_or(0).max(0) as u64 } else { 0 })
    }

    /// Returns how many permits are available; 0 if the semaphore does not exist.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn available(&self) -> Result<i64> {
        let (core, name) = self.parts()?;
        Ok(core.read_count(name, Counter::Semaphore).await?.after.unwrap_or(0))
    }

    /// Removes the semaphore. Returns whether there was one.
    ///
    /// # Errors
    /// As [`CountingSemaphore::try_set`].
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(CountOp::Delete).await?.applied)
    }

    async fn take(&self, n: u64, wait: Wait) -> Result<bool> {
        let (core, name) = self.parts()?;
        let mut trace = AcquireTrace::begin(core, KindLabel::Count, name, None);
        let engine = &self.client.engine;
        let got = trace.span().around(pin!(count::take(engine, name, n, wait, &trace))).await;
        trace.end(match &got {
            Ok(true) => Outcome::Acquired(None),
            Ok(false) if wait.is_try() => Outcome::Busy,
            Ok(false) => Outcome::TimedOut,
            Err(error) => Outcome::Failed(error),
        });
        got
    }
}
