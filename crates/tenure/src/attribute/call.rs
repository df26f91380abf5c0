//! One call of an annotated function: acquires its locks, runs its body, and releases.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Client, Error, Guard, Kind, Lock, MultiGuard, Name, Owner, Result, multi};

use super::call_stack::{CallLocks, HeldLock, InFrame, innermost_frame, run_in_frame};
use crate::blocking::block_on;

/// The locks and limits that a call requests.
#[derive(Debug)]
pub struct Call {
    client: Result<Client>,
    names: Result<Vec<Name>>,
    kind: Kind,
    wait: Option<Duration>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    at_least: Option<Duration>,
}

/// The outcome of acquiring.
pub enum Acquisition {
    /// The body may run.
    Held(HeldCall),
    /// Others held it for the whole wait.
    Busy(Error),
    /// It is unknown whether it is free: the store failed, or the request is invalid.
    Failed(Error),
}

/// What happens to the body when the lock is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLost {
    /// It is dropped.
    Cancel,
    /// It runs to its end.
    Finish,
}

impl Call {
    /// A call that takes these names, with this client.
    pub fn new(client: Result<Client>, names: Result<Vec<Name>>) -> Self {
        Self { client, names, kind: Kind::Lock, wait: None, lease: None, max_hold: None, at_least: None }
    }

    /// Sets the kind of lock.
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Sets how long to wait; without it, the call waits forever.
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// See [`Lock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// See [`Lock::max_hold`].
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { max_hold: Some(limit), ..self }
    }

    /// See [`Lock::at_least`].
    pub fn at_least(self, least: Duration) -> Self {
        Self { at_least: Some(least), ..self }
    }

    fn lock(&self, client: &Client, name: &Name, owner: &Owner) -> Lock {
        let name = name.as_str();
        let mut lock = match self.kind {
            Kind::FairLock => client.lock(name).fair(),
            Kind::Read { .. } => client.rwlock(name).read(),
            Kind::Write => client.rwlock(name).write(),
            Kind::Permit { n, limit } => client.semaphore(name, limit).permits(n),
            _ => client.lock(name),
        };
        if let Some(lease) = self.lease {
            lock = lock.lease(lease);
        }
        if let Some(limit) = self.max_hold {
            lock = lock.max_hold(limit);
        }
        if let Some(least) = self.at_least {
            lock = lock.at_least(least);
        }
        lock.owner(owner)
    }

    /// Takes all names, or none. Re-enters names that an enclosing call holds; takes all others as a new owner, so
    /// that concurrent calls exclude each other.
    async fn acquire(&self) -> Result<Option<HeldCall>> {
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let names = self.names.as_ref().map_err(Clone::clone)?;
        let outer = innermost_frame();
        let owner = |name| outer.as_ref().and_then(|o| o.owner(client.id(), name).cloned());
        let owners: Vec<Owner> = names.iter().map(|name| owner(name).unwrap_or_else(Owner::new)).collect();
        let locks = names.iter().zip(&owners).map(|(name, owner)| self.lock(client, name, owner)).collect();
        let Some(guards) = Guards::acquire(locks, self.wait).await? else { return Ok(None) };
        let held = guards.each().iter().map(Guard::held);
        let held =
            owners.into_iter().zip(held).map(|(owner, held)| HeldLock { client: client.id(), owner, held });
        let locks = Arc::new(CallLocks(held.collect()));
        Ok(Some(HeldCall(Some((guards, locks)))))
    }

    fn busy(&self) -> Error {
        let names = self.names.iter().flatten().map(Name::as_str).collect::<Vec<_>>().join(", ");
        Error::Busy {
            backend: self.client.as_ref().map_or("tenure", |c| c.backend().info().scheme),
            what: format!("acquire {names}"),
            waited: self.wait.unwrap_or_default(),
        }
    }
}

/// Acquires the locks of `call`. `None` means that there is nothing to lock.
pub async fn acquire(call: Option<Call>) -> Acquisition {
    let Some(call) = call else { return Acquisition::Held(HeldCall(None)) };
    match call.acquire().await {
        Ok(Some(held)) => Acquisition::Held(held),
        Ok(None) => Acquisition::Busy(call.busy()),
        Err(error) => Acquisition::Failed(error),
    }
}

/// Blocking version of [`acquire`].
///
/// # Panics
/// On a thread that runs async tasks.
#[track_caller]
pub fn acquire_blocking(call: Option<Call>) -> Acquisition {
    block_on(async { Ok(acquire(call).await) }).unwrap_or_else(Acquisition::Failed)
}

/// A call that holds its locks.
pub struct HeldCall(Option<(Guards, Arc<CallLocks>)>);

impl HeldCall {
    /// Runs the body, then releases. The body is always dropped before the release, however it ends.
    pub async fn run<F: Future + Unpin>(self, on_lost: OnLost, body: F) -> BodyResult<F::Output> {
        let Some((guards, locks)) = self.0 else {
            return BodyResult { value: Some(body.await), error: None };
        };
        let body = InFrame { locks, body };
        let value = match on_lost {
            OnLost::Finish => body.await,
            OnLost::Cancel => match guards.while_held(body).await {
                Ok(value) => value,
                Err(lost) => return BodyResult { value: None, error: Some(lost) },
            },
        };
        BodyResult { value: Some(value), error: guards.finish().await.err() }
    }

    /// Blocking version of [`HeldCall::run`]. A thread cannot be cancelled: the body always runs to its end.
    #[track_caller]
    pub fn run_blocking<R>(self, body: impl FnOnce() -> R) -> BodyResult<R> {
        let Some((guards, locks)) = self.0 else { return BodyResult { value: Some(body()), error: None } };
        let value = run_in_frame(&locks, body);
        BodyResult { value: Some(value), error: block_on(guards.finish()).err() }
    }
}

/// How the body ended.
#[derive(Debug)]
pub struct BodyResult<R> {
    /// What it returned, or `None` if it was cancelled.
    pub(super) value: Option<R>,
    /// Set if the lock was lost meanwhile.
    pub(super) error: Option<Error>,
}

/// The guards of one call.
enum Guards {
    One(Guard),
    Several(MultiGuard),
}

impl Guards {
    async fn acquire(mut locks: Vec<Lock>, wait: Option<Duration>) -> Result<Option<Self>> {
        if locks.len() == 1 {
            let lock = locks.remove(0);
            let guard = match wait {
                None => Some(lock.acquire().await?),
                Some(Duration::ZERO) => lock.try_acquire().await?,
                Some(wait) => lock.try_acquire_for(wait).await?,
            };
            return Ok(guard.map(Self::One));
        }
        let all = multi(locks);
        let guard = match wait {
            None => Some(all.acquire().await?),
            Some(Duration::ZERO) => all.try_acquire().await?,
            Some(wait) => all.try_acquire_for(wait).await?,
        };
        Ok(guard.map(Self::Several))
    }

    fn each(&self) -> &[Guard] {
        match self {
            Self::One(guard) => std::slice::from_ref(guard),
            Self::Several(guards) => guards.guards(),
        }
    }

    async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        match self {
            Self::One(guard) => guard.while_held(work).await,
            Self::Several(guards) => guards.while_held(work).await,
        }
    }

    async fn finish(self) -> Result<()> {
        match self {
            Self::One(guard) => guard.finish().await,
            Self::Several(guards) => guards.finish().await,
        }
    }
}
