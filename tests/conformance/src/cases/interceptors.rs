//! Backends that some cases put between a client and its store, to count its calls or to make them fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use tenure::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Released, Renewal, Watch,
};
use tenure::backend::{Claim, OpId};
use tenure::testing::{Call, Fate};
use tenure::{Client, Name, Result};

use crate::harness::{Harness, until};

/// A client whose store is unreachable while the switch is on.
pub(super) fn client_with_outage_switch(harness: &Harness) -> (Client, Arc<AtomicBool>) {
    let away = Arc::new(AtomicBool::new(false));
    let switch = away.clone();
    let plan = move |_: Call<'_>| Fate { refused: switch.load(SeqCst), ..Fate::default() };
    (harness.faulty_client(plan), away)
}

/// A backend that counts reads of counters: after its first read, a client waits.
#[derive(Debug)]
pub(super) struct ReadCounter {
    inner: Arc<dyn Backend>,
    reads: AtomicU64,
}

impl ReadCounter {
    pub(super) fn new(inner: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self { inner, reads: AtomicU64::new(0) })
    }

    /// Number of reads answered so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(SeqCst)
    }

    /// Waits until there were more than `before`.
    pub(super) async fn wait_for_reads_above(&self, before: u64) {
        until("the count is read", || async { self.reads() > before }).await;
    }
}

#[async_trait]
impl Backend for ReadCounter {
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
            self.reads.fetch_add(1, SeqCst);
        }
        reply
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin()
    }
}
