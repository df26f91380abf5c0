//! Backends that some cases put between a client and its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use tenure::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Released, Renewal, Watch,
};
use tenure::backend::{Claim, OpId};
use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Name, Result};

use crate::harness::{Harness, until};

/// A client whose store is unreachable while the switch is on.
pub(super) fn switched(harness: &Harness) -> (Client, Arc<AtomicBool>) {
    let away = Arc::new(AtomicBool::new(false));
    let switch = away.clone();
    let plan = move |_: Call<'_>| Fate { refused: switch.load(SeqCst), ..Fate::default() };
    (Client::with(Arc::new(Faults::new(harness.bare(), plan)), harness.settings()), away)
}

/// A backend that counts reads of counters, which tells when a client has begun to wait.
#[derive(Debug)]
pub(super) struct Looked {
    inner: Arc<dyn Backend>,
    looks: AtomicU64,
}

impl Looked {
    pub(super) fn at(inner: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self { inner, looks: AtomicU64::new(0) })
    }

    /// Number of reads answered so far.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(SeqCst)
    }

    /// Waits until there were more than `before`.
    pub(super) async fn looks_above(&self, before: u64) {
        until("somebody looks", || async { self.looks() > before }).await;
    }
}

#[async_trait]
impl Backend for Looked {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.inner.try_acquire(claim).await
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.inner.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.inner.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        self.inner.release(claim, left).await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        let reply = self.inner.count(name, counter, op, id).await;
        if reply.is_ok() && matches!(op, CountOp::Get | CountOp::TakeIfAtLeast(_)) {
            self.looks.fetch_add(1, SeqCst);
        }
        reply
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin()
    }
}
