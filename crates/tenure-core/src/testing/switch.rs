//! A memory store that can be made unreachable. It keeps its state meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Query, Released, Renewal,
    Snapshot, Watch,
};
use crate::{Claim, Clock, Finding, Memory, Name, OpId, Result, Time};

#[derive(Debug)]
pub(super) struct Switch {
    pub(super) memory: Memory,
    pub(super) clock: Clock,
    off: Mutex<Off>,
}

#[derive(Debug)]
struct Off {
    outages: usize,
    until: Time,
}

impl Switch {
    pub(super) fn new() -> Self {
        let clock = Clock::manual();
        let off = Off { outages: 0, until: clock.now() };
        Self { memory: Memory::with_clock(clock.clone()), clock, off: Mutex::new(off) }
    }

    pub(super) fn is_off(&self) -> bool {
        let off = self.off.lock().unwrap();
        off.outages > 0 || self.clock.now() < off.until
    }

    pub(super) fn off_for(&self, d: Duration) {
        let mut off = self.off.lock().unwrap();
        off.until = off.until.max(self.clock.now().after(d));
    }

    fn reached(&self, what: &str, name: impl std::fmt::Display) -> Result<&Memory> {
        if self.is_off() {
            return Err(self.memory.info().unavailable(format!("{what} {name}"), "the test has it down"));
        }
        Ok(&self.memory)
    }
}

/// The store is unreachable until this is dropped. Created by [`Store::down`](super::Store::down).
#[derive(Debug)]
#[must_use = "the store is up again when this is dropped"]
pub struct Outage(Arc<Switch>);

impl Outage {
    pub(super) fn of(switch: &Arc<Switch>) -> Self {
        switch.off.lock().unwrap().outages += 1;
        Self(switch.clone())
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.0.off.lock().unwrap().outages -= 1;
    }
}

#[async_trait]
impl Backend for Switch {
    fn info(&self) -> &Info {
        self.memory.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.reached("acquire", &claim.name)?.try_acquire(claim).await
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.reached("watch", name)?.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let Some(first) = claims.first() else { return Ok(Vec::new()) };
        self.reached("renew", &first.name)?.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        self.reached("release", &claim.name)?.release(claim, left).await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        self.reached("count", name)?.count(name, counter, op, id).await
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Admin for Switch {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        self.reached(
            "inspect",
            match &query {
                Query::Name(name) => name.as_str(),
                Query::Prefix { prefix, .. } => prefix,
            },
        )?
        .inspect(query.clone())
        .await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.reached("diagnose", "it")?.diagnose().await
    }
}
