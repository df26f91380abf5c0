//! Another library at work on the same locks: Redisson, redsync or Curator, in a process of its own.
//!
//! What it says of a lock is not judged, only what it is granted: it is taken to hold for one lease, or one session,
//! from before it asked, which is what its store promises it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use checker::{Kind, Store, Wait};
use interop::{Address, Curator, CuratorOptions, Jvm, Peer, Plain};
use tenure::{Error, HoldId, Result};
use tokio::runtime::Runtime;

use super::choice::{End, Section};
use super::{Orders, api};
use crate::clock::{nanos, now};
use crate::kinds::Use;

/// The process with the library.
enum Library {
    Redisson(Jvm),
    Redsync(Plain),
    Curator(Curator),
}

impl Deref for Library {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        match self {
            Self::Redisson(peer) => peer,
            Self::Redsync(peer) => peer,
            Self::Curator(peer) => peer,
        }
    }
}

/// A library, and the lease of its holds.
#[derive(Clone)]
pub(crate) struct Started {
    library: Arc<Library>,
    lease: Duration,
}

/// Starts the library of a store; for as long as it takes, since a fault may be under way.
pub(crate) fn start(runtime: &Runtime, orders: &Orders) -> Started {
    let url = orders.url.as_deref().expect("no peer without a server");
    let servers = url.split("://").nth(1).and_then(|rest| rest.split('?').next()).expect("an address");
    let servers = servers.rsplit('@').next().expect("an address").to_owned();
    let library = runtime.block_on(async {
        loop {
            let started = match orders.store {
                Store::Zookeeper => {
                    let options = CuratorOptions { session: Some(orders.lease), ..CuratorOptions::default() };
                    Curator::start(&servers, &options).await.map(Library::Curator)
                }
                Store::RedisPlain => {
                    Plain::redsync(std::slice::from_ref(&servers)).await.map(Library::Redsync)
                }
                _ => {
                    let address = Address::Single(servers.clone());
                    Jvm::start(&address, &interop::Options::small()).await.map(Library::Redisson)
                }
            };
            match started {
                Ok(library) => return library,
                Err(error @ interop::Error::Build(_)) => panic!("{error}"),
                Err(error) => eprintln!("connecting: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    Started { library: Arc::new(library), lease: orders.lease }
}

impl Started {
    /// One of its threads, which is one owner.
    pub(crate) fn thread(&self, number: u32) -> Thread {
        Thread { of: self.clone(), name: format!("t{number}") }
    }
}

/// A thread of the library.
#[derive(Clone)]
pub(crate) struct Thread {
    of: Started,
    name: String,
}

impl Thread {
    async fn ask(&self, request: &str) -> Result<String> {
        let answer = self.of.library.call(&self.name, request).await;
        answer.map_err(|error| Error::unknown("peer", request, error.to_string()))
    }

    /// Leaves out what it would answer if somebody else holds: the libraries have their own ideas of a limit.
    async fn acquire(&self, wanted: &api::Wanted, limit: Duration) -> Result<Guard> {
        let end = now() + nanos(self.of.lease);
        let (name, wait, lease) = (&wanted.name, limit.as_millis(), self.of.lease.as_millis());
        let kind = match wanted.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            _ => "plain",
        };
        let (request, release) = match *self.of.library {
            Library::Redisson(_) => {
                (format!("try {kind} {name} {wait} {lease}"), format!("unlock {kind} {name}"))
            }
            Library::Redsync(_) => (format!("lock {name} {lease} {wait}"), format!("unlock {name}")),
            Library::Curator(_) => (format!("try {kind} {name} {wait}"), format!("unlock {kind} {name}")),
        };
        match self.ask(&request).await?.as_str() {
            "true" => Ok(Guard { thread: self.clone(), release, end }),
            _ => Err(Error::unavailable("peer", request, "it says no")),
        }
    }
}

impl api::Api for Thread {
    type Guard = Guard;

    fn can(&self, of: Use) -> bool {
        match *self.of.library {
            Library::Redisson(_) | Library::Redsync(_) => of == Use::Lock,
            Library::Curator(_) => matches!(of, Use::Lock | Use::Rwlock),
        }
    }

    /// It may exceed its limit, or be served later than it could be.
    fn expected(&self, _: Wait) -> Wait {
        Wait::Try
    }

    fn fit(&self, section: Section) -> Section {
        // What was waited for longer is held for nothing.
        let longest = nanos(self.of.lease / 4);
        let wait = match section.wait {
            Wait::Try => Wait::Try,
            Wait::For(limit) => Wait::For(limit.min(longest)),
            Wait::Forever => Wait::For(longest),
        };
        Section {
            wait,
            lease: Some(self.of.lease),
            patience: None,
            hold: section.hold.min(self.of.lease / 4),
            again: None,
            writes: false,
            end: End::Release,
            ..section
        }
    }

    async fn acquire(&self, _: &api::Wanted) -> Result<Guard> {
        unreachable!("it does not wait for ever")
    }

    async fn try_acquire(&self, wanted: &api::Wanted) -> Result<Option<Guard>> {
        self.acquire(wanted, Duration::ZERO).await.map(Some)
    }

    async fn try_acquire_for(&self, wanted: &api::Wanted, limit: Duration) -> Result<Option<Guard>> {
        self.acquire(wanted, limit).await.map(Some)
    }

    async fn release_by(&self, _: &api::Wanted, _: HoldId) -> Result<bool> {
        unreachable!("it does not detach")
    }

    async fn turn(&self, _: &str, _: api::Turn) -> Result<Option<u64>> {
        unreachable!("it has no latch")
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn within<F: Future>(&self, _: Duration, future: F) -> Option<F::Output> {
        Some(future.await)
    }
}

/// A lock of the library.
pub(crate) struct Guard {
    thread: Thread,
    release: String,
    end: u64,
}

impl api::Held for Guard {
    fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    fn remaining(&self) -> Duration {
        Duration::from_nanos(self.end.saturating_sub(now()))
    }

    fn fence(&self) -> Option<u64> {
        None
    }

    fn id(&self) -> Option<HoldId> {
        None
    }

    fn detach(self) -> HoldId {
        unreachable!("it does not detach")
    }

    async fn release(self) -> Result<()> {
        self.thread.ask(&self.release).await.map(drop)
    }
}
