//! The template of everything that is held: a name, a kind and options.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Client, Guard};
use crate::backend::{
    Claim, Durability, Family, HeldBy, Holder, Kind, Mode, Name, Owner, Released, Renewal, Result, Waiter,
};
use crate::engine::acquire::{Request, Wait};
use crate::engine::core::Core;
use crate::engine::telemetry;

/// A lock, or what behaves like one: the halves of a read/write lock, permits of a semaphore. A template: cheap,
/// without state, to be cloned and used as often as wanted.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let lock = client.lock("orders/42");
///
/// let guard = lock.acquire().await?; // waits; renewed until released
/// assert!(lock.try_acquire().await?.is_none()); // does not wait
/// guard.release().await?;
///
/// let ten_seconds = lock.clone().lease(Duration::from_secs(10)); // never renewed
/// if let Some(guard) = ten_seconds.try_acquire_for(Duration::from_secs(3)).await? {
///     println!("held for {:?}, fence {:?}", guard.remaining(), guard.fence());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct Lock {
    pub(crate) request: Request,
}

impl Lock {
    pub(crate) fn new(client: &Client, name: Result<Name>, kind: Kind) -> Self {
        Self { request: Request::new(&client.engine, name, kind) }
    }

    /// Holds for `lease` and is never renewed. Without one the client's default lease applies, renewed every third of
    /// it until the guard is gone.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.request.lease = Some(lease);
        self
    }

    /// Serves in the order of asking, across all processes. Read/write locks always do.
    pub fn fair(mut self) -> Self {
        if self.request.kind == Kind::Lock {
            self.request.kind = Kind::FairLock;
        }
        self
    }

    /// Acquires for this owner, which enters again what it holds already.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.request.owner = Some(owner.clone());
        self
    }

    /// Ends a hold after this long, however alive its holder is: the guard turns lost and the name is freed.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.request.max_hold = Some(limit);
        self
    }

    /// How many copies must have a grant before it counts; without it as the client's settings say. What one guard of
    /// a hold asked for stays with the hold. A store without copies refuses more than [`Durability::Master`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.request.durability = Some(durability);
        self
    }

    /// Stands in the store by this word instead of a random one, where the store has nothing but a word: on Redis with
    /// `layout=plain`. Whoever knows it can [`release_by`](Lock::release_by) and [`renew_by`](Lock::renew_by) it.
    ///
    /// Nobody else may use the same token for the same name at the same time: those who write such locks by hand
    /// cannot tell the two apart.
    pub fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.request.token = Some(token.into());
        self
    }

    /// A word for people, shown with the holder.
    pub fn note(mut self, note: impl Into<Arc<str>>) -> Self {
        self.request.note = Some(note.into());
        self
    }

    /// Waits until it is held, for as long as others hold it.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` when it has no such kind; `Config` for
    /// a bad name or option; `GaveUp` only on a quorum that was told how often to try
    /// (`QuorumOptions::tries`).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind, neither a hold nor a place in a queue. A future that is not
    /// polled holds nobody up.
    pub async fn acquire(&self) -> Result<Guard> {
        let mut trace = self.request.ask()?;
        loop {
            let got =
                telemetry::inside(trace.span(), pin!(self.request.acquire(Wait::Forever, None, &trace)))
                    .await;
            if let Some(entry) = trace.entry(Wait::Forever, got)? {
                return Ok(Guard::new(entry));
            }
        }
    }

    /// Takes it if it is free. `None` if it is not. Takes no longer than
    /// [`Settings::call_timeout`](crate::Settings::call_timeout).
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.take_by(Wait::No, None).await
    }

    /// Waits for at most `wait`. `None` if others held it until then.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; also when the store has not answered by then, since that nobody knows who holds it is no
    /// reason to say that it is busy. However short the wait, the store is given 200 ms to answer
    /// ([`Settings::call_timeout`](crate::Settings::call_timeout)).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>> {
        self.take_by(Wait::For(wait), None).await
    }

    /// Takes it, where the store must have answered by `limit`, if that comes before the wait allows.
    pub(crate) async fn take_by(&self, wait: Wait, limit: Option<Instant>) -> Result<Option<Guard>> {
        let mut trace = self.request.ask()?;
        let got = telemetry::inside(trace.span(), pin!(self.request.acquire(wait, limit, &trace))).await;
        Ok(trace.entry(wait, got)?.map(Guard::new))
    }

    /// Whether anybody holds it, as the store says.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.holder().await?.is_some())
    }

    /// Who holds it, as the store says: the first if there are several.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holder(&self) -> Result<Option<Holder>> {
        Ok(self.holders().await?.into_iter().next())
    }

    /// All who hold it, as the store says.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        self.request.core().check_open()?;
        Ok(self.request.core().snapshot(self.request.name()?).await?.map_or_else(Vec::new, |s| s.holders))
    }

    /// Who waits for it, as far as the store records it: of a plain lock one per process.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn waiters(&self) -> Result<Vec<Waiter>> {
        self.request.core().check_open()?;
        Ok(self.request.core().snapshot(self.request.name()?).await?.map_or_else(Vec::new, |s| s.waiters))
    }

    /// Asks whoever holds it to give way, and says whether anybody was asked. A holder hears it by
    /// [`Guard::revoked`], one of Curator by its revocation listener; nobody is made to release.
    ///
    /// # Errors
    /// `Unsupported` on a store without such requests: only ZooKeeper has them. `Unavailable` or `Unknown` when the
    /// store does not answer.
    pub async fn revoke(&self) -> Result<bool> {
        let core = self.request.core();
        core.check_open()?;
        let name = self.request.name()?;
        core.ask(|| core.backend.revoke(name, self.request.kind)).await
    }

    /// Takes it from whoever holds it now, and says whether anybody did. The holder learns it at its next renewal or
    /// at its release; the next grant has a larger fence.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn force_release(&self) -> Result<bool> {
        let mut freed = false;
        for holder in self.holders().await? {
            freed |= self.release_from(&holder).await?;
        }
        Ok(freed)
    }

    /// Takes it from one of those whom [`Lock::holders`] has shown, and says whether it still was one. Works also for
    /// a holder of another library, whatever its id looks like.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn release_from(&self, holder: &Holder) -> Result<bool> {
        // Both halves of a read/write lock are taken away through either.
        let mut held_as = self.clone();
        held_as.request.kind = match (holder.mode, self.request.kind) {
            (Mode::Shared, _) => Kind::Read { under_write: None },
            (Mode::Exclusive, Kind::Read { .. }) => Kind::Write,
            (_, kind) => kind,
        };
        match holder.hold_id() {
            Some(id) if !holder.foreign => held_as.release_by(id).await,
            _ => held_as.expel(&holder.id).await,
        }
    }

    async fn expel(&self, holder: &str) -> Result<bool> {
        let core = self.request.core();
        core.check_open()?;
        let name = self.request.name()?;
        tracing::info!(%name, holder, "taken from a holder of another library");
        core.take_away(|| core.backend.expel(name, self.request.kind, holder)).await
    }

    /// Releases a hold by its id or its token, from anywhere, and says whether there was one. Its holder learns it as
    /// from [`Lock::force_release`].
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` for a token where there are none.
    pub async fn release_by(&self, by: impl Into<HeldBy>) -> Result<bool> {
        let claim = self.held_by(by.into())?;
        let core = self.request.core();
        core.take_away(|| core.backend.release(&claim, 0)).await
    }

    /// Extends a hold by its id or its token, from anywhere, for the lease that this lock says, and says whether there
    /// was one. Nothing is shortened.
    ///
    /// # Errors
    /// As [`Lock::release_by`]; `Unsupported` where holds live as long as a session.
    pub async fn renew_by(&self, by: impl Into<HeldBy>) -> Result<bool> {
        let core = self.request.core();
        core.backend.info().require_lease(self.request.name()?)?;
        let lease = self.request.lease.unwrap_or(core.settings.lease);
        let claims = [Arc::new(Claim { lease, ..self.held_by(by.into())? })];
        let unanswered =
            || core.unanswered(format_args!("renew {}", claims[0].name), core.settings.call_timeout);
        core.ask(async || match core.backend.renew(&claims).await?[..] {
            [Renewal::Unanswered] => Err(unanswered()),
            [Renewal::Held { .. }] => Ok(true),
            _ => Ok(false),
        })
        .await
    }

    fn held_by(&self, by: HeldBy) -> Result<Claim> {
        let core = self.request.core();
        core.check_open()?;
        let (name, kind) = (self.request.name()?, self.request.kind);
        core.backend.info().require(kind.family())?;
        tracing::info!(%name, %by, "asked for without its guard");
        Ok(match by {
            HeldBy::Hold(id) => Claim::of(id, name.clone(), kind),
            HeldBy::Token(token) => {
                core.backend.info().require_token(&token)?;
                Claim::of_token(token, name.clone(), kind)
            }
        })
    }

    /// The name, if it is a good one.
    ///
    /// # Errors
    /// `Config` if not.
    pub fn name(&self) -> Result<&Name> {
        self.request.name()
    }

    /// What it is.
    pub fn family(&self) -> Family {
        self.request.kind.family()
    }
}

impl Core {
    /// Whether what a release was about was there, however often it had to be sent.
    async fn take_away<F: Future<Output = Result<Released>>>(
        self: &Arc<Self>,
        release: impl Fn() -> F,
    ) -> Result<bool> {
        let sent = AtomicBool::new(false);
        self.ask(async || {
            let before = sent.load(Relaxed);
            match release().await {
                // The one that was not answered has freed it.
                Ok(Released::Gone) => Ok(before),
                Ok(Released::Freed) => Ok(true),
                Err(error) => {
                    sent.fetch_or(error.is_unknown(), Relaxed);
                    Err(error)
                }
            }
        })
        .await
    }
}
