//! Work under a hold in one call: acquire, run while it is held, release.

use std::future::Future;
use std::time::Duration;

use crate::api::{Election, Guard, Held, Lock};
use crate::backend::{Error, Result};

impl Lock {
    /// Acquires it, runs `work` while it is held, and releases it. Waits as [`Lock::acquire`] does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// # async fn ship(order: u64, fence: Option<tenure_core::Fence>) -> tenure_core::Result<u64> { Ok(order) }
    /// let order = client.lock("orders/42").run(async |held| ship(42, held.fence()).await).await?;
    /// assert_eq!(order, 42);
    ///
    /// let pages = client.rwlock("index").read().run(async |_| Ok::<_, tenure_core::Error>(7)).await?;
    /// let busy = client.semaphore("db", 3).permits(2).try_run(async |_| Ok::<_, tenure_core::Error>(())).await?;
    /// assert_eq!((pages, busy), (7, Some(())));
    ///
    /// let limit = std::time::Duration::from_secs(3);
    /// let shipped = client.lock("orders/42").try_run_for(limit, async |_| ship(42, None).await).await?;
    /// assert_eq!(shipped, Some(42));
    /// # Ok(()) }
    /// ```
    ///
    /// `work` is dropped when the lock is lost. When it has finished and the release gets no answer, its result counts:
    /// it was held until then, and is free when its lease ends, or when its minimum time is over.
    ///
    /// # Errors
    /// The error of `work`; as [`Lock::acquire`]; `Lost` if it was lost before `work` was done or before it was
    /// released.
    ///
    /// # Cancel safety
    /// As safe as `work` is: dropping the future drops `work` and then releases.
    pub async fn run<T, E, F>(&self, work: impl FnOnce(Held) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        run(self.acquire().await?, work).await
    }

    /// Runs `work` if it is free, as [`Lock::run`]; `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::run`].
    pub async fn try_run<T, E, F>(&self, work: impl FnOnce(Held) -> F) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        try_run(self.try_acquire().await?, work).await
    }

    /// Runs `work` if it is free within `wait`, as [`Lock::run`]; `None` if it is not.
    ///
    /// # Errors
    /// As [`Lock::run`].
    pub async fn try_run_for<T, E, F>(
        &self,
        wait: Duration,
        work: impl FnOnce(Held) -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        try_run(self.try_acquire_for(wait).await?, work).await
    }
}

impl Election {
    /// Campaigns, runs `work` while it leads, and resigns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let term = client.election("cron").run(async |held| Ok::<_, tenure_core::Error>(held.fence())).await?;
    /// assert!(term.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Lock::run`] and [`Election::campaign`].
    ///
    /// # Cancel safety
    /// As safe as `work` is: dropping the future drops `work` and then resigns.
    pub async fn run<T, E, F>(&self, work: impl FnOnce(Held) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        run(self.campaign().await?, work).await
    }
}

/// Runs `work` under `guard`, then releases it. `work` is dropped before the release, however it ends.
pub(crate) async fn run<T, E, F>(guard: Guard, work: impl FnOnce(Held) -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: From<Error>,
{
    let result = guard.while_held(work(guard.held())).await?;
    let released = guard.finish().await;
    let value = result?;
    released?;
    Ok(value)
}

async fn try_run<T, E, F>(guard: Option<Guard>, work: impl FnOnce(Held) -> F) -> Result<Option<T>, E>
where
    F: Future<Output = Result<T, E>>,
    E: From<Error>,
{
    match guard {
        Some(guard) => run(guard, work).await.map(Some),
        None => Ok(None),
    }
}
