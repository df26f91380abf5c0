//! A store in memory that does with each call what a test tells it to.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Query, Released, Renewal,
    Snapshot, Watch,
};
use tenure_core::{Claim, Client, Clock, Error, Finding, Memory, Name, OpId, Result, Settings};

/// A call, as a test sees it.
#[derive(Debug)]
pub(crate) enum Call<'a> {
    Acquire(&'a Claim),
    Release,
    Renew(&'a [Arc<Claim>]),
    /// Asked by the keeper itself, before it sends renewals.
    Shard,
    Count(CountOp),
    /// Of people.
    Inspect,
    Diagnose,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// It is done as it should be.
    Pass,
    /// It is neither done nor answered.
    Hang,
    /// It is not done, and that is said.
    Fail,
    /// It is not done, because nobody listens.
    Refuse,
    /// It is not done, and the store says when it will be ready.
    NotReady,
    /// It is done, and the answer is lost.
    Lose,
    /// The store panics.
    Panic,
}

type Tell = Box<dyn FnMut(&Call<'_>) -> Act + Send>;

pub(crate) struct Puppet {
    inner: Memory,
    info: Info,
    tell: Mutex<Tell>,
}

impl std::fmt::Debug for Puppet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Puppet")
    }
}

impl Puppet {
    pub(crate) fn new(clock: &Clock) -> Arc<Self> {
        Self::like(clock, |info| info)
    }

    /// One that says something else about itself.
    pub(crate) fn like(clock: &Clock, change: impl FnOnce(Info) -> Info) -> Arc<Self> {
        let inner = Memory::with_clock(clock.clone());
        let info = change(inner.info().clone());
        Arc::new(Self { inner, info, tell: Mutex::new(Box::new(|_| Act::Pass)) })
    }

    /// From now on.
    pub(crate) fn tell(&self, tell: impl FnMut(&Call<'_>) -> Act + Send + 'static) {
        *self.tell.lock().unwrap() = Box::new(tell);
    }

    pub(crate) fn client(self: &Arc<Self>, change: impl FnOnce(&mut Settings)) -> Client {
        let mut settings = Settings::default();
        change(&mut settings);
        Client::with(self.clone(), settings)
    }

    /// What becomes of a call. The test's code has run, and its lock is free again, when this returns.
    fn act(&self, call: &Call<'_>) -> Act {
        (self.tell.lock().unwrap())(call)
    }

    async fn answer<T>(&self, call: Call<'_>, done: impl Future<Output = Result<T>>) -> Result<T> {
        match self.act(&call) {
            Act::Pass => done.await,
            Act::Panic => panic!("a store that panics, as this test wants it to"),
            Act::Hang => std::future::pending().await,
            Act::Fail => Err(Error::unavailable("puppet", "a call", "it is told to fail")),
            Act::NotReady => {
                let not_ready = Error::unavailable("puppet", "a call", "it is told not to be ready");
                Err(not_ready.ready_after(Some(Duration::from_millis(10))))
            }
            Act::Refuse => {
                Err(Error::unavailable("puppet", "a call", io::Error::from(io::ErrorKind::ConnectionRefused)))
            }
            Act::Lose => {
                done.await?;
                Err(Error::unknown("puppet", "a call", "it is told to lose the answer"))
            }
        }
    }
}

#[async_trait]
impl Backend for Puppet {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.answer(Call::Acquire(claim), self.inner.try_acquire(claim)).await
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.inner.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.answer(Call::Renew(claims), self.inner.renew(claims)).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        self.answer(Call::Release, self.inner.release(claim, left)).await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        self.answer(Call::Count(op), self.inner.count(name, counter, op, id)).await
    }

    fn shard(&self, _: &Name) -> usize {
        assert!(self.act(&Call::Shard) != Act::Panic, "a store that panics, as this test wants it to");
        0
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Admin for Puppet {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        self.answer(Call::Inspect, self.inner.inspect(query)).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.answer(Call::Diagnose, self.inner.diagnose()).await
    }
}
