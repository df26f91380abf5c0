//! The semaphore with recorded permits: each is a hold with a lease, so permits of a dead holder are freed.

use std::time::Duration;

use crate::api::{Client, Guard, Lock};
use crate::backend::{CountOp, Counter, Error, HoldId, Holder, Kind, Name, Result, Waiter};
use crate::engine::ops::Op;

/// A semaphore whose permits are recorded and leased, so that those of a dead holder are freed (Redisson's
/// `PermitExpirableSemaphore`).
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let connections = client.semaphore("db", 10);
/// let three = connections.acquire_many(3).await?;
/// assert_eq!(connections.available().await?, 7);
/// three.release().await?;
///
/// let one = connections.acquire().await?;
/// assert!(connections.try_acquire_many(10).await?.is_none()); // does not wait
/// let (two, three) = (connections.try_acquire().await?, connections.try_acquire_for(Duration::from_secs(3)).await?);
/// let leased = connections.permits(2).lease(Duration::from_secs(60)).acquire().await?; // with options of a lock
/// # Ok(()) }
/// ```
///
/// Tools can see who has permits, keep them alive, take them away, and change how many there are:
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let connections = client.semaphore("db", 10);
/// let id = connections.acquire_many(3).await?.detach();
/// assert!(connections.is_locked().await?);
/// assert_eq!(connections.holder().await?.and_then(|holder| holder.hold_id()), Some(id));
/// assert_eq!((connections.holders().await?.len(), connections.waiters().await?.len()), (1, 0));
/// assert!(connections.renew_by(id, Duration::from_secs(60)).await?);
/// assert!(connections.release_by(id).await?);
/// assert!(!connections.force_release().await?); // nobody is left
///
/// connections.resize(20).await?;
/// assert_eq!(connections.available().await?, 20);
/// connections.forget_size().await?; // the next one who gives a size sets it
/// # Ok(()) }
/// ```
///
/// Not fair: after a release the first request wins; inside one process waiters are served in order. The size that
/// [`Client::semaphore`] gives only applies if the store has none yet.
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct Semaphore {
    client: Client,
    name: Result<Name>,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(client: &Client, name: Result<Name>, limit: u32) -> Self {
        Self { client: client.clone(), name, limit }
    }

    /// Returns a template for `n` permits, for options such as [`Lock::lease`].
    pub fn permits(&self, n: u32) -> Lock {
        let name = match &self.name {
            Ok(name) if n == 0 => {
                Err(Error::Config(format!("{name}: at least one permit must be asked for")))
            }
            Ok(name) if self.limit == 0 => {
                Err(Error::Config(format!("{name}: a semaphore of no permits admits nobody")))
            }
            Ok(name) if n > self.limit => Err(Error::Config(format!(
                "{name}: {n} permits were asked for, but the semaphore has {}",
                self.limit
            ))),
            name => name.clone(),
        };
        Lock::new(&self.client, name, Kind::Permit { n, limit: self.limit })
    }

    /// Acquires one permit, waiting as long as none is free.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn acquire(&self) -> Result<Guard> {
        self.permits(1).acquire().await
    }

    /// Acquires `n` permits, all at once, with one guard, waiting as long as too few are free.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; `Config` if `n` is 0 or more than the size given or stored, also if the size is reduced
    /// during the wait.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn acquire_many(&self, n: u32) -> Result<Guard> {
        self.permits(n).acquire().await
    }

    /// Acquires one permit if one is free; `None` if not.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.permits(1).try_acquire().await
    }

    /// Acquires `n` permits if that many are free; `None` if not.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire_many(&self, n: u32) -> Result<Option<Guard>> {
        self.permits(n).try_acquire().await
    }

    /// Acquires one permit, waiting for at most `wait`; `None` if none was free by then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>> {
        self.permits(1).try_acquire_for(wait).await
    }

    /// Returns how many permits are free: negative if the size was reduced below the number in use.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn available(&self) -> Result<i64> {
        let core = &self.client.engine.core;
        core.check_open()?;
        let seen = core.snapshot(self.name.as_ref().map_err(Clone::clone)?).await?;
        Ok(seen.map_or(i64::from(self.limit), |s| match (s.size, s.count) {
            // Created by another library and not in use: the store cannot distinguish it from a plain number of free
            // permits.
            (None, Some(free)) => free,
            (size, _) => {
                let used: i64 = s.holders.iter().map(|h| i64::from(h.holds)).sum();
                i64::from(size.unwrap_or(self.limit)) - used
            }
        }))
    }

    /// Changes the size. Permits in use stay in use: after a reduction no more are granted until enough have been
    /// released, and waiters for more than the new size get `Config`.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Config` if the name is used as another kind.
    pub async fn resize(&self, size: u32) -> Result<()> {
        self.size(CountOp::Set(u64::from(size))).await.map(drop)
    }

    /// Removes the stored size, so that the next size given applies. Permits in use stay in use. Returns whether a size
    /// was stored.
    ///
    /// # Errors
    /// As [`Semaphore::resize`].
    pub async fn forget_size(&self) -> Result<bool> {
        Ok(self.size(CountOp::Delete).await?.applied)
    }

    async fn size(&self, op: CountOp) -> Result<crate::backend::CountReply> {
        let core = &self.client.engine.core;
        core.check_open()?;
        core.backend.info().require(crate::backend::Family::Permit)?;
        core.change_once(self.name.as_ref().map_err(Clone::clone)?, Counter::Size, op, &Op::new(core)).await
    }

    /// Releases the permits of a hold by its id, from any process. Returns whether there were any.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn release_by(&self, id: HoldId) -> Result<bool> {
        self.permits(1).release_by(id).await
    }

    /// Extends the permits of a hold by its id, from any process, to `lease` from now; never shortens. Returns whether
    /// there were any.
    ///
    /// # Errors
    /// `Unsupported` where holds live as long as a session; `Unavailable` or `Unknown` when the store does not answer.
    pub async fn renew_by(&self, id: HoldId, lease: Duration) -> Result<bool> {
        self.permits(1).lease(lease).renew_by(id).await
    }

    /// Whether any permit is in use.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn is_locked(&self) -> Result<bool> {
        self.permits(1).is_locked().await
    }

    /// Returns the holders of permits.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        self.permits(1).holders().await
    }

    /// Returns the first holder of permits.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holder(&self) -> Result<Option<Holder>> {
        self.permits(1).holder().await
    }

    /// Returns the waiters for permits: one per process.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn waiters(&self) -> Result<Vec<Waiter>> {
        self.permits(1).waiters().await
    }

    /// Takes the permits from all holders. Returns whether there were any.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn force_release(&self) -> Result<bool> {
        self.permits(1).force_release().await
    }
}
