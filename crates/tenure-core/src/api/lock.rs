//! The template for everything that can be held: a name, a kind and options.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Client, Guard};
use crate::backend::{
    Claim, Durability, Error, Family, HeldBy, Holder, Kind, Mode, Name, Owner, Released, Renewal, Result,
    Waiter,
};
use crate::engine::acquire::Request;
use crate::engine::core::Core;
use crate::engine::limit::Wait;

/// A lock, or what is acquired like one: a half of a read/write lock, permits of a semaphore. It is a template, a name
/// with options: cheap to clone, without state, and usable any number of times.
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
///
/// Options are set before it is acquired:
///
/// ```
/// # use tenure_core as tenure;
/// # use std::time::Duration;
/// use tenure::{Durability, Owner};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let me = Owner::new();
/// let lock = client.lock("reports").fair().owner(&me).note("nightly run");
/// let lock = lock.max_hold(Duration::from_secs(600)).durability(Durability::Master);
/// let lock = lock.at_least(Duration::from_secs(1)); // although it is released earlier
/// let outer = lock.acquire().await?;
/// let inner = lock.acquire().await?; // the same owner enters again
/// # inner.release().await?; outer.release().await }
/// ```
///
/// Tools can see who holds it, and take it away:
///
/// ```
/// # use tenure_core as tenure;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// # let guard = client.lock("orders/42").note("order service").acquire().await?;
/// let lock = client.lock("orders/42");
/// if lock.is_locked().await? {
///     println!("the {} {} has {} waiters", lock.family(), lock.name()?, lock.waiters().await?.len());
/// }
/// for holder in lock.holders().await? {
///     if holder.note.as_deref() == Some("order service") {
///         lock.release_from(&holder).await?;
///     }
/// }
/// assert!(lock.holder().await?.is_none());
/// assert!(!lock.force_release().await?); // nobody is left
/// assert!(guard.release().await.unwrap_err().is_lost());
///
/// let id = lock.acquire().await?.detach(); // to be kept alive and released by its id
/// assert!(lock.clone().lease(Duration::from_secs(60)).renew_by(id).await?);
/// assert!(lock.release_by(id).await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct Lock {
    pub(crate) request: Request,
    at_least: Option<Duration>,
}

impl Lock {
    pub(crate) fn new(client: &Client, name: Result<Name>, kind: Kind) -> Self {
        Self { request: Request::new(&client.engine, name, kind), at_least: None }
    }

    /// Holds it for `lease`, without renewal. By default the lease of the client's settings applies, and is renewed each
    /// time a third of it has passed, until the guard is gone.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.request.lease = Some(lease);
        self
    }

    /// Serves waiters in FIFO order, across all processes. Read/write locks always do.
    pub fn fair(mut self) -> Self {
        if self.request.kind == Kind::Lock {
            self.request.kind = Kind::FairLock;
        }
        self
    }

    /// Acquires for this owner, which can re-enter what it already holds.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.request.owner = Some(owner.clone());
        self
    }

    /// Ends a hold after this long, even if its holder is alive: the guard becomes lost and the name is freed, unless it
    /// has a longer minimum ([`Guard::keep_at_least`]).
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.request.max_hold = Some(limit);
        self
    }

    /// Keeps it held for at least this long from the grant on, even if its guard is released, dropped or lost earlier, if
    /// its client is closed, and if its process is killed: so that work which takes a moment is not done again by a
    /// machine whose clock is a little behind. If the process has ended, it may last longer by up to the lease, which is
    /// this minimum or 5 s if the default lease is longer.
    ///
    /// The guard itself counts as held, and becomes lost, as it would without a minimum. The store forgets the minimum if
    /// it loses its data or the name is taken away by force.
    ///
    /// Refused where a hold ends with its process (ZooKeeper), on a quorum if it is longer than `max_lease`, and together
    /// with a shorter [`lease`](Lock::lease) or [`max_hold`](Lock::max_hold).
    pub fn at_least(mut self, least: Duration) -> Self {
        self.at_least = Some(least);
        self.renewed_for(least)
    }

    /// Renews it with a lease not longer than `longest`, so that without its process it does not last much longer than
    /// that. Renewal needs a few seconds in any case.
    pub(crate) fn renewed_for(mut self, longest: Duration) -> Self {
        const SHORTEST: Duration = Duration::from_secs(5);
        let longest = longest.max(SHORTEST);
        let longest = self.request.longest_lease.map_or(longest, |before| before.min(longest));
        self.request.longest_lease = Some(longest);
        self
    }

    /// Sets how many copies must have stored a grant before it counts; the client's settings have the default. If an
    /// owner enters again with another value, the higher one applies to the hold. A store without replicas refuses more
    /// than [`Durability::Master`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.request.durability = Some(durability);
        self
    }

    /// Identifies the holder in the store by this token instead of a random one. Only for stores whose lock is a single
    /// value: Redis with `layout=plain`, and RedLock, whose nodes have that layout by default. Anyone with the token can
    /// [`release_by`](Lock::release_by) and [`renew_by`](Lock::renew_by) it.
    ///
    /// Nobody else may use the same token for the same name at the same time: in this layout the two holders are
    /// indistinguishable.
    ///
    /// ```
    /// # use tenure_core as tenure;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// # let client = tenure::Client::new(tenure::Memory::new());
    /// match client.lock("deploy").token("pipeline-7").try_acquire().await {
    ///     Ok(guard) => println!("acquired: {}", guard.is_some()),
    ///     Err(tenure::Error::Unsupported { .. }) => println!("this store has no tokens"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.request.token = Some(token.into());
        self
    }

    /// Sets a note that is shown to people with the holder.
    pub fn note(mut self, note: impl Into<Arc<str>>) -> Self {
        self.request.note = Some(note.into());
        self
    }

    /// Acquires it, waiting as long as others hold it.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` when it does not support the kind;
    /// `Config` for a bad name or option; `GaveUp` only on a quorum with a limited number of attempts
    /// (`QuorumOptions::tries`).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves neither a hold nor a queue position behind. A future that is not polled does
    /// not block other waiters.
    pub async fn acquire(&self) -> Result<Guard> {
        loop {
            if let Some(guard) = self.take_by(Wait::Forever, None, self.at_least).await? {
                return Ok(self.granted(guard));
            }
        }
    }

    /// Acquires it if it is free; `None` if it is not. Fails at once if connections to the store are refused, and takes
    /// no longer than [`Settings::call_timeout`](crate::Settings::call_timeout) and the store's own timeout for the
    /// request that is in flight then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.take_by(Wait::No, None, self.at_least).await?.map(|guard| self.granted(guard)))
    }

    /// Acquires it, waiting for at most `wait`; `None` if others held it until then.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; also when the store has not answered by then, so that it is not known whether others hold
    /// it. However short the wait, the store is given 200 ms to answer
    /// ([`Settings::call_timeout`](crate::Settings::call_timeout)).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>> {
        Ok(self.take_by(Wait::For(wait), None, self.at_least).await?.map(|guard| self.granted(guard)))
    }

    /// Acquires it; the store keeps it for `least`. The store must have answered by `limit`, if that is earlier than the
    /// deadline that `wait` implies. The caller decides whether the guard counts, and only then calls [`Lock::granted`].
    pub(crate) async fn take_by(
        &self,
        wait: Wait,
        limit: Option<Instant>,
        least: Option<Duration>,
    ) -> Result<Option<Guard>> {
        self.check_at_least()?;
        let mut trace = self.request.ask()?;
        // Pinned here, because this future is large and moving it costs more than the telemetry.
        let got = trace.span().around(pin!(self.request.acquire(wait, limit, least, &trace))).await;
        Ok(trace.entry(wait, got)?.map(Guard::new))
    }

    /// Fails if it cannot be held for its minimum time.
    fn check_at_least(&self) -> Result<()> {
        let Some(least) = self.at_least else { return Ok(()) };
        self.request.core().backend.info().require_at_least(least)?;
        let shorter = |limit: Option<Duration>| limit.filter(|limit| *limit < least);
        let what = match (shorter(self.request.lease), shorter(self.request.max_hold)) {
            (Some(lease), _) => format!("a lease of {lease:?}, which is not renewed,"),
            (None, Some(limit)) => format!("max_hold (at_most) of {limit:?}"),
            (None, None) => return Ok(()),
        };
        Err(Error::Config(format!("{what} is shorter than at_least of {least:?}")))
    }

    /// Starts the minimum time of a grant that its caller gets.
    pub(crate) fn granted(&self, guard: Guard) -> Guard {
        if let Some(least) = self.at_least {
            guard.keep(least);
        }
        guard
    }

    /// Whether anybody holds it, according to the store.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.holder().await?.is_some())
    }

    /// Returns the holder according to the store; the first one if there are several.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holder(&self) -> Result<Option<Holder>> {
        Ok(self.holders().await?.into_iter().next())
    }

    /// Returns all holders according to the store.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        self.request.core().check_open()?;
        Ok(self.request.core().snapshot(self.request.name()?).await?.map_or_else(Vec::new, |s| s.holders))
    }

    /// Returns the waiters that the store records; for a plain lock that is one per process.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn waiters(&self) -> Result<Vec<Waiter>> {
        self.request.core().check_open()?;
        Ok(self.request.core().snapshot(self.request.name()?).await?.map_or_else(Vec::new, |s| s.waiters))
    }

    /// Asks the holder to release it, and returns whether anybody was asked. A guard receives the request through
    /// [`Guard::revoked`], a Curator client through its revocation listener; nobody is forced to release.
    ///
    /// ```
    /// # use tenure_core as tenure;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// # let client = tenure::Client::new(tenure::Memory::new());
    /// match client.lock("deploy").revoke().await {
    ///     Ok(asked) => println!("asked: {asked}"),
    ///     Err(tenure::Error::Unsupported { .. }) => println!("this store cannot ask a holder"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Unsupported` on a store without such requests: only ZooKeeper has them. `Unavailable` or `Unknown` when the
    /// store does not answer.
    pub async fn revoke(&self) -> Result<bool> {
        let core = self.request.core();
        core.check_open()?;
        let name = self.request.name()?;
        let admin = core.backend.require_admin()?;
        core.ask(|| admin.revoke(name, self.request.kind)).await
    }

    /// Takes it from all current holders, and returns whether there were any. A holder notices at its next renewal or
    /// release; the next grant has a larger fence.
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

    /// Takes it from one of the holders returned by [`Lock::holders`], and returns whether it still was a holder. Also
    /// works for a holder of another library, whatever its id looks like.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer.
    pub async fn release_from(&self, holder: &Holder) -> Result<bool> {
        // Either half of a read/write lock can be used to release holders of both.
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
        let admin = core.backend.require_admin()?;
        tracing::info!(%name, holder, "taken from a holder of another library");
        core.take_away(|| admin.expel(name, self.request.kind, holder)).await
    }

    /// Releases a hold by its id or its token, from any process, and returns whether there was one. Its holder notices
    /// at its next renewal or release.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` for a token on a store without tokens.
    pub async fn release_by(&self, by: impl Into<HeldBy>) -> Result<bool> {
        let claim = self.held_by(by.into())?;
        let core = self.request.core();
        core.take_away(|| core.backend.release(&claim, 0)).await
    }

    /// Extends a hold by its id or its token, from any process, to the lease of this template from now, and returns
    /// whether there was one. Never shortens it.
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

    /// Returns the name, if it is valid.
    ///
    /// # Errors
    /// `Config` if it is not.
    pub fn name(&self) -> Result<&Name> {
        self.request.name()
    }

    /// Returns what it is: a lock, a fair lock, a read/write lock or permits of a semaphore.
    pub fn family(&self) -> Family {
        self.request.kind.family()
    }
}

impl Core {
    /// Sends a release, with retries, and returns whether it freed something.
    async fn take_away<F: Future<Output = Result<Released>>>(
        self: &Arc<Self>,
        release: impl Fn() -> F,
    ) -> Result<bool> {
        let sent = AtomicBool::new(false);
        self.ask(async || {
            let before = sent.load(Relaxed);
            match release().await {
                // An earlier send that was not answered has freed it.
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
