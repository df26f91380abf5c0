//! Several locks, all or nothing. Never waits while holding: it waits for one and tries the rest; if one of those is
//! busy it releases everything and waits for that one first. So no lock order is needed, across any stores and
//! processes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::api::guard::while_held;
use crate::api::{Guard, Lock};
use crate::backend::{Backoff, Error, Fence, Lost, Name, Result};
use crate::engine::core::Core;
use crate::engine::in_flight::{InFlight, Ran, Undo};
use crate::engine::limit::Wait;

/// Combines several locks into one: any kinds, from one client or several. No common order is needed.
///
/// ```
/// # use tenure_core as tenure;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let both = tenure::multi([client.lock("from"), client.lock("to")]);
/// let guard = both.acquire().await?;
/// assert_eq!(guard.fences().len(), 2);
/// guard.release().await
/// # }
/// ```
pub fn multi(locks: impl IntoIterator<Item = Lock>) -> MultiLock {
    MultiLock { locks: locks.into_iter().collect() }
}

/// Several locks that are acquired together, all or none; made by [`multi`].
///
/// ```
/// # use tenure_core as tenure;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let both = tenure::multi([client.lock("from"), client.rwlock("to").write()]);
/// let guard = both.acquire().await?;
/// assert!(both.try_acquire().await?.is_none()); // does not wait
/// assert!(both.try_acquire_for(Duration::from_millis(10)).await?.is_none());
/// # guard.release().await }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is acquired"]
pub struct MultiLock {
    locks: Vec<Lock>,
}

impl MultiLock {
    /// Acquires all, waiting as long as others hold one of them.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; what was already taken is released. `Config` if there are no locks, or one name twice.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        loop {
            if let Some(guard) = self.take(None).await? {
                return Ok(guard);
            }
        }
    }

    /// Acquires all if all are free; `None` if one is not.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        self.check()?;
        loop {
            match self.complete(None, None).await? {
                Round::All(guard) => return Ok(Some(guard)),
                Round::Busy(_) => return Ok(None),
                Round::Over { member, .. } => return Err(self.too_slow(member)),
                Round::Left => {}
            }
        }
    }

    /// Acquires all, waiting for at most `wait`; `None` if they were not all free by then.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<MultiGuard>> {
        self.take(Instant::now().checked_add(wait)).await
    }

    async fn take(&self, deadline: Option<Instant>) -> Result<Option<MultiGuard>> {
        self.check()?;
        let mut busy = 0;
        let mut over = 0;
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));
        loop {
            let waited = match deadline {
                None => self.locks[busy].take_by(Wait::Forever, None, None).await?,
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    self.locks[busy].take_by(Wait::For(left), None, None).await?
                }
            };
            let Some(first) = waited else { return Ok(None) };
            match self.complete(Some((busy, first)), deadline).await? {
                Round::All(guard) => return Ok(Some(guard)),
                Round::Busy(other) => (busy, over) = (other, 0),
                // Starting with the slowest member gives the leases of the others a better chance to last until the
                // end.
                Round::Over { slowest, .. } if over < ROUNDS => (busy, over) = (slowest, over + 1),
                Round::Over { member, .. } => return Err(self.too_slow(member)),
                Round::Left => {}
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return Ok(None);
            }
            // Random backoff, or two callers that take each other's locks would collide again and again.
            let core = self.locks[busy].request.core();
            core.sleep(backoff.failed_by(core.chance())).await?;
        }
    }

    /// Takes the rest, in addition to the one that was waited for. Guards taken so far are renewed meanwhile; if nobody
    /// polls the future any more, all of them are released.
    async fn complete(&self, first: Option<(usize, Guard)>, deadline: Option<Instant>) -> Result<Round> {
        let held = first.as_ref().map(|(i, _)| *i);
        let basket = Basket(Arc::new(Mutex::new(first.into_iter().collect())));
        let patience = self.locks.iter().map(|l| l.request.patience()).min().unwrap_or_default();
        let mut round = InFlight::new(self.locks[0].request.core(), &basket);
        let wait = if held.is_some() { Wait::ForOthers } else { Wait::No };
        let others = self.try_others(held, wait, deadline, &basket);
        let Ran::Done(tried) = round.run(None, patience, others).await? else {
            return Ok(Round::Left);
        };
        let Others { busy, slowest } = tried?;
        round.keep();
        let guards = basket.take();
        if let Some(other) = busy {
            give_back(guards).await;
            return Ok(Round::Busy(other));
        }
        // The lease of the first may have ended while the others were taken.
        let over = guards.iter().find(|(_, guard)| !guard.is_held()).map(|(i, _)| *i);
        if let Some(member) = over {
            give_back(guards).await;
            return Ok(Round::Over { member, slowest });
        }
        Ok(Round::All(self.in_order(guards)))
    }

    fn in_order(&self, mut guards: Vec<(usize, Guard)>) -> MultiGuard {
        guards.sort_by_key(|(i, _)| *i);
        MultiGuard { guards: guards.into_iter().map(|(i, guard)| self.locks[i].granted(guard)).collect() }
    }

    async fn try_others(
        &self,
        held: Option<usize>,
        wait: Wait,
        deadline: Option<Instant>,
        basket: &Basket,
    ) -> Result<Others> {
        let mut slowest = (Duration::ZERO, 0);
        for (i, lock) in self.locks.iter().enumerate().filter(|(i, _)| Some(*i) != held) {
            let asked = Instant::now();
            match lock.take_by(wait, deadline, None).await? {
                Some(guard) => basket.lock().push((i, guard)),
                None => {
                    self.not_our_own(lock, basket).await?;
                    return Ok(Others { busy: Some(i), slowest: i });
                }
            }
            slowest = slowest.max((asked.elapsed(), i));
        }
        Ok(Others { busy: None, slowest: slowest.1 })
    }

    /// The error for a member whose lease ended before all others were taken.
    fn too_slow(&self, member: usize) -> Error {
        let lock = &self.locks[member];
        let name = lock.name().map_or_else(|_| String::new(), ToString::to_string);
        let others = "its lease ended before the others were taken: give it a longer one";
        lock.request.core().backend.info().unavailable(format!("acquire {name} with others"), others)
    }

    /// Fails if `busy` is held by one of our own guards: two clients of one store look like clients of two stores until
    /// they conflict.
    async fn not_our_own(&self, busy: &Lock, basket: &Basket) -> Result<()> {
        let name = busy.name()?;
        let same: Vec<_> = basket
            .lock()
            .iter()
            .filter(|(_, g)| g.name() == name)
            .map(|(_, g)| Some(g.hold().claim.id))
            .collect();
        if !same.is_empty() && busy.holders().await?.iter().any(|h| same.contains(&h.hold_id())) {
            return Err(twice(name));
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.locks.is_empty() {
            return Err(Error::Config("a multi-lock needs at least one lock".into()));
        }
        let mut seen = HashSet::new();
        for lock in &self.locks {
            let name = lock.name()?;
            let store = Arc::as_ptr(&lock.request.core().backend).cast::<()>();
            if !seen.insert((store, name)) {
                return Err(twice(name));
            }
        }
        Ok(())
    }
}

/// How many rounds may fail because a lease ended before that is an error: a store may be slow for a moment.
const ROUNDS: u32 = 3;

/// How a round ended.
enum Round {
    All(MultiGuard),
    /// This member is busy; nothing is held.
    Busy(usize),
    /// The lease of a member ended before all were taken; nothing is held.
    Over {
        member: usize,
        slowest: usize,
    },
    /// The future was not polled for too long; nothing is held, start again.
    Left,
}

/// The result of trying the other members.
struct Others {
    busy: Option<usize>,
    /// The member that took longest.
    slowest: usize,
}

/// The guards of a round so far, shared so that they can be released if the future is no longer polled.
#[derive(Clone)]
struct Basket(Arc<Mutex<Vec<(usize, Guard)>>>);

impl Basket {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(usize, Guard)>> {
        self.0.lock().unwrap()
    }

    fn take(&self) -> Vec<(usize, Guard)> {
        std::mem::take(&mut *self.lock())
    }
}

impl Undo for Basket {
    fn undo(self, _: &Arc<Core>) {
        drop(self.take());
    }
}

fn twice(name: &Name) -> Error {
    Error::Config(format!("a multi-lock cannot have {name} twice: it would wait for itself"))
}

/// Releases all guards concurrently, so that none is renewed after the first poll. A release that fails is finished in
/// the background.
async fn give_back(guards: Vec<(usize, Guard)>) {
    join_all(guards.into_iter().map(|(_, guard)| guard.release())).await;
}

/// The guard of a [`MultiLock`]: several holds as one.
///
/// ```
/// # use tenure_core as tenure;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let guard = tenure::multi([client.lock("from"), client.lock("to")]).acquire().await?;
/// assert!(guard.is_held() && guard.remaining() > Duration::from_secs(5));
/// guard.guards()[0].ensure(Duration::from_secs(5))?;
/// for (name, fence) in guard.fences() {
///     println!("{name}: pass {fence:?} along with each write");
/// }
/// guard.while_held(async { /* ends early if one of them is lost */ }).await?;
/// tokio::select! {
///     lost = guard.lost() => eprintln!("stopped: {lost}"),
///     () = async { /* work */ } => guard.release().await?,
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping a guard releases what it holds"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiGuard {
    /// Returns the guards, in the order of the locks.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the fence of each lock.
    pub fn fences(&self) -> Vec<(&Name, Option<Fence>)> {
        self.guards.iter().map(|g| (g.name(), g.fence())).collect()
    }

    /// Whether all are certain to be held now.
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Returns how long all are certain to be held.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Waits until one of them is lost.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn lost(&self) -> Lost {
        let each = self.guards.iter().map(|g| Box::pin(g.lost()));
        futures_util::future::select_all(each).await.0
    }

    /// Runs `work` while all are held, and drops `work` when one is lost.
    ///
    /// # Errors
    /// `Lost` if one was lost before the work was done.
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        while_held(work, self.lost(), || self.guards.iter().find_map(|g| g.hold().lost())).await
    }

    /// Releases all, even if one fails.
    ///
    /// # Errors
    /// The only error, or `Several`.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the release: the rest is released in the background.
    pub async fn release(self) -> Result<()> {
        // Concurrently, because guards whose turn came later would still be renewed until then.
        all(join_all(self.guards.into_iter().map(Guard::release)).await)
    }

    /// Releases all after work was done under them; see [`Guard::finish`].
    #[doc(hidden)]
    pub async fn finish(self) -> Result<()> {
        all(join_all(self.guards.into_iter().map(Guard::finish)).await)
    }
}

fn all(released: Vec<Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = released.into_iter().filter_map(Result::err).collect();
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(Error::Several(errors)),
    }
}
