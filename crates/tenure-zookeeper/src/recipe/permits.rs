//! Permits, as in Curator's semaphore: the first waiter in `locks` may take from `leases`, and keeps its position
//! while it waits for permits.

use std::sync::Arc;

use futures_util::future::{join, join_all, join3, join4};
use tenure_core::ledger::{Ledger, too_many};
use tenure_core::{Claim, Fence, HoldId, Kind};

use crate::error::{RequestError, RequestResult};
use crate::recipe::Store;
use crate::recipe::attempt::{Step, TRIES, too_quick};
use crate::recipe::claim_record::{AttemptState, ClaimRecord, QueueNode};
use crate::recipe::node::{self, Marker};
use crate::recipe::path::{LEASES, NUMBERS};
use crate::recipe::queue::Queue;
use crate::session::Session;
use crate::wire::{Mode, Watcher};

impl Store {
    /// Takes `n` permits, all or nothing.
    #[allow(clippy::too_many_arguments)]
    pub(crate) async fn permits(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &Arc<ClaimRecord>,
        claim: &Claim,
        n: u32,
        limit: u32,
    ) -> RequestResult<Step> {
        let leases = format!("{}/{LEASES}", record.path);
        if attempt.create_unanswered {
            // Permits from an unanswered create are returned first.
            self.give_back(session, record, &leases).await?;
        }
        let look = async || {
            loop {
                let (size, taken) =
                    join(self.size(session, record, limit), self.taken(session, &leases)).await;
                let (size, taken) = (size?, taken?);
                let wanted = taken.len() as u64 + u64::from(n);
                let there = if wanted > size { Queue::new(taken).children } else { Vec::new() };
                if !self.delete_orphans(session, &leases, &there, record.id.client).await? {
                    return RequestResult::Ok((size, wanted));
                }
            }
        };
        for _ in 0..TRIES {
            if let Some(behind) = self.become_first(attempt, session, record, claim, n).await? {
                return Ok(Step::Busy { behind });
            }
            let (mut size, mut wanted) = look().await?;
            if wanted > size && claim.wait.is_some() {
                // Watch, then look again, so that a permit returned in between is seen.
                self.wait_for_permits(attempt, session, record, &leases).await?;
                (size, wanted) = look().await?;
            }
            fits(claim, n, size)?;
            if wanted > size {
                return Ok(Step::Busy { behind: None });
            }
            if let Some(step) = self.take(attempt, session, record, claim, &leases, n, limit).await? {
                return Ok(step);
            }
        }
        Err(too_quick())
    }

    /// Queues until the claim is first, which may then take permits. Returns `Some` with the hold ahead if it is not
    /// first. A claim for more permits than the size fails at any position.
    async fn become_first(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &Arc<ClaimRecord>,
        claim: &Claim,
        n: u32,
    ) -> RequestResult<Option<Option<HoldId>>> {
        let folder = record.queue_folder();
        for _ in 0..TRIES {
            let (queue, at) = self.stand(attempt, session, record, &folder, Marker::Lock, claim).await?;
            let Some(child) = queue.in_the_way(at, &Kind::Lock) else { return Ok(None) };
            if self.delete_orphans(session, &folder, &queue.children[..at], record.id.client).await? {
                continue;
            }
            if self
                .wait_in_line(attempt, session, record, &format!("{folder}/{}", child.name), claim, n)
                .await?
            {
                return Ok(Some(self.ours_before(&queue, at, record)));
            }
        }
        Err(too_quick())
    }

    /// Watches the node `ahead` and the size, to wake the watch of this claim when either changes. Returns `false` if
    /// the node is deleted already.
    async fn wait_in_line(
        &self,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &ClaimRecord,
        ahead: &str,
        claim: &Claim,
        n: u32,
    ) -> RequestResult<bool> {
        let size = |ledger: Option<Ledger>| {
            ledger.and_then(|ledger| ledger.size).map_or(Ok(()), |size| fits(claim, n, size.into()))
        };
        if claim.wait.is_none() || !self.subscribers.has_subscriber(record.id) {
            return self.ledger(session, &record.path).await.and_then(size).map(|()| true);
        }
        if attempt.wake_watch.as_ref().is_some_and(|watch| watch.is_set_on(ahead)) {
            return Ok(true);
        }
        let numbers = format!("{}/{NUMBERS}", record.path);
        // Watch, then look, so that a change of the size in between is seen.
        let (sizes, ledger, leaves) = join3(
            session.stat_and_watch(&numbers),
            self.ledger(session, &record.path),
            session.read_and_watch(ahead),
        )
        .await;
        size(ledger?)?;
        let (sizes, leaves) = match (sizes?, leaves) {
            (_, Err(error)) if error.is_no_node() => return Ok(false),
            ((_, sizes), leaves) => (sizes, leaves?.2),
        };
        self.arm(attempt, record, ahead.to_owned(), either(leaves, sizes));
        Ok(true)
    }

    /// The permits in use. Creates the folder if it does not exist.
    async fn taken(&self, session: &Session, leases: &str) -> RequestResult<Vec<String>> {
        match session.list(leases).await {
            Err(error) if error.is_no_node() => self.make_folders(session, leases).await.map(|()| Vec::new()),
            names => names,
        }
    }

    /// Creates the permits. Returns `None` if others took them first.
    #[allow(clippy::too_many_arguments)]
    async fn take(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &Arc<ClaimRecord>,
        claim: &Claim,
        leases: &str,
        n: u32,
        limit: u32,
    ) -> RequestResult<Option<Step>> {
        let stem = format!("{leases}/{}", node::stem(record.id, Marker::Lease, &self.process));
        let note = claim.note.as_deref().unwrap_or("").as_bytes();
        let creates = join_all((0..n).map(|_| session.create(&stem, note, Mode::EphemeralSequential)));
        // Sent at once, and executed in this order: the next in the queue sees what was taken here.
        let (created, taken, size, ()) = join4(
            creates,
            self.taken(session, leases),
            self.size(session, record, limit),
            self.let_next_in(session, attempt.node.take()),
        )
        .await;
        let (mut made, mut failed) = (Vec::new(), None);
        for one in created {
            match one {
                Ok(one) => made.push(one),
                // A create with an unknown outcome takes precedence over one that failed.
                Err(_) if failed.as_ref().is_some_and(RequestError::is_unknown) => {}
                Err(error) if error.is_no_node() => {
                    failed = Some(RequestError::NotSent(format!("{leases} was deleted")))
                }
                Err(error) => failed = Some(error),
            }
        }
        let verdict = match failed {
            Some(error) => Err(error),
            None => taken.and_then(|taken| Ok((taken.len() as u64, size?))),
        };
        let (used, size) = match verdict {
            Ok(verdict) => verdict,
            Err(error) => {
                if error.is_unknown() {
                    attempt.record_unanswered_create();
                }
                made.into_iter().for_each(|(_, path)| self.delete_in_background(session, path));
                return Err(error);
            }
        };
        for (stat, _) in &made {
            self.check_owner(session, stat.owner)?;
        }
        // Nobody else takes while we are first, unless our queue node was deleted.
        if used > size {
            for (_, path) in made {
                self.delete_or_retry(session, path).await;
            }
            return Ok(None);
        }
        let fence = made.iter().map(|(stat, _)| stat.czxid).max().unwrap_or(0);
        let paths = made.into_iter().map(|(_, path)| path).collect();
        Ok(Some(Step::Granted { fence: Fence(fence as u64), paths }))
    }

    async fn let_next_in(self: &Arc<Self>, session: &Arc<Session>, first: Option<QueueNode>) {
        if let Some(node) = first {
            self.delete_or_retry(session, node.path).await;
        }
    }

    async fn give_back(
        &self,
        session: &Arc<Session>,
        record: &ClaimRecord,
        leases: &str,
    ) -> RequestResult<()> {
        session.sync().await?;
        let prefix = node::prefix(record.id);
        let names = match session.list(leases).await {
            Err(error) if error.is_no_node() => return Ok(()),
            names => names?,
        };
        for name in names.iter().filter(|name| name.starts_with(&prefix)) {
            match session.delete(&format!("{leases}/{name}"), None).await {
                Err(error) if !error.is_no_node() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Watches the permits and the size, to wake the watch of this claim when either changes.
    async fn wait_for_permits(
        &self,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &ClaimRecord,
        leases: &str,
    ) -> RequestResult<()> {
        if !self.subscribers.has_subscriber(record.id) {
            return Ok(());
        }
        if attempt.wake_watch.as_ref().is_some_and(|watch| watch.is_set_on(leases)) {
            return Ok(());
        }
        let numbers = format!("{}/{NUMBERS}", record.path);
        let (returns, sizes) = join(session.list_and_watch(leases), session.stat_and_watch(&numbers)).await;
        let returns = match returns {
            Err(error) if error.is_no_node() => {
                self.make_folders(session, leases).await?;
                session.list_and_watch(leases).await?
            }
            returns => returns?,
        };
        let (returns, sizes) = (returns.1, sizes?.1);
        self.arm(attempt, record, leases.to_owned(), either(returns, sizes));
        Ok(())
    }
}

async fn either(one: Watcher, other: Watcher) {
    tokio::select! {
        _ = one.changed() => {}
        _ = other.changed() => {}
    }
}

/// A claim for more permits than the size could never be granted.
fn fits(claim: &Claim, n: u32, size: u64) -> RequestResult<()> {
    if u64::from(n) <= size {
        return Ok(());
    }
    Err(RequestError::Config(too_many(&claim.name, n, size)))
}
