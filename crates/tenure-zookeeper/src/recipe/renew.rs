//! Renewal: confirms that the session lives, once for all holds, and that their nodes were not deleted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::backend::Renewal;
use tenure_core::{Claim, HoldId};
use tokio::sync::mpsc;

use crate::error::{RequestError, RequestResult};
use crate::recipe::Store;
use crate::recipe::claim_record::{ClaimRecord, Hold, OwnWatch};
use crate::recipe::revoke::REVOKE;
use crate::session::Session;
use crate::wire::Change;

/// How long a lock is held before its nodes are watched, so that short holds cost no request.
const WATCH_DELAY: Duration = Duration::from_millis(50);

impl Store {
    pub(crate) async fn renew(self: &Arc<Self>, claims: &[Arc<Claim>]) -> RequestResult<Vec<Renewal>> {
        let records: Vec<Option<Arc<ClaimRecord>>> =
            claims.iter().map(|claim| self.records.get(claim.id)).collect();
        self.heartbeat_sessions(&records).await?;
        self.check_queue_positions(&records).await?;
        let answers = records.iter().map(async |record| match record {
            Some(record) => self.renew_one(record).await,
            None => Renewal::Gone,
        });
        Ok(join_all(answers).await)
    }

    /// Sends a heartbeat for each session, unless its last heartbeat is recent.
    async fn heartbeat_sessions(&self, records: &[Option<Arc<ClaimRecord>>]) -> RequestResult<()> {
        let session_of = |record: &Arc<ClaimRecord>| {
            let status = record.status();
            status
                .hold
                .as_ref()
                .map(|h| h.session.clone())
                .or_else(|| Some(status.queue_position.as_ref()?.session.clone()))
        };
        let mut sessions: Vec<Arc<Session>> = records.iter().flatten().filter_map(session_of).collect();
        sessions.dedup_by(|a, b| Arc::ptr_eq(a, b));
        for session in sessions.iter().filter(|s| !s.is_over() && s.is_heartbeat_overdue()) {
            session.send_heartbeat().await?;
        }
        Ok(())
    }

    /// Checks queue nodes that were last seen before the latest suspicion, with one list per queue.
    async fn check_queue_positions(&self, records: &[Option<Arc<ClaimRecord>>]) -> RequestResult<()> {
        let suspicions = self.suspicion.times();
        let mut folders: HashMap<String, Vec<&Arc<ClaimRecord>>> = HashMap::new();
        for record in records.iter().flatten() {
            if record
                .status()
                .queue_position
                .as_ref()
                .is_some_and(|q| q.suspicions_when_seen != suspicions && !q.session.is_over())
            {
                folders.entry(record.queue_folder()).or_default().push(record);
            }
        }
        for (folder, records) in folders {
            let Some(session) = self.sessions.current().await else { return Ok(()) };
            session.client.sync().await?;
            let names = match session.client.list(&folder).await {
                Err(error) if error.is_no_node() => Vec::new(),
                names => names?,
            };
            let names: HashSet<String> = names.into_iter().map(|name| format!("{folder}/{name}")).collect();
            for record in records {
                let mut status = record.status();
                match &mut status.queue_position {
                    Some(queued) if names.contains(&queued.path) => queued.suspicions_when_seen = suspicions,
                    queued => *queued = None,
                }
            }
        }
        Ok(())
    }

    async fn renew_one(self: &Arc<Self>, record: &Arc<ClaimRecord>) -> Renewal {
        {
            let status = record.status();
            match (&status.hold, &status.queue_position) {
                (Some(hold), _) if !hold.is_valid() => return Renewal::Gone,
                (Some(hold), _) if hold.watched_connection == hold.session.connection_number() => {
                    return Renewal::Held { until: hold.session.deadline() };
                }
                (Some(_), _) => {}
                (None, Some(queued)) if !queued.session.is_over() => return Renewal::Queued,
                (None, _) => return Renewal::Gone,
            }
        }
        match self.watch_nodes(record).await {
            Ok(true) => match &record.status().hold {
                Some(hold) if hold.is_valid() => Renewal::Held { until: hold.session.deadline() },
                _ => Renewal::Gone,
            },
            Ok(false) => Renewal::Gone,
            Err(RequestError::SessionEnded(_)) => Renewal::Gone,
            Err(_) => Renewal::Unanswered,
        }
    }

    /// Reads and watches the nodes of a hold. Returns whether all exist and belong to our session.
    pub(crate) async fn watch_nodes(self: &Arc<Self>, record: &Arc<ClaimRecord>) -> RequestResult<bool> {
        let Some((session, paths)) = ({
            let status = record.status();
            status.hold.as_ref().map(|hold| (hold.session.clone(), hold.paths.clone()))
        }) else {
            return Ok(false);
        };
        let connection = session.connection_number();
        let answers = join_all(paths.iter().map(|path| session.client.read_and_watch(path))).await;
        let (mut watches, mut there) = (Vec::with_capacity(paths.len()), true);
        for answer in answers {
            match answer {
                Ok((data, stat, watcher)) if stat.owner == session.id => {
                    record.check_revocation(&data);
                    watches.push(watcher.follow(record.id, &self.hold_events));
                }
                Ok(_) => there = false,
                Err(error) if error.is_no_node() => there = false,
                Err(error) => return Err(error),
            }
        }
        if let Some(hold) = record.status().hold.as_mut().filter(|hold| hold.paths == paths) {
            hold.watched_connection = connection;
            hold.watches = watches.into_boxed_slice();
            hold.is_deleted |= !there;
        }
        Ok(there)
    }

    /// Watches the node of a hold by a watch that is set already.
    pub(crate) fn follow(&self, record: &ClaimRecord, OwnWatch { connection, watcher }: OwnWatch) {
        if let Some(hold) = record.status().hold.as_mut() {
            hold.watched_connection = connection;
            hold.watches = Box::new([watcher.follow(record.id, &self.hold_events)]);
        }
    }

    /// Has the hold checked, whose nodes may be gone.
    fn doubt(&self, record: &ClaimRecord, is_deleted: bool) {
        if let Some(hold) = record.status().hold.as_mut() {
            hold.is_deleted |= is_deleted;
            hold.watched_connection = 0;
        }
        self.suspicion.raise();
    }

    /// Schedules watching its nodes, if it is still held then.
    pub(crate) fn watch_later(&self, record: &Arc<ClaimRecord>) {
        let mut unwatched = self.unwatched.lock().unwrap();
        unwatched.push(Arc::downgrade(record));
        if unwatched.len() == 1 {
            self.unwatched_added.notify_one();
        }
    }
}

/// Watches the nodes of holds that have lasted for [`WATCH_DELAY`].
pub(crate) async fn watch_after_delay(store: Weak<Store>, unwatched_added: Arc<tokio::sync::Notify>) {
    loop {
        unwatched_added.notified().await;
        tokio::time::sleep(WATCH_DELAY).await;
        let Some(store) = store.upgrade() else { return };
        let unwatched = std::mem::take(&mut *store.unwatched.lock().unwrap());
        let held: Vec<Arc<ClaimRecord>> = unwatched
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|record| record.status().hold.as_ref().is_some_and(|hold| hold.watched_connection == 0))
            .collect();
        for some in held.chunks(100) {
            let answers = join_all(some.iter().map(|record| store.watch_nodes(record))).await;
            let gone =
                |record: &Arc<ClaimRecord>| record.status().hold.as_ref().is_some_and(|hold| hold.is_deleted);
            if answers.iter().zip(some).any(|(answer, record)| matches!(answer, Ok(false)) && gone(record)) {
                store.suspicion.raise();
            }
        }
    }
}

/// Reacts to changes of the nodes of holds.
pub(crate) async fn follow_holds(
    store: Weak<Store>,
    mut events: mpsc::UnboundedReceiver<(HoldId, u64, Change)>,
) {
    while let Some((id, watch, change)) = events.recv().await {
        let Some(store) = store.upgrade() else { return };
        let Some(record) = store.records.get(id) else { continue };
        // Not an event of an earlier node, or of one that was released since.
        let is_current = |hold: &Hold| hold.watches.iter().any(|watcher| watcher.id() == watch);
        if !record.status().hold.as_ref().is_some_and(is_current) {
            continue;
        }
        match change {
            Change::Deleted => store.doubt(&record, true),
            // The task that follows the session reports its end.
            Change::SessionOver => {}
            _ => drop(tokio::spawn(async move {
                if !matches!(store.watch_nodes(&record).await, Ok(true)) {
                    store.doubt(&record, false);
                }
            })),
        }
    }
}

impl ClaimRecord {
    /// Handles the data of the hold's node, which may ask the holder to release.
    pub(crate) fn check_revocation(&self, data: &[u8]) {
        if data == REVOKE {
            self.revocation().send_replace(true);
        }
    }
}
