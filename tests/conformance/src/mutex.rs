//! Adapters: every exclusive primitive as a mutex, so that the mutex cases run on each.

use std::time::Duration;

use tenure::{Client, Election, Family, Fence, Guard, Lock, MultiGuard, MultiLock, Result};

/// An exclusive primitive.
#[derive(Clone)]
pub enum Mutex {
    /// A single lock.
    One(Lock),
    /// A multi-lock.
    Many(MultiLock),
    /// Leadership of an election.
    Leader(Election),
}

/// A hold on a [`Mutex`].
pub enum Held {
    /// One guard.
    One(Guard),
    /// The guards of a multi-lock.
    Many(MultiGuard),
}

/// Creates a [`Mutex`] from a client and a name.
pub type Make = fn(&Client, &str) -> Mutex;

/// All adapters: the name, the families that the store must support, the constructor.
pub const ADAPTERS: &[(&str, &[Family], Make)] = &[
    ("lock", &[Family::Lock], |c, name| Mutex::One(c.lock(name))),
    ("fair", &[Family::Fair], |c, name| Mutex::One(c.lock(name).fair())),
    ("write", &[Family::ReadWrite], |c, name| Mutex::One(c.rwlock(name).write())),
    ("permit", &[Family::Permit], |c, name| Mutex::One(c.semaphore(name, 1).permits(1))),
    ("multi", &[Family::Lock], |c, name| {
        Mutex::Many(tenure::multi([c.lock(name), c.lock(format!("{name}/2"))]))
    }),
    ("leader", &[Family::Leader], |c, name| Mutex::Leader(c.election(name))),
];

impl Mutex {
    /// Waits until it is acquired.
    pub async fn acquire(&self) -> Result<Held> {
        match self {
            Self::One(lock) => lock.acquire().await.map(Held::One),
            Self::Many(locks) => locks.acquire().await.map(Held::Many),
            Self::Leader(election) => election.campaign().await.map(Held::One),
        }
    }

    /// Tries to acquire it without waiting.
    pub async fn try_acquire(&self) -> Result<Option<Held>> {
        Ok(match self {
            Self::One(lock) => lock.try_acquire().await?.map(Held::One),
            Self::Many(locks) => locks.try_acquire().await?.map(Held::Many),
            Self::Leader(election) => election.try_campaign().await?.map(Held::One),
        })
    }

    /// Waits for at most `wait`.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        Ok(match self {
            Self::One(lock) => lock.try_acquire_for(wait).await?.map(Held::One),
            Self::Many(locks) => locks.try_acquire_for(wait).await?.map(Held::Many),
            Self::Leader(election) => election.try_campaign_for(wait).await?.map(Held::One),
        })
    }
}

impl Held {
    /// Whether it is still held.
    pub fn is_held(&self) -> bool {
        match self {
            Self::One(guard) => guard.is_held(),
            Self::Many(guards) => guards.is_held(),
        }
    }

    /// The fence; that of the first member of a multi-lock.
    pub fn fence(&self) -> Option<Fence> {
        match self {
            Self::One(guard) => guard.fence(),
            Self::Many(guards) => guards.guards()[0].fence(),
        }
    }

    /// Releases it.
    pub async fn release(self) -> Result<()> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Many(guards) => guards.release().await,
        }
    }
}
