//! Counters: latches, counting semaphores, and the sizes of semaphores. Curator has no layout for them. They are a
//! ledger in one node, changed by compare-and-set. The ledger remembers recent operations, so that a retry after a
//! lost answer is recognised.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Backoff, CountOp, CountReply, Counter};
use tenure_core::ledger::{Ledger, Now};
use tenure_core::{Error, Name, OpId, wall_micros};

use crate::error::{RequestError, RequestResult, SCHEME};
use crate::recipe::Store;
use crate::recipe::claim_record::ClaimRecord;
use crate::recipe::path::COUNTERS;
use crate::session::Session;
use crate::wire::{ErrorCode, LARGEST, Mode};

/// How long an operation is remembered, plus a margin: then a ledger that only remembers is deleted.
const OPS_REMEMBERED_FOR: Duration = Duration::from_secs(602);

impl Store {
    pub(crate) async fn count(
        self: &Arc<Self>,
        name: &Name,
        path: &str,
        counter: Counter,
        op: CountOp,
        id: OpId,
    ) -> RequestResult<CountReply> {
        let guard = match op {
            CountOp::Get => None,
            _ => Some(self.counter_mutex.lock(path, self.sessions.options().timeout).await?),
        };
        let changing = async {
            let session = self.sessions.get_or_connect().await?;
            let change = |ledger: &mut Ledger| {
                // Permits in use are nodes of their own, so it must not forget their size by itself.
                let idle = ledger.idle.take();
                let reply = ledger.count(name, counter, op, id, now()).map_err(RequestError::Config)?;
                let is_set = counter == Counter::Size && op != CountOp::Get && reply.applied;
                ledger.idle = idle.filter(|_| !is_set);
                Ok(reply)
            };
            self.update_ledger(&session, path, change).await
        };
        let answer = changing.await;
        if let Some(guard) = guard {
            guard.record(&answer);
        }
        let (reply, ledger) = answer?;
        if has_only_remembered_ops(&ledger) {
            self.prune_ledger_later(path);
        }
        Ok(reply)
    }

    /// The size of a semaphore: the stored one, or `limit`, which is then stored. `None` if it depends on whether
    /// permits are `in_use`, see [`Ledger::size_for`].
    pub(crate) async fn semaphore_size(
        &self,
        session: &Session,
        record: &ClaimRecord,
        limit: u32,
        in_use: Option<bool>,
    ) -> RequestResult<Option<u64>> {
        let size = |ledger: &mut Ledger| Ok(ledger.size_for(limit, in_use, now()).map(u64::from));
        Ok(self.update_ledger(session, &record.path, size).await?.0)
    }

    /// Reads the ledger of a name, without changing it.
    pub(crate) async fn read_ledger(&self, session: &Session, path: &str) -> RequestResult<Option<Ledger>> {
        match session.client.read_latest(&format!("{path}/{COUNTERS}")).await {
            Ok((data, _)) => parse(&data, path).map(Some),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes the ledger of a name atomically. Of several concurrent changes one succeeds, and the others retry.
    async fn update_ledger<T>(
        &self,
        session: &Session,
        path: &str,
        change: impl Fn(&mut Ledger) -> RequestResult<T>,
    ) -> RequestResult<(T, Ledger)> {
        let node = format!("{path}/{COUNTERS}");
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));
        loop {
            let (mut ledger, version) = match session.client.read_latest(&node).await {
                Ok((data, stat)) => (parse(&data, path)?, Some(stat.version)),
                Err(error) if error.is_no_node() => (Ledger::default(), None),
                Err(error) => return Err(error),
            };
            let out = change(&mut ledger)?;
            if !ledger.effects.dirty {
                return Ok((out, ledger));
            }
            let data =
                serde_json::to_vec(&ledger).map_err(|e| RequestError::NotSent(e.to_string().into()))?;
            if data.len() > LARGEST {
                // It will shrink: only operations in flight are remembered.
                return Err(RequestError::not_sent(format!(
                    "{node} would have {} bytes, but servers accept at most {LARGEST}: too many changes of it are in \
                     flight at once",
                    data.len()
                )));
            }
            let written = match version {
                Some(version) if ledger.is_idle() => session.client.delete(&node, Some(version)).await,
                Some(version) => session.client.write(&node, &data, Some(version)).await,
                None if ledger.is_idle() => Ok(()),
                None => match session.client.create(&node, &data, Mode::Persistent).await {
                    Err(error) if error.is_no_node() => {
                        self.make_folders(session, path).await?;
                        continue;
                    }
                    answer => answer.map(drop),
                },
            };
            match written {
                Ok(()) => return Ok((out, ledger)),
                Err(RequestError::Refused(
                    ErrorCode::BAD_VERSION | ErrorCode::NODE_EXISTS | ErrorCode::NO_NODE,
                )) => {
                    tokio::time::sleep(backoff.failed()).await;
                }
                // The change may have been made before the session ended, and its node is persistent.
                Err(RequestError::SessionEnded(why)) => return Err(RequestError::Unknown(why)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes the remembered operations of an opened latch after a while, since nobody else would. Not sooner: a
    /// client that has read the node must have written or died before a new node of that name can have the same
    /// version.
    fn prune_ledger_later(self: &Arc<Self>, path: &str) {
        if !self.prune_scheduled.lock().unwrap().insert(path.to_owned()) {
            return;
        }
        let (store, path) = (Arc::downgrade(self), path.to_owned());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(OPS_REMEMBERED_FOR).await;
                let Some(store) = store.upgrade() else { return };
                if !matches!(store.prune_ledger(&path).await, Ok(ledger) if has_only_remembered_ops(&ledger))
                {
                    store.prune_scheduled.lock().unwrap().remove(&path);
                    return;
                }
            }
        });
    }

    /// Deletes the ledger of a name if it only has operations that are not retried any more, or the size of a semaphore
    /// that nobody has used for long. For names that are not in use.
    pub(crate) async fn prune_ledger(&self, path: &str) -> RequestResult<Ledger> {
        let Some(session) = self.sessions.current().await else { return Ok(Ledger::default()) };
        let prune = |ledger: &mut Ledger| {
            ledger.prune(now());
            Ok(())
        };
        Ok(self.update_ledger(&session, path, prune).await?.1)
    }
}

/// Whether the size of a semaphore is forgotten unless permits are in use.
pub(crate) fn has_idle_size(ledger: &Ledger) -> bool {
    ledger.idle.as_ref().is_some_and(|idle| idle.is_over(now()))
}

pub(crate) fn has_only_remembered_ops(ledger: &Ledger) -> bool {
    ledger.count.is_none() && ledger.size.is_none() && !ledger.ops.is_empty()
}

fn parse(data: &[u8], path: &str) -> RequestResult<Ledger> {
    serde_json::from_slice(data).map_err(|e| {
        RequestError::Config(Error::Config(format!(
            "{SCHEME}: {path}/{COUNTERS} was not written by this library: {e}"
        )))
    })
}

/// The servers provide no time, so operations are remembered by the wall clocks of the clients.
fn now() -> Now {
    let wall = wall_micros();
    Now { clock: 0, tick: wall, wall }
}
