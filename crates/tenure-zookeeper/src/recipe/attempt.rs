//! Attempts: create a node in the queue, and check which nodes are before it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{join, join3};
use tenure_core::backend::Attempt;
use tenure_core::ledger::in_use;
use tenure_core::{Claim, Fence, HoldId, Kind};

use crate::error::{RequestError, RequestResult};
use crate::recipe::Store;
use crate::recipe::claim_record::{
    AttemptState, ClaimRecord, Hold, OwnWatch, QueueNode, QueuePosition, WakeWatch,
};
use crate::recipe::empty_queues::FolderWatch;
use crate::recipe::node::{self, Child, Marker};
use crate::recipe::permits::Permits;
use crate::recipe::queue::Queue;
use crate::session::Session;
use crate::wire::{Change, Created, ErrorCode, Mode};

/// How often one attempt may lose its folder, its own node or its session before it fails.
pub(crate) const MAX_TRIES: usize = 8;

/// How soon a waiter behind another waiter of the same client retries.
const RETRY_BEHIND_OWN_WAITER: Duration = Duration::from_millis(50);

/// The outcome of an attempt.
pub(crate) enum Outcome {
    Granted(Granted),
    Busy { behind: Option<HoldId> },
}

pub(crate) struct Granted {
    pub(crate) fence: Fence,
    pub(crate) paths: Vec<String>,
    /// The watch of its node, if there is one already.
    pub(crate) watch: Option<OwnWatch>,
    /// The watch of its folder, if it was alone there.
    pub(crate) alone: Option<Box<FolderWatch>>,
}

impl Granted {
    pub(crate) fn new(fence: Fence, paths: Vec<String>) -> Self {
        Self { fence, paths, watch: None, alone: None }
    }

    fn of(node: &QueueNode) -> Self {
        Self::new(Fence(node.czxid as u64), vec![node.path.clone()])
    }
}

/// What became of watching the node ahead.
enum Ahead {
    Watched,
    Deleted,
    /// It is deleted, and was the only one; here is the watch of the claim's own node.
    First(OwnWatch),
}

impl Store {
    /// Makes one attempt for `claim`.
    pub(crate) async fn try_acquire(
        self: &Arc<Self>,
        record: &Arc<ClaimRecord>,
        claim: &Claim,
    ) -> RequestResult<Attempt> {
        let mut attempt = record.attempt.lock().await;
        let held =
            record.status().hold.as_ref().filter(|h| h.is_valid()).map(|h| (h.fence, h.session.clone()));
        if let Some((fence, session)) = held {
            let until = session
                .confirm_alive()
                .await
                .map_err(|error| unknown_if_node_may_exist(&attempt, error, true))?;
            return Ok(Attempt::Granted { fence: Some(fence), until, spare: 0 });
        }
        if claim.holds > 1 || attempt.is_released {
            return Ok(Attempt::Gone);
        }
        record.status().hold = None;
        let (suspicions, mut tries) = (self.suspicion.times(), 0);
        let answer = loop {
            tries += 1;
            match self.try_acquire_once(&mut attempt, record, claim).await {
                // Its nodes are gone with the session; retry in a new one.
                Err(RequestError::SessionEnded(_)) if tries < MAX_TRIES => attempt.node = None,
                answer => break answer,
            }
        };
        record.status().queue_position = match (&attempt.session, &attempt.node) {
            (Some(session), Some(node)) => Some(QueuePosition {
                session: session.clone(),
                path: node.path.clone(),
                suspicions_when_seen: suspicions,
            }),
            _ => None,
        };
        match answer {
            Ok(Outcome::Granted(Granted { fence, paths, watch, alone })) => {
                let Some(session) = attempt.session.clone() else { return Ok(Attempt::Gone) };
                attempt.wake_watch = None;
                {
                    let mut status = record.status();
                    status.queue_position = None;
                    status.hold = Some(Hold {
                        session: session.clone(),
                        paths,
                        fence,
                        watched_connection: 0,
                        watches: Box::default(),
                        alone,
                        is_deleted: false,
                    });
                }
                match watch {
                    Some(watch) => self.follow(record, watch),
                    None => self.watch_later(record),
                }
                // After a long silence it takes two round trips to confirm that the session lives. The lock is held
                // meanwhile, and a repeated attempt finds it.
                match session.confirm_alive().await {
                    Ok(until) => Ok(Attempt::Granted { fence: Some(fence), until, spare: 0 }),
                    Err(error) => Err(unknown_if_node_may_exist(&attempt, error, true)),
                }
            }
            Ok(Outcome::Busy { behind }) => {
                if attempt.is_idle() {
                    self.records.remove(record.id);
                }
                // The waiter before may not be watching yet, so a short retry makes sure that its turn is not missed.
                Ok(Attempt::Busy {
                    retry_after: behind.filter(|id| self.is_waiting(*id)).map(|_| RETRY_BEHIND_OWN_WAITER),
                    behind,
                    position: attempt.node.as_ref().map(|node| node.czxid as u64),
                })
            }
            Err(error) => {
                if attempt.has_no_node() {
                    self.records.remove(record.id);
                }
                Err(unknown_if_node_may_exist(&attempt, error, false))
            }
        }
    }

    async fn try_acquire_once(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        record: &Arc<ClaimRecord>,
        claim: &Claim,
    ) -> RequestResult<Outcome> {
        let session = self.sessions.get_or_connect().await?;
        attempt.use_session(&session);
        let had_node = attempt.node.is_some();
        let outcome = match claim.kind {
            Kind::Permit { n, limit } => {
                Permits { store: self, session: &session, record, claim, n, limit }.acquire(attempt).await
            }
            Kind::Read { under_write: Some(writer) } => {
                match self.acquire_read_under_write(&session, record, claim, writer).await {
                    None => self.acquire_in_queue(attempt, &session, record, claim).await,
                    Some(answer) => {
                        if answer.as_ref().is_err_and(RequestError::is_unknown) {
                            attempt.record_unanswered_read_under_write();
                        }
                        answer
                    }
                }
            }
            _ => self.acquire_in_queue(attempt, &session, record, claim).await,
        };
        let keeps_node = match &outcome {
            Ok(Outcome::Granted(_)) => true,
            Ok(Outcome::Busy { .. }) => claim.wait.is_some() || had_node,
            // An uncertain outcome is left to the release that follows, or to the next attempt.
            Err(error) => !matches!(error, RequestError::Config(_) | RequestError::Refused(_)),
        };
        if !keeps_node && let Some(node) = attempt.node.take() {
            self.delete_or_retry(&session, node.path).await;
        }
        outcome
    }

    /// All kinds but permits: granted if no node ahead blocks it.
    async fn acquire_in_queue(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &Arc<ClaimRecord>,
        claim: &Claim,
    ) -> RequestResult<Outcome> {
        let folder = record.queue_folder();
        if let Some(watch) = attempt.take_turn(session)
            && let Some(node) = &attempt.node
        {
            return Ok(Outcome::Granted(Granted { watch: Some(watch), ..Granted::of(node) }));
        }
        for _ in 0..MAX_TRIES {
            let (queue, at) =
                self.join_queue(attempt, session, record, &folder, marker(&claim.kind), claim).await?;
            queue.check_family(&claim.name, claim.kind.family()).map_err(RequestError::Config)?;
            if queue.has_ledger
                && let Some(used) = self.read_ledger(session, &record.path).await?.and_then(|l| l.family())
            {
                return Err(RequestError::Config(in_use(&claim.name, used, claim.kind.family())));
            }
            match queue.blocker(at, &claim.kind) {
                None => {
                    let folder_watch = attempt.folder_watch.take();
                    let Some(node) = &attempt.node else { continue };
                    let alone = folder_watch.filter(|_| queue.is_alone());
                    return Ok(Outcome::Granted(Granted { alone, ..Granted::of(node) }));
                }
                Some(child) => {
                    if self.delete_orphans(session, &folder, &queue, at, record.id.client).await? {
                        continue;
                    }
                    let is_only = queue.has_one_blocker(at, &claim.kind);
                    let ahead = match claim.wait {
                        None => Ahead::Watched,
                        Some(_) => {
                            self.watch_predecessor(attempt, session, record, &folder, child, is_only).await?
                        }
                    };
                    match (ahead, &attempt.node) {
                        (Ahead::Watched, _) => {
                            return Ok(Outcome::Busy { behind: self.own_hold_ahead(&queue, at, record) });
                        }
                        (Ahead::First(watch), Some(node)) => {
                            return Ok(Outcome::Granted(Granted { watch: Some(watch), ..Granted::of(node) }));
                        }
                        _ => {}
                    }
                }
            }
        }
        Err(queue_changed_too_often())
    }

    /// The first hold of this client that waits ahead: it is granted first, whether it has noticed yet or not. If
    /// there is none, one that holds: its caller may not have received the answer yet.
    pub(crate) fn own_hold_ahead(&self, queue: &Queue, at: usize, record: &ClaimRecord) -> Option<HoldId> {
        let ours = || queue.holds_ahead(at, record.id.client);
        ours().find(|id| self.is_waiting(*id)).or_else(|| ours().find(|id| self.records.get(*id).is_some()))
    }

    fn is_waiting(&self, id: HoldId) -> bool {
        self.records.get(id).is_some_and(|record| record.status().hold.is_none())
    }

    /// Makes sure that the claim has a node in `folder`, and returns the queue and its position.
    pub(crate) async fn join_queue(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &Arc<ClaimRecord>,
        folder: &str,
        marker: Marker,
        claim: &Claim,
    ) -> RequestResult<(Arc<Queue>, usize)> {
        for _ in 0..MAX_TRIES {
            if attempt.create_unanswered {
                self.find_unanswered_node(attempt, session, record, folder).await?;
            }
            let queue = match &attempt.node {
                Some(_) => self.listings.list(session, folder).await?,
                None => match self.create_node(attempt, session, record, folder, marker, claim).await? {
                    Some(queue) => queue,
                    None => continue,
                },
            };
            match attempt.node.as_ref().and_then(|node| queue.position(node.name())) {
                Some(at) if queue.children[at].is_last_number() => {
                    if let Some(node) = attempt.node.take() {
                        self.delete_or_retry(session, node.path).await;
                    }
                    return Err(RequestError::not_sent(format!(
                        "{folder} has used up its sequence numbers: delete it when it is empty, which the server \
                         does within a minute if it is a container"
                    )));
                }
                Some(at) => return Ok((queue, at)),
                // Another client has deleted it.
                None => attempt.node = None,
            }
        }
        Err(RequestError::not_sent(format!("its nodes in {folder} were deleted by another client each time")))
    }

    /// Creates a node in `folder`, and returns the queue. `None` if it has to be tried again.
    async fn create_node(
        &self,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &ClaimRecord,
        folder: &str,
        marker: Marker,
        claim: &Claim,
    ) -> RequestResult<Option<Arc<Queue>>> {
        let client = &session.client;
        let stem = format!("{folder}/{}", node::stem(record.id, marker, &self.process));
        let note = claim.note.as_deref().unwrap_or("").as_bytes();
        let connection = session.connection_number();
        attempt.folder_watch = None;
        // All requests are sent at once, and executed in this order. If the queue is being read, the next list after the
        // create is shared with others.
        let (created, queue) = match self.empty_queues.take(session, folder) {
            Some(empty) if empty.is_watched() => {
                let created = client.create_together(&stem, note).await;
                let first = created.as_ref().ok().and_then(|node| {
                    attempt.folder_watch = empty.into_first(session, &node.path).map(Box::new);
                    attempt.folder_watch.as_ref()?;
                    Some(Ok(Arc::new(Queue::new([node.name()]))))
                });
                (created, first)
            }
            Some(_) => match self.listings.begin(session, folder) {
                Some(turn) => {
                    let create = client.create_together(&stem, note);
                    let (created, queue, watched) =
                        join3(create, turn.list(), client.stat_and_watch(folder)).await;
                    let watcher = watched.ok().and_then(|(stat, watcher)| stat.map(|_| watcher));
                    attempt.folder_watch =
                        watcher.map(|w| Box::new(FolderWatch { connection, watcher: Some(w) }));
                    (created, Some(queue))
                }
                None => (client.create_together(&stem, note).await, None),
            },
            // The folder may not exist: that must not concern others.
            None => {
                let create = client.create(&stem, note, Mode::EphemeralSequential);
                attempt.folder_watch = Some(Box::new(FolderWatch { connection, watcher: None }));
                match self.listings.begin(session, folder) {
                    Some(turn) => {
                        let (created, queue) = join(create, turn.list()).await;
                        (created, Some(queue))
                    }
                    None => (create.await, None),
                }
            }
        };
        match created {
            Ok(Created { path, czxid, owner }) => {
                self.check_owner(session, owner)?;
                attempt.node = Some(QueueNode { path, czxid });
            }
            // Empty containers may be deleted by the server at any time.
            Err(error) if error.is_no_node() => {
                self.make_folders(session, folder).await?;
                return Ok(None);
            }
            Err(error) if error.is_rolled_back() => return Ok(None),
            Err(error) => {
                if error.is_unknown() {
                    attempt.record_unanswered_create();
                }
                return Err(error);
            }
        }
        match queue {
            Some(queue) => queue.map(Some),
            None => self.listings.list(session, folder).await.map(Some),
        }
    }

    /// Looks for a node whose creation was not answered.
    async fn find_unanswered_node(
        &self,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &ClaimRecord,
        folder: &str,
    ) -> RequestResult<()> {
        // After a sync, requests sent over an earlier connection have been executed or never will be.
        session.client.sync().await?;
        let names = match session.client.list(folder).await {
            Err(error) if error.is_no_node() => Vec::new(),
            names => names?,
        };
        let prefix = node::prefix(record.id);
        let mut mine: Vec<_> = names
            .iter()
            .filter(|n| n.starts_with(&prefix))
            .filter_map(|n| Child::parse(n.as_str()))
            .collect();
        mine.sort_by_key(|child| child.sequence);
        let mut found = None;
        for child in mine {
            let path = format!("{folder}/{}", child.name);
            if self.is_delete_pending(&path) {
                continue;
            }
            let known = attempt.node.as_ref().is_some_and(|node| node.path == path);
            match session.client.read(&path).await {
                Ok((_, stat))
                    if stat.owner == session.id
                        && (known || (found.is_none() && !attempt.is_position_invalid)) =>
                {
                    found = Some(QueueNode { path, czxid: stat.czxid });
                }
                // A duplicate, because the answer to an earlier create was lost; or a node without a valid queue
                // position.
                Ok((_, stat)) if stat.owner == session.id => match session.client.delete(&path, None).await {
                    Err(error) if !error.is_no_node() => return Err(error),
                    _ => {}
                },
                Ok(_) => {}
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        attempt.node = found;
        (attempt.create_unanswered, attempt.is_position_invalid) = (false, false);
        Ok(())
    }

    /// Checks that a node belongs to our session. Otherwise it would outlive the session, or end before it.
    pub(crate) fn check_owner(&self, session: &Session, owner: i64) -> RequestResult<()> {
        if owner == session.id {
            return Ok(());
        }
        session.end();
        Err(RequestError::SessionEnded(
            format!("the server created the node for session {owner:#x}, not for ours, {:#x}", session.id)
                .into(),
        ))
    }

    /// Watches `child`, to wake the watch of this claim when it is deleted. If it is the only one that blocks the claim,
    /// also watches the claim's own node, so that no request is needed then.
    async fn watch_predecessor(
        self: &Arc<Self>,
        attempt: &mut AttemptState,
        session: &Arc<Session>,
        record: &ClaimRecord,
        folder: &str,
        child: &Child,
        is_only: bool,
    ) -> RequestResult<Ahead> {
        if !self.subscribers.has_subscriber(record.id) {
            return Ok(Ahead::Watched);
        }
        let path = format!("{folder}/{}", child.name);
        if attempt.wake_watch.as_ref().is_some_and(|watch| watch.is_set_on(&path)) {
            return Ok(Ahead::Watched);
        }
        let connection = session.connection_number();
        // Uses a read, since an exists request would leave a watch behind if the node does not exist.
        let ahead = session.client.read_and_watch(&path);
        let (ahead, own) = match attempt.node.as_ref().filter(|_| is_only) {
            Some(node) => {
                // In this order: what this watch reports is no older than the first answer.
                let (ahead, own) = join(ahead, session.client.read_and_watch(&node.path)).await;
                (ahead, own.ok())
            }
            None => (ahead.await, None),
        };
        let own = own.filter(|(_, stat, _)| stat.owner == session.id).map(|(data, _, watcher)| {
            record.check_revocation(&data);
            OwnWatch { connection, watcher }
        });
        let watcher = match ahead {
            Ok((_, _, watcher)) => watcher,
            Err(error) if error.is_no_node() => {
                let own = own.filter(|own| own.is_current(session));
                return Ok(own.map_or(Ahead::Deleted, Ahead::First));
            }
            Err(error) => return Err(error),
        };
        self.wake_on(attempt, record, path, watcher.changed(), own);
        Ok(Ahead::Watched)
    }

    /// Wakes the watch of this claim when `change` completes.
    pub(crate) fn wake_on(
        &self,
        attempt: &mut AttemptState,
        record: &ClaimRecord,
        path: String,
        change: impl Future<Output = Change> + Send + 'static,
        own: Option<OwnWatch>,
    ) {
        let (subscribers, id, fired) = (self.subscribers.clone(), record.id, Arc::new(OnceLock::new()));
        let done = fired.clone();
        let task = tokio::spawn(async move {
            let _ = done.set(change.await);
            subscribers.notify(id);
        });
        attempt.wake_watch = Some(Box::new(WakeWatch { path, fired, task: task.abort_handle(), own }));
    }

    /// A read under the owner's own write lock shares the writer's queue position. `None` when there is no such
    /// writer.
    async fn acquire_read_under_write(
        self: &Arc<Self>,
        session: &Arc<Session>,
        record: &ClaimRecord,
        claim: &Claim,
        writer: HoldId,
    ) -> Option<RequestResult<Outcome>> {
        let writer = self.records.get(writer)?;
        let (fence, name, digits) = {
            let status = writer.status();
            let hold = status.hold.as_ref().filter(|h| h.is_valid() && Arc::ptr_eq(&h.session, session))?;
            let name = hold.paths.first()?.rsplit_once('/')?.1;
            (hold.fence, name.to_owned(), Child::parse(name)?.digits().to_owned())
        };
        let stem = node::stem(record.id, Marker::Read, &self.process);
        let path = format!("{}/{stem}{digits}", record.path);
        let note = claim.note.as_deref().unwrap_or("").as_bytes();
        let (created, names) =
            join(session.client.create(&path, note, Mode::Ephemeral), session.client.list(&record.path))
                .await;
        match (created, names) {
            // Node names are unique per hold, so an existing node is ours. The writer's node must still exist: it may
            // have been expelled, and another writer admitted.
            (Ok(_) | Err(RequestError::Refused(ErrorCode::NODE_EXISTS)), Ok(names))
                if names.contains(&name) =>
            {
                Some(Ok(Outcome::Granted(Granted::new(fence, vec![path]))))
            }
            (Ok(_) | Err(RequestError::Refused(ErrorCode::NODE_EXISTS)), Ok(_)) => {
                self.delete_or_retry(session, path).await;
                None
            }
            (Ok(_) | Err(RequestError::Refused(ErrorCode::NODE_EXISTS)), Err(error)) => {
                Some(Err(error.into_unknown()))
            }
            (Err(error), _) => Some(Err(error)),
        }
    }
}

/// While a node of it may exist, a failed attempt is *unknown*, not *unavailable*: it must be undone if it is given
/// up.
fn unknown_if_node_may_exist(attempt: &AttemptState, error: RequestError, is_held: bool) -> RequestError {
    match error {
        RequestError::Config(_) => error,
        _ if is_held || !attempt.has_no_node() => error.into_unknown(),
        _ => error,
    }
}

pub(crate) fn queue_changed_too_often() -> RequestError {
    RequestError::not_sent("the nodes ahead changed too often to be watched")
}

fn marker(kind: &Kind) -> Marker {
    match kind {
        Kind::Leader => Marker::Latch,
        Kind::Read { .. } => Marker::Read,
        Kind::Write => Marker::Write,
        _ => Marker::Lock,
    }
}
