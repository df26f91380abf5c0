//! The handle on a hold, which reports when the hold is lost.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::api::Held;
use crate::backend::{Error, Fence, HoldId, Lost, Name, Result};
use crate::engine::entry::Entry;
use crate::engine::hold::Hold;

/// What an acquire returns: the name is held until the guard is released or dropped, which lets the next waiter in.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// let total = guard.while_held(async { 40 + 2 }).await?; // ends early if the lock is lost
/// assert_eq!(total, 42);
///
/// guard.ensure(Duration::from_secs(5))?; // certain to be held for that long
/// println!("{} is held as {} for {:?}", guard.name(), guard.id(), guard.remaining());
/// println!("pass {:?} along with each write", guard.fence());
/// guard.keep_at_least(guard.lease())?; // although it is released now
/// guard.release().await
/// # }
/// ```
///
/// Without `while_held`, the program itself has to stop when the guard is lost:
///
/// ```
/// # async fn ship() {}
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// tokio::select! {
///     lost = guard.lost() => eprintln!("stopped: {lost}"),
///     () = ship() => guard.release().await?,
/// }
/// # Ok(()) }
/// ```
///
/// Dropping never blocks and needs no runtime: the release runs in the background.
#[must_use = "dropping a guard releases what it holds"]
pub struct Guard(Entry);

impl Guard {
    pub(crate) fn new(entry: Entry) -> Self {
        Self(entry)
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.0.hold()
    }

    /// Returns the name that is held.
    pub fn name(&self) -> &Name {
        &self.hold().claim.name
    }

    /// Returns the id of the hold in the store, for [`Lock::renew_by`](crate::Lock::renew_by) and
    /// [`Lock::release_by`](crate::Lock::release_by). A hold whose id was asked for is not passed on among the tasks of a
    /// client: see [`Settings::local_handover`](crate::Settings::local_handover).
    pub fn id(&self) -> HoldId {
        self.hold().passing.name();
        self.hold().claim.id
    }

    /// Returns the id for a record of what happened, which nobody uses to name the hold: it may still be passed on.
    #[doc(hidden)]
    pub fn recorded_id(&self) -> HoldId {
        self.hold().claim.id
    }

    /// Returns the fencing token: larger than that of every earlier grant of this name. `None` where the store has
    /// none. Pass it along with each write, and let the protected resource refuse a smaller one.
    pub fn fence(&self) -> Option<Fence> {
        self.hold().fence
    }

    /// Returns the lease that it was granted with, and that renewals ask for.
    pub fn lease(&self) -> Duration {
        self.hold().claim.lease
    }

    /// Returns how long it is certain to be held, by this machine's own clock. Zero when lost.
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// Whether it is certain to be held now.
    pub fn is_held(&self) -> bool {
        self.hold().is_held()
    }

    /// Returns how many guards this owner has on this hold.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let lock = client.lock("orders/42").owner(&tenure_core::Owner::new());
    /// let (outer, inner) = (lock.acquire().await?, lock.acquire().await?);
    /// assert_eq!(outer.reentry_count(), 2);
    /// inner.release().await?;
    /// assert!(outer.is_held());
    /// # outer.release().await }
    /// ```
    pub fn reentry_count(&self) -> u32 {
        self.hold().guards()
    }

    /// Fails unless it is certain to be held for another `d`: call it before an operation that takes that long.
    ///
    /// # Errors
    /// `Lost` when it is lost already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.hold().ensure(d)
    }

    /// Returns a view of the hold, for code that does not own the guard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let held = guard.held();
    /// let log = tokio::spawn(async move { println!("{} is held: {}", held.name(), held.is_held()) });
    /// # log.await.unwrap(); guard.release().await }
    /// ```
    pub fn held(&self) -> Held {
        Held(self.hold().clone())
    }

    /// Waits until it is lost. Does not return while it is held.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn lost(&self) -> Lost {
        self.hold().wait_lost().await
    }

    /// Runs `work` while it is held, and drops `work` when it is lost. The clock is checked before each poll, so that
    /// work does not continue after the machine was suspended for too long.
    ///
    /// # Errors
    /// `Lost` if it was lost before the work was done.
    ///
    /// # Cancel safety
    /// As safe as `work` is.
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        while_held(work, self.lost(), || self.hold().lost()).await
    }

    /// Waits until somebody asks the holder to release it, with [`Lock::revoke`](crate::Lock::revoke) or through
    /// Curator. Returns at once if that has already happened. Nothing is taken away: releasing is up to the holder.
    ///
    /// ```
    /// # async fn export() {}
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let guard = client.lock("export").acquire().await?;
    /// tokio::select! {
    ///     Ok(()) = guard.revoked() => println!("asked to give way"),
    ///     () = export() => println!("done"),
    /// }
    /// guard.release().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Unsupported` on a store without such requests: only ZooKeeper has them. `Unavailable` or `Unknown` when the
    /// store does not answer.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn revoked(&self) -> Result<()> {
        let core = self.0.core();
        let admin = core.backend.require_admin()?;
        let mut watch = core.ask(|| admin.revoked(&self.hold().claim)).await?;
        watch.signal().await;
        Ok(())
    }

    /// Releases it, and fails if it was no longer held.
    ///
    /// # Errors
    /// `Lost` if it had ended before: then nothing was changed in the store, whoever holds it now. `Unavailable` or
    /// `Unknown` if the store did not answer until the lease was over; `Unknown` also if the store could not be told of
    /// a minimum time ([`keep_at_least`](Guard::keep_at_least)) until then.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the release: it continues in the background.
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }

    /// Keeps it held for at least `least` from its grant on, whenever it is released, dropped or lost; see
    /// [`Lock::at_least`](crate::Lock::at_least). The store is told in the background, or by the release.
    ///
    /// # Errors
    /// `Unsupported` where a hold ends with its process; `Config` on a quorum whose `max_lease` is shorter.
    pub fn keep_at_least(&self, least: Duration) -> Result<()> {
        self.0.core().backend.info().require_at_least(least)?;
        self.keep(least);
        Ok(())
    }

    /// Keeps it held, and tells the store in the background if it does not know.
    pub(crate) fn keep(&self, least: Duration) {
        if self.hold().keep_at_least(least) {
            self.0.core().keeper.sooner(self.hold());
        }
    }

    /// Releases it after work was done under it. That nobody confirmed the release is no error: it was held until then,
    /// and the lease frees the name. Only a minimum that the store does not know of is: the work would be done again.
    #[doc(hidden)]
    pub async fn finish(self) -> Result<()> {
        let kept = self.hold().kept_until().is_some();
        match self.release().await {
            Err(error) if error.is_transient() && !kept => {
                tracing::warn!(%error, "the release was not confirmed: the name is free when its lease ends");
                Ok(())
            }
            released => released,
        }
    }

    /// Gives the guard up without releasing: the hold is no longer renewed and ends with its lease, or when it is
    /// released by its id. If the owner has other guards on the hold, they continue as if this one had been
    /// released.
    ///
    /// Where holds live as long as a session, it ends with the client at the latest.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let id = client.lock("orders/42").acquire().await?.detach();
    /// // … in another process, perhaps …
    /// assert!(client.lock("orders/42").release_by(id).await?);
    /// # Ok(()) }
    /// ```
    pub fn detach(self) -> HoldId {
        self.0.detach()
    }
}

/// Runs `work` until `lost` completes. Calls `now` before each poll, because after a suspend the notification of `lost`
/// may come late.
pub(crate) async fn while_held<F: Future>(
    work: F,
    lost: impl Future<Output = Lost>,
    now: impl Fn() -> Option<Lost>,
) -> Result<F::Output> {
    let (mut work, mut lost) = (pin!(work), pin!(lost));
    std::future::poll_fn(|cx| {
        if let Some(lost) = now() {
            return Poll::Ready(Err(lost.into()));
        }
        if let Poll::Ready(lost) = lost.as_mut().poll(cx) {
            return Poll::Ready(Err(lost.into()));
        }
        work.as_mut().poll(cx).map(Ok)
    })
    .await
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("hold", &self.id())
            .field("fence", &self.fence())
            .field("remaining", &self.remaining())
            .finish()
    }
}

impl From<Lost> for std::io::Error {
    fn from(lost: Lost) -> Self {
        Self::other(Error::from(lost))
    }
}
