//! Maps a kind and a name to a primitive, and to the hold on it.
//!
//! A kind is a word, some with more behind colons: `permit:MAX:N`, `leader:NOTE`.

use std::time::Duration;

use tenure::{Client, CountingSemaphore, Election, Guard, Lock, MultiGuard, MultiLock, Owner};

use super::Wrong;
use super::verbs::{number, unknown};

pub(super) enum Template {
    One(Lock),
    All(MultiLock),
    Leader(Election),
    Counted(CountingSemaphore),
}

pub(super) enum Held {
    One(Guard),
    All(MultiGuard),
    Counted(CountingSemaphore),
}

impl Template {
    /// Without a lease, that of the URL applies.
    pub(super) fn new(
        client: &Client,
        owner: &Owner,
        kind: &str,
        name: &str,
        lease: Option<Duration>,
    ) -> Result<Self, Wrong> {
        let words: Vec<&str> = kind.split(':').collect();
        let size = |n: usize| words.get(n).map_or(Ok(1), |word| number(word).map(|n| n as u32));
        let lock = match words[0] {
            // Which fence a lock has depends on the URL.
            "plain" | "fenced" => client.lock(name),
            "fair" => client.lock(name).fair(),
            "read" => client.rwlock(name).read(),
            "write" => client.rwlock(name).write(),
            "permit" => client.semaphore(name, size(1)?).permits(size(2)?),
            "semaphore" => return Ok(Self::Counted(client.counting_semaphore(name))),
            "leader" => {
                let election = client.election(name);
                return Ok(Self::Leader(match words.get(1) {
                    Some(note) => election.note(*note),
                    None => election,
                }));
            }
            "multi" => {
                let locks = name.split(',').map(|name| with(client.lock(name), owner, lease));
                return Ok(Self::All(tenure::multi(locks)));
            }
            _ => return Err(unknown(kind)),
        };
        Ok(Self::One(with(lock, owner, lease)))
    }

    /// Waits until it is acquired.
    pub(super) async fn enter(&self) -> Result<Held, Wrong> {
        Ok(match self {
            Self::One(lock) => Held::One(lock.acquire().await?),
            Self::All(locks) => Held::All(locks.acquire().await?),
            Self::Leader(election) => Held::One(election.campaign().await?),
            Self::Counted(semaphore) => {
                semaphore.acquire(1).await?;
                Held::Counted(semaphore.clone())
            }
        })
    }

    /// Waits for at most `wait`.
    pub(super) async fn attempt(&self, wait: Duration) -> Result<Option<Held>, Wrong> {
        let now = wait.is_zero();
        Ok(match self {
            Self::One(lock) if now => lock.try_acquire().await?.map(Held::One),
            Self::One(lock) => lock.try_acquire_for(wait).await?.map(Held::One),
            Self::All(locks) if now => locks.try_acquire().await?.map(Held::All),
            Self::All(locks) => locks.try_acquire_for(wait).await?.map(Held::All),
            Self::Leader(election) if now => election.try_campaign().await?.map(Held::One),
            Self::Leader(election) => election.try_campaign_for(wait).await?.map(Held::One),
            Self::Counted(semaphore) => {
                semaphore.try_acquire(1).await?.then(|| Held::Counted(semaphore.clone()))
            }
        })
    }
}

fn with(lock: Lock, owner: &Owner, lease: Option<Duration>) -> Lock {
    let lock = lock.owner(owner);
    match lease {
        Some(lease) => lock.lease(lease),
        None => lock,
    }
}

impl Held {
    pub(super) async fn release(self) -> tenure::Result<()> {
        match self {
            Held::One(guard) => guard.release().await,
            Held::All(guards) => guards.release().await,
            Held::Counted(semaphore) => semaphore.release(1).await,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match self {
            Held::One(guard) => guard.is_held(),
            Held::All(guards) => guards.is_held(),
            Held::Counted(_) => true,
        }
    }
}
