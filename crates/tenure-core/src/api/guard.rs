//! The proof of a hold, which knows when it is lost.

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

/// Something held. Releasing or dropping it lets the next one in.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// let total = guard.while_held(async { 40 + 2 }).await?; // ends early if the lock is lost
/// assert_eq!(total, 42);
/// guard.release().await
/// # }
/// ```
///
/// Dropping never blocks and needs no runtime: the release goes on in the background.
#[must_use = "dropping a guard releases what it holds"]
pub struct Guard(Entry);

impl Guard {
    pub(crate) fn new(entry: Entry) -> Self {
        Self(entry)
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.0.hold()
    }

    /// What is held.
    pub fn name(&self) -> &Name {
        &self.hold().claim.name
    }

    /// The identity of the hold in the store. A permit can be renewed and released by it.
    pub fn id(&self) -> HoldId {
        self.hold().claim.id
    }

    /// The fencing token: larger than that of every earlier grant of this name. `None` where the store has none.
    /// Pass it along with each effect, and let what is protected refuse a smaller one.
    pub fn fence(&self) -> Option<Fence> {
        self.hold().fence
    }

    /// For how long it is certain to be held, by this machine's own clock. Zero when lost.
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// Whether it is certain to be held at this moment.
    pub fn is_held(&self) -> bool {
        self.hold().is_held()
    }

    /// How many guards this owner has on this hold.
    pub fn holds(&self) -> u32 {
        self.hold().guards()
    }

    /// Fails unless it is certain to be held for another `d`: ask before an effect that takes that long.
    ///
    /// # Errors
    /// `Lost` when it is lost already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.hold().ensure(d)
    }

    /// What is held, to be asked by those who do not hold it.
    pub fn held(&self) -> Held {
        Held(self.hold().clone())
    }

    /// Waits until it is lost. Never returns while it is held.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn lost(&self) -> Lost {
        self.hold().wait_lost().await
    }

    /// Runs `work` as long as it is held, and drops it when it is lost. The clock is looked at before each step, so
    /// that work does not go on after the machine was asleep.
    ///
    /// # Errors
    /// `Lost` when it was lost before the work was done.
    ///
    /// # Cancel safety
    /// As safe as `work` is.
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        while_held(work, self.lost(), || self.hold().lost()).await
    }

    /// Waits until somebody asks the holder to give way, with [`Lock::revoke`](crate::Lock::revoke) or as Curator
    /// does. Returns at once if that has happened. Nothing is taken away: it is for the holder to release.
    ///
    /// # Errors
    /// `Unsupported` on a store without such requests: only ZooKeeper has them. `Unavailable` or `Unknown` when the
    /// store does not answer.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn revoked(&self) -> Result<()> {
        let core = self.0.core();
        let mut watch = core.ask(|| core.backend.revoked(&self.hold().claim)).await?;
        watch.signal().await;
        Ok(())
    }

    /// Releases it, and says whether it was still held.
    ///
    /// # Errors
    /// `Lost` when it had ended before: then nothing was changed in the store, whoever holds it now. `Unavailable` or
    /// `Unknown` when the store did not answer until the lease was over.
    ///
    /// # Cancel safety
    /// Dropping the future does not keep it: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }

    /// Gives the guard up without releasing: the hold is not renewed any more and ends with its lease, or when it is
    /// released by its id. Where the owner has other guards on the hold, they go on as if this one were released.
    ///
    /// Where holds live as long as a session, it ends with the client at the latest.
    pub fn detach(self) -> HoldId {
        self.0.detach()
    }
}

/// Runs `work` until `lost` comes, asking `now` before each step: whoever tells of the loss may have slept too.
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
