//! Permits, as in Curator's semaphore: the first waiter in `locks` may take from `leases`, and keeps its position
//! while it waits for permits.

use std::sync::Arc;

use futures_util::future::{join, join_all, join3, join4};
use tenure_core::ledger::{Ledger, too_many};
use tenure_core::{Claim, Fence, HoldId, Kind};

use crate::error::{RequestError, RequestResult, SCHEME};
use crate::recipe::Store;
use crate::recipe::attempt::{Granted, MAX_TRIES, Outcome, queue_changed_too_often};
use crate::recipe::claim_record::{AttemptState, ClaimRecord, QueueNode};
use crate::recipe::node::{self, Marker};
use crate::recipe::path::{COUNTERS, LEASES};
use crate::recipe::queue::Queue;
use crate::session::Session;
use crate::wire::{Change, Mode, Watcher};

/// One claim for `n` permits of a semaphore.
pub(crate) struct Permits<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) session: &'a Arc<Session>,
    pub(crate) record: &'a Arc<ClaimRecord>,
    pub(crate) claim: &'a Claim,
    pub(crate) n: u32,
    /// The size, where the semaphore has none of its own.
    pub(crate) limit: u32,
}

impl Permits<'_> {
    /// Takes them, all or nothing.
    pub(crate) async fn acquire(&self, attempt: &mut AttemptState) -> RequestResult<Outcome> {
        let Self { store, session, record, claim, n, .. } = *self;
        let leases = format!("{}/{LEASES}", record.path);
        if attempt.create_unanswered {
            // Permits from an unanswered create are returned first.
            self.return_unanswered(&leases).await?;
        }
        let count_permits = async || {
            loop {
                let (size, taken) = join(self.size(None), self.list(&leases)).await;
                let (size, taken) = (size?, taken?);
                let size = match size {
                    Some(size) => size,
                    None => self.size(Some(!taken.is_empty())).await?.unwrap_or(self.limit.into()),
                };
                let wanted = taken.len() as u64 + u64::from(n);
                let there = Queue::new(if wanted > size { taken } else { Vec::new() });
                let all = there.children.len();
                if !store.delete_orphans(session, &leases, &there, all, record.id.client).await? {
                    return RequestResult::Ok((size, wanted));
                }
            }
        };
        for _ in 0..MAX_TRIES {
            if let Some(behind) = self.become_first(attempt).await? {
                return Ok(Outcome::Busy { behind });
            }
            let (mut size, mut wanted) = count_permits().await?;
            if wanted > size && claim.wait.is_some() {
                // Watch, then look again, so that a permit returned in between is seen.
                self.watch_leases_and_size(attempt, &leases).await?;
                (size, wanted) = count_permits().await?;
            }
            self.check_fits(size)?;
            store.sizes.check(SCHEME, claim, size);
            if wanted > size {
                return Ok(Outcome::Busy { behind: None });
            }
            if let Some(outcome) = self.create(attempt, &leases).await? {
                return Ok(outcome);
            }
        }
        Err(queue_changed_too_often())
    }

    /// Queues until the claim is first, which may then take permits. Returns `Some` with the hold ahead if it is not
    /// first. A claim for more permits than the size fails at any position.
    async fn become_first(&self, attempt: &mut AttemptState) -> RequestResult<Option<Option<HoldId>>> {
        let Self { store, session, record, claim, .. } = *self;
        let folder = record.queue_folder();
        for _ in 0..MAX_TRIES {
            let (queue, at) =
                store.join_queue(attempt, session, record, &folder, Marker::Lock, claim).await?;
            let Some(child) = queue.blocker(at, &Kind::Lock) else { return Ok(None) };
            if store.delete_orphans(session, &folder, &queue, at, record.id.client).await? {
                continue;
            }
            let ahead = format!("{folder}/{}", child.name);
            if self.watch_predecessor_and_size(attempt, &ahead).await? {
                return Ok(Some(store.own_hold_ahead(&queue, at, record)));
            }
        }
        Err(queue_changed_too_often())
    }

    /// Watches the node `ahead` and the size, to wake the watch of this claim when either changes. Returns `false` if
    /// the node is deleted already.
    async fn watch_predecessor_and_size(
        &self,
        attempt: &mut AttemptState,
        ahead: &str,
    ) -> RequestResult<bool> {
        let Self { store, session, record, claim, .. } = *self;
        let size = |ledger: Option<Ledger>| {
            ledger.and_then(|ledger| ledger.size).map_or(Ok(()), |size| self.check_fits(size.into()))
        };
        if claim.wait.is_none() || !store.subscribers.has_subscriber(record.id) {
            return store.read_ledger(session, &record.path).await.and_then(size).map(|()| true);
        }
        if attempt.wake_watch.as_ref().is_some_and(|watch| watch.is_set_on(ahead)) {
            return Ok(true);
        }
        let counters = format!("{}/{COUNTERS}", record.path);
        // Watch, then look, so that a change of the size in between is seen.
        let (size_watch, ledger, predecessor_watch) = join3(
            session.client.stat_and_watch(&counters),
            store.read_ledger(session, &record.path),
            session.client.read_and_watch(ahead),
        )
        .await;
        size(ledger?)?;
        let (size_watch, predecessor_watch) = match (size_watch?, predecessor_watch) {
            (_, Err(error)) if error.is_no_node() => return Ok(false),
            ((_, size_watch), predecessor_watch) => (size_watch, predecessor_watch?.2),
        };
        store.wake_on(attempt, record, ahead.to_owned(), first_change(predecessor_watch, size_watch), None);
        Ok(true)
    }

    /// The permits in use. Creates the folder if it does not exist.
    async fn list(&self, leases: &str) -> RequestResult<Vec<String>> {
        match self.session.client.list(leases).await {
            Err(error) if error.is_no_node() => {
                self.store.make_folders(self.session, leases).await.map(|()| Vec::new())
            }
            names => names,
        }
    }

    /// Creates the permits. Returns `None` if others took them first.
    async fn create(&self, attempt: &mut AttemptState, leases: &str) -> RequestResult<Option<Outcome>> {
        let Self { store, session, record, claim, n, .. } = *self;
        let stem = format!("{leases}/{}", node::stem(record.id, Marker::Lease, &store.process));
        let note = claim.note.as_deref().unwrap_or("").as_bytes();
        let creates = join_all((0..n).map(|_| session.client.create(&stem, note, Mode::EphemeralSequential)));
        // Sent at once, and executed in this order: the next in the queue sees what was taken here.
        let (created, taken, size, ()) =
            join4(creates, self.list(leases), self.size(Some(true)), self.leave_queue(attempt.node.take()))
                .await;
        let (mut made, mut failed) = (Vec::new(), None);
        for one in created {
            match one {
                Ok(one) => made.push(one),
                // A create with an unknown outcome takes precedence over one that failed.
                Err(_) if failed.as_ref().is_some_and(RequestError::is_unknown) => {}
                Err(error) if error.is_no_node() => {
                    failed = Some(RequestError::not_sent(format!("{leases} was deleted")))
                }
                Err(error) => failed = Some(error),
            }
        }
        let verdict = match failed {
            Some(error) => Err(error),
            None => taken.and_then(|taken| Ok((taken.len() as u64, size?.unwrap_or(self.limit.into())))),
        };
        let (used, size) = match verdict {
            Ok(verdict) => verdict,
            Err(error) => {
                if error.is_unknown() {
                    attempt.record_unanswered_create();
                }
                made.into_iter().for_each(|one| store.delete_in_background(session, one.path));
                return Err(error);
            }
        };
        for one in &made {
            store.check_owner(session, one.owner)?;
        }
        // Nobody else takes while we are first, unless our queue node was deleted.
        if used > size {
            for one in made {
                store.delete_or_retry(session, one.path).await;
            }
            return Ok(None);
        }
        let fence = made.iter().map(|one| one.czxid).max().unwrap_or(0);
        let paths = made.into_iter().map(|one| one.path).collect();
        Ok(Some(Outcome::Granted(Granted::new(Fence(fence as u64), paths))))
    }

    async fn size(&self, in_use: Option<bool>) -> RequestResult<Option<u64>> {
        self.store.semaphore_size(self.session, self.record, self.limit, in_use).await
    }

    async fn leave_queue(&self, first: Option<QueueNode>) {
        if let Some(node) = first {
            self.store.delete_or_retry(self.session, node.path).await;
        }
    }

    async fn return_unanswered(&self, leases: &str) -> RequestResult<()> {
        let Self { session, record, .. } = *self;
        session.client.sync().await?;
        let prefix = node::prefix(record.id);
        let names = match session.client.list(leases).await {
            Err(error) if error.is_no_node() => return Ok(()),
            names => names?,
        };
        for name in names.iter().filter(|name| name.starts_with(&prefix)) {
            match session.client.delete(&format!("{leases}/{name}"), None).await {
                Err(error) if !error.is_no_node() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Watches the permits and the size, to wake the watch of this claim when either changes.
    async fn watch_leases_and_size(&self, attempt: &mut AttemptState, leases: &str) -> RequestResult<()> {
        let Self { store, session, record, .. } = *self;
        if !store.subscribers.has_subscriber(record.id) {
            return Ok(());
        }
        if attempt.wake_watch.as_ref().is_some_and(|watch| watch.is_set_on(leases)) {
            return Ok(());
        }
        let counters = format!("{}/{COUNTERS}", record.path);
        let (leases_watch, size_watch) =
            join(session.client.list_and_watch(leases), session.client.stat_and_watch(&counters)).await;
        let leases_watch = match leases_watch {
            Err(error) if error.is_no_node() => {
                store.make_folders(session, leases).await?;
                session.client.list_and_watch(leases).await?
            }
            leases_watch => leases_watch?,
        };
        let (leases_watch, size_watch) = (leases_watch.1, size_watch?.1);
        store.wake_on(attempt, record, leases.to_owned(), first_change(leases_watch, size_watch), None);
        Ok(())
    }

    /// A claim for more permits than the size could never be granted.
    fn check_fits(&self, size: u64) -> RequestResult<()> {
        if u64::from(self.n) <= size {
            return Ok(());
        }
        Err(RequestError::Config(too_many(&self.claim.name, self.n, size)))
    }
}

async fn first_change(one: Watcher, other: Watcher) -> Change {
    tokio::select! {
        change = one.changed() => change,
        change = other.changed() => change,
    }
}
