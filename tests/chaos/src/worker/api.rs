//! The two interfaces of Tenure as one, so that both do the same work. The blocking one never yields.

use std::future::Future;
use std::time::Duration;

use checker::{Kind, Wait};
use tenure::{Client, HoldId, Owner, Result, blocking};

use crate::kinds::Use;
use crate::worker::choice::Section;

/// What is acquired, and how.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) owner: Option<Owner>,
    pub(crate) lease: Option<Duration>,
}

/// An operation on a latch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    Set(u64),
    Down,
    Count,
    Delete,
    Wait(Duration),
}

/// A guard of either interface.
pub(crate) trait Held: Sized {
    fn is_held(&self) -> bool;
    fn remaining(&self) -> Duration;
    fn fence(&self) -> Option<u64>;
    /// None for locks of other libraries.
    fn id(&self) -> Option<HoldId>;
    fn detach(self) -> HoldId;
    async fn release(self) -> Result<()>;
}

/// An interface.
pub(crate) trait Api {
    type Guard: Held;

    /// Whether it has this kind.
    fn can(&self, _of: Use) -> bool {
        true
    }

    /// What is expected of a call that waits like this.
    fn expected(&self, wait: Wait) -> Wait {
        wait
    }

    /// Leaves of a section what it can do.
    fn fit(&self, section: Section) -> Section {
        section
    }

    async fn acquire(&self, wanted: &Wanted) -> Result<Self::Guard>;
    async fn try_acquire(&self, wanted: &Wanted) -> Result<Option<Self::Guard>>;
    async fn try_acquire_for(&self, wanted: &Wanted, limit: Duration) -> Result<Option<Self::Guard>>;
    async fn release_by(&self, wanted: &Wanted, hold: HoldId) -> Result<bool>;
    /// The number that it returns; 0 or 1 for whether it did something.
    async fn turn(&self, name: &str, turn: Turn) -> Result<Option<u64>>;
    async fn sleep(&self, time: Duration);
    /// Drops the future after this time, if it can be dropped.
    async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output>;
}

macro_rules! held {
    ($guard:ty $(, $await:tt)?) => {
        impl Held for $guard {
            fn is_held(&self) -> bool {
                <$guard>::is_held(self)
            }

            fn remaining(&self) -> Duration {
                <$guard>::remaining(self)
            }

            fn fence(&self) -> Option<u64> {
                <$guard>::fence(self).map(|fence| fence.0)
            }

            fn id(&self) -> Option<HoldId> {
                Some(<$guard>::recorded_id(self))
            }

            fn detach(self) -> HoldId {
                <$guard>::detach(self)
            }

            async fn release(self) -> Result<()> {
                <$guard>::release(self)$(.$await)?
            }
        }
    };
}

held!(tenure::Guard, await);
held!(blocking::Guard);

/// The template of what is wanted.
macro_rules! template {
    ($client:expr, $wanted:expr) => {{
        let Wanted { name, kind, owner, lease } = $wanted;
        let lock = match *kind {
            Kind::Lock => $client.lock(name),
            Kind::Fair => $client.lock(name).fair(),
            Kind::Read => $client.rwlock(name).read(),
            Kind::Write => $client.rwlock(name).write(),
            Kind::Permits { n, limit } => $client.semaphore(name, limit).permits(n),
            Kind::Leader => unreachable!("an election has no lock"),
        };
        let lock = match owner {
            Some(owner) => lock.owner(owner),
            None => lock,
        };
        match lease {
            Some(lease) => lock.lease(*lease),
            None => lock,
        }
    }};
}

macro_rules! election {
    ($client:expr, $wanted:expr) => {{
        let election = $client.election(&$wanted.name);
        match $wanted.lease {
            Some(lease) => election.lease(lease),
            None => election,
        }
    }};
}

macro_rules! turn {
    ($client:expr, $name:expr, $turn:expr $(, $await:tt)?) => {{
        let latch = $client.latch($name);
        match $turn {
            Turn::Set(n) => latch.try_set_count(n)$(.$await)?.map(|set| Some(u64::from(set))),
            Turn::Down => latch.count_down()$(.$await)?.map(|()| None),
            Turn::Count => latch.count()$(.$await)?.map(Some),
            Turn::Delete => latch.delete()$(.$await)?.map(|deleted| Some(u64::from(deleted))),
            Turn::Wait(limit) => latch.try_wait_for(limit)$(.$await)?.map(|open| Some(u64::from(open))),
        }
    }};
}

/// Tasks.
pub(crate) struct Async(pub(crate) Client);

impl Api for Async {
    type Guard = tenure::Guard;

    async fn acquire(&self, wanted: &Wanted) -> Result<Self::Guard> {
        match wanted.kind {
            Kind::Leader => election!(self.0, wanted).campaign().await,
            _ => template!(self.0, wanted).acquire().await,
        }
    }

    async fn try_acquire(&self, wanted: &Wanted) -> Result<Option<Self::Guard>> {
        match wanted.kind {
            Kind::Leader => election!(self.0, wanted).try_campaign().await,
            _ => template!(self.0, wanted).try_acquire().await,
        }
    }

    async fn try_acquire_for(&self, wanted: &Wanted, limit: Duration) -> Result<Option<Self::Guard>> {
        match wanted.kind {
            Kind::Leader => election!(self.0, wanted).try_campaign_for(limit).await,
            _ => template!(self.0, wanted).try_acquire_for(limit).await,
        }
    }

    async fn release_by(&self, wanted: &Wanted, hold: HoldId) -> Result<bool> {
        template!(self.0, wanted).release_by(hold).await
    }

    async fn turn(&self, name: &str, turn: Turn) -> Result<Option<u64>> {
        turn!(self.0, name, turn, await)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

/// Threads.
pub(crate) struct Blocking(blocking::Client);

impl Blocking {
    pub(crate) fn new(client: Client) -> Self {
        Self(blocking::Client::new(client))
    }
}

impl Api for Blocking {
    type Guard = blocking::Guard;

    async fn acquire(&self, wanted: &Wanted) -> Result<Self::Guard> {
        match wanted.kind {
            Kind::Leader => election!(self.0, wanted).campaign(),
            _ => template!(self.0, wanted).acquire(),
        }
    }

    async fn try_acquire(&self, wanted: &Wanted) -> Result<Option<Self::Guard>> {
        match wanted.kind {
            Kind::Leader => election!(self.0, wanted).try_campaign(),
            _ => template!(self.0, wanted).try_acquire(),
        }
    }

    async fn try_acquire_for(&self, wanted: &Wanted, limit: Duration) -> Result<Option<Self::Guard>> {
        match wanted.kind {
            Kind::Leader => election!(self.0, wanted).try_campaign_for(limit),
            _ => template!(self.0, wanted).try_acquire_for(limit),
        }
    }

    async fn release_by(&self, wanted: &Wanted, hold: HoldId) -> Result<bool> {
        template!(self.0, wanted).release_by(hold)
    }

    async fn turn(&self, name: &str, turn: Turn) -> Result<Option<u64>> {
        turn!(self.0, name, turn)
    }

    async fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    async fn within<F: Future>(&self, _limit: Duration, future: F) -> Option<F::Output> {
        Some(future.await)
    }
}
