//! What this process knows about each of its claims, from the first attempt until all its nodes are deleted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tenure_core::{Claim, Fence, HoldId, Kind};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::recipe::empty_queues::FolderWatch;
use crate::recipe::path::{LEASES, LOCKS};
use crate::session::Session;
use crate::wire::{Change, Watcher};

/// All claims of this client that may have nodes in the store.
#[derive(Debug, Default)]
pub(crate) struct ClaimRecords(Mutex<Index>);

#[derive(Debug, Default)]
struct Index {
    by_id: HashMap<HoldId, Arc<ClaimRecord>>,
    by_path: HashMap<String, Vec<Arc<ClaimRecord>>>,
}

impl ClaimRecords {
    pub(crate) fn get(&self, id: HoldId) -> Option<Arc<ClaimRecord>> {
        self.0.lock().unwrap().by_id.get(&id).cloned()
    }

    pub(crate) fn get_or_insert(&self, claim: &Claim, path: &str) -> Arc<ClaimRecord> {
        let mut index = self.0.lock().unwrap();
        if let Some(record) = index.by_id.get(&claim.id) {
            return record.clone();
        }
        let record = Arc::new(ClaimRecord::new(claim, path));
        index.by_id.insert(claim.id, record.clone());
        // Most names have one claim at a time.
        let same_path = index.by_path.entry(path.to_owned()).or_insert_with(|| Vec::with_capacity(1));
        same_path.push(record.clone());
        record
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().by_id.is_empty()
    }

    pub(crate) fn remove(&self, id: HoldId) {
        let mut index = self.0.lock().unwrap();
        let Some(record) = index.by_id.remove(&id) else { return };
        if let Some(same_path) = index.by_path.get_mut(&record.path) {
            same_path.retain(|other| other.id != id);
            if same_path.is_empty() {
                index.by_path.remove(&record.path);
            }
        }
    }

    /// The claim of this client that blocks a non-waiting claim which has no record yet.
    pub(crate) fn local_blocker(&self, claim: &Claim, path: &str) -> Option<LocalBlocker> {
        let exclusive = |kind: &Kind| matches!(kind, Kind::Lock | Kind::FairLock | Kind::Write);
        if claim.wait.is_some() || claim.holds > 1 || !exclusive(&claim.kind) {
            return None;
        }
        let index = self.0.lock().unwrap();
        if index.by_id.contains_key(&claim.id) {
            return None;
        }
        let writes = |kind: &Kind| *kind == Kind::Write;
        let excludes =
            |other: &&Arc<ClaimRecord>| exclusive(&other.kind) && writes(&other.kind) == writes(&claim.kind);
        let blockers = || index.by_path.get(path).into_iter().flatten().filter(excludes);
        match blockers().find(|other| other.certainly_has_node()) {
            Some(other) => Some(LocalBlocker::HasNode(other.id)),
            None => blockers().next().cloned().map(LocalBlocker::InFlight),
        }
    }
}

pub(crate) enum LocalBlocker {
    /// Its node is certain to be ahead of any new one: the claim is busy without asking a server.
    HasNode(HoldId),
    /// Its attempt is in flight, and may be ahead once it is answered.
    InFlight(Arc<ClaimRecord>),
}

#[derive(Debug)]
pub(crate) struct ClaimRecord {
    pub(crate) id: HoldId,
    pub(crate) kind: Kind,
    /// The path of the name.
    pub(crate) path: String,
    /// Locked by each operation on the claim: a release waits for the attempt that it undoes.
    pub(crate) attempt: tokio::sync::Mutex<AttemptState>,
    /// State for readers that cannot wait for `attempt`.
    status: Mutex<Status>,
    /// Whether the holder was asked to release. Few are, or ask whether they are.
    revocation: OnceLock<watch::Sender<bool>>,
}

#[derive(Debug, Default)]
pub(crate) struct Status {
    pub(crate) hold: Option<Hold>,
    pub(crate) queue_position: Option<QueuePosition>,
}

/// The node of a waiter.
#[derive(Clone, Debug)]
pub(crate) struct QueuePosition {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    /// The suspicion count when the node was last seen.
    pub(crate) suspicions_when_seen: u64,
}

/// A granted hold.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) session: Arc<Session>,
    /// The paths of its nodes.
    pub(crate) paths: Vec<String>,
    pub(crate) fence: Fence,
    /// The number of the connection over which its nodes are watched; 0 if they are not watched yet.
    pub(crate) watched_connection: u64,
    pub(crate) watches: Box<[Watcher]>,
    /// The watch of its folder, if it was alone there.
    pub(crate) alone: Option<Box<FolderWatch>>,
    /// Whether a node of it was deleted by another client.
    pub(crate) is_deleted: bool,
}

impl Hold {
    pub(crate) fn is_valid(&self) -> bool {
        !self.is_deleted && !self.session.is_over()
    }
}

/// The nodes and the watch of a claim, as far as its attempts got.
#[derive(Debug, Default)]
pub(crate) struct AttemptState {
    /// The session that its nodes belong to.
    pub(crate) session: Option<Arc<Session>>,
    /// Its node in the queue.
    pub(crate) node: Option<QueueNode>,
    /// A create was not answered: look for its node before creating another.
    pub(crate) create_unanswered: bool,
    /// A create was not answered at some time: look for its node again after the release.
    pub(crate) search_on_release: bool,
    /// The unanswered create may be a read that shares the position of its owner's write node. That node may have been
    /// expelled and others admitted since, so the read node is not a valid queue position.
    pub(crate) is_position_invalid: bool,
    /// No more nodes are created.
    pub(crate) is_released: bool,
    pub(crate) wake_watch: Option<Box<WakeWatch>>,
    /// The watch of its folder, set together with its node, or before.
    pub(crate) folder_watch: Option<Box<FolderWatch>>,
}

#[derive(Clone, Debug)]
pub(crate) struct QueueNode {
    pub(crate) path: String,
    pub(crate) czxid: i64,
}

impl QueueNode {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }
}

/// A watch that wakes the waiting claim: on the node ahead of it, or on the leases.
#[derive(Debug)]
pub(crate) struct WakeWatch {
    pub(crate) path: String,
    /// What has happened.
    pub(crate) fired: Arc<OnceLock<Change>>,
    pub(crate) task: AbortHandle,
    /// The watch of the claim's own node, if the other node is the only one that blocks it.
    pub(crate) own: Option<OwnWatch>,
}

/// The watch of a claim's own node.
#[derive(Debug)]
pub(crate) struct OwnWatch {
    /// The connection over which it was set.
    pub(crate) connection: u64,
    pub(crate) watcher: Watcher,
}

impl OwnWatch {
    /// Whether the node has been there since the watch was set, as far as the server has reported.
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        self.connection == session.connection_number() && !self.watcher.has_fired()
    }
}

impl WakeWatch {
    pub(crate) fn is_set_on(&self, path: &str) -> bool {
        self.path == path && self.fired.get().is_none()
    }

    /// Whether the node that blocked the claim is deleted.
    fn is_over(&self) -> bool {
        self.fired.get() == Some(&Change::Deleted)
    }
}

impl Drop for WakeWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ClaimRecord {
    fn new(claim: &Claim, path: &str) -> Self {
        Self {
            id: claim.id,
            kind: claim.kind,
            path: path.to_owned(),
            attempt: tokio::sync::Mutex::default(),
            status: Mutex::default(),
            revocation: OnceLock::new(),
        }
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap()
    }

    /// Whether the holder was asked to release.
    pub(crate) fn revocation(&self) -> &watch::Sender<bool> {
        self.revocation.get_or_init(|| watch::Sender::new(false))
    }

    /// Whether it has a node, by the local clock and without a request.
    fn certainly_has_node(&self) -> bool {
        let status = self.status();
        let held =
            status.hold.as_ref().is_some_and(|hold| !hold.is_deleted && hold.session.is_certainly_alive());
        held || status.queue_position.as_ref().is_some_and(|position| position.session.is_certainly_alive())
    }

    pub(crate) fn queue_folder(&self) -> String {
        match self.kind {
            Kind::Permit { .. } => format!("{}/{LOCKS}", self.path),
            _ => self.path.clone(),
        }
    }
}

/// The folders where a claim of this kind may have nodes.
pub(crate) fn node_folders(path: &str, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Permit { .. } => vec![format!("{path}/{LOCKS}"), format!("{path}/{LEASES}")],
        _ => vec![path.to_owned()],
    }
}

impl AttemptState {
    /// Moves to a session. Nodes of another session end with that one.
    pub(crate) fn use_session(&mut self, session: &Arc<Session>) {
        if !self.session.as_ref().is_some_and(|s| Arc::ptr_eq(s, session)) {
            *self = Self { session: Some(session.clone()), is_released: self.is_released, ..Self::default() };
        }
    }

    pub(crate) fn record_unanswered_create(&mut self) {
        self.create_unanswered = true;
        self.search_on_release = true;
    }

    /// Records an unanswered create of a read that shares the position of its owner's write node.
    pub(crate) fn record_unanswered_read_under_write(&mut self) {
        self.record_unanswered_create();
        self.is_position_invalid = true;
    }

    /// Returns the watch of its own node if the claim is certainly first now: the only node that blocked it was deleted
    /// before its own, if that was deleted at all. The server reports changes in their order.
    pub(crate) fn take_turn(&mut self, session: &Session) -> Option<OwnWatch> {
        self.wake_watch.as_ref().filter(|watch| watch.is_over())?;
        let mut watch = self.wake_watch.take()?;
        watch.own.take().filter(|own| own.is_current(session))
    }

    /// Whether it certainly has no node in the store.
    pub(crate) fn has_no_node(&self) -> bool {
        self.node.is_none() && !self.search_on_release
    }

    /// Whether it has no node and no watch.
    pub(crate) fn is_idle(&self) -> bool {
        self.has_no_node() && self.wake_watch.is_none()
    }
}
