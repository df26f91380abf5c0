//! The state of one claim in the store, from its first attempt until all its nodes are gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use tenure_core::{Claim, Fence, HoldId, Kind};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::recipe::path::{LEASES, LOCKS};
use crate::session::Session;

/// All claims of this client that may have nodes in the store.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<HoldId, Arc<Place>>,
    by_path: HashMap<String, Vec<Arc<Place>>>,
}

impl Places {
    pub(crate) fn get(&self, id: HoldId) -> Option<Arc<Place>> {
        self.0.lock().unwrap().by_id.get(&id).cloned()
    }

    /// The entry of this claim, created if it is new.
    pub(crate) fn of(&self, claim: &Claim, path: &str) -> Arc<Place> {
        let mut known = self.0.lock().unwrap();
        if let Some(place) = known.by_id.get(&claim.id) {
            return place.clone();
        }
        let place = Arc::new(Place::new(claim, path));
        known.by_id.insert(claim.id, place.clone());
        known.by_path.entry(path.to_owned()).or_default().push(place.clone());
        place
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().by_id.is_empty()
    }

    pub(crate) fn forget(&self, id: HoldId) {
        let mut known = self.0.lock().unwrap();
        let Some(place) = known.by_id.remove(&id) else { return };
        if let Some(there) = known.by_path.get_mut(&place.path) {
            there.retain(|other| other.id != id);
            if there.is_empty() {
                known.by_path.remove(&place.path);
            }
        }
    }

    /// The claim of this client that blocks a non-waiting claim which has no entry yet.
    pub(crate) fn in_the_way(&self, claim: &Claim, path: &str) -> Option<InTheWay> {
        let exclusive = |kind: &Kind| matches!(kind, Kind::Lock | Kind::FairLock | Kind::Write);
        if claim.wait.is_some() || claim.holds > 1 || !exclusive(&claim.kind) {
            return None;
        }
        let known = self.0.lock().unwrap();
        if known.by_id.contains_key(&claim.id) {
            return None;
        }
        let writes = |kind: &Kind| *kind == Kind::Write;
        let alike =
            |place: &&Arc<Place>| exclusive(&place.kind) && writes(&place.kind) == writes(&claim.kind);
        let there = || known.by_path.get(path).into_iter().flatten().filter(alike);
        match there().find(|place| place.stands()) {
            Some(place) => Some(InTheWay::Stands(place.id)),
            None => there().next().cloned().map(InTheWay::Comes),
        }
    }
}

pub(crate) enum InTheWay {
    /// Its node is certain to be ahead of any new one: the claim is busy without asking a server.
    Stands(HoldId),
    /// Its attempt is in flight, and may be ahead once it is answered.
    Comes(Arc<Place>),
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: HoldId,
    pub(crate) kind: Kind,
    /// The path of the name.
    pub(crate) path: String,
    /// Serialises operations on the claim: a release waits for the attempt that it undoes.
    pub(crate) stay: tokio::sync::Mutex<Stay>,
    /// State for readers that cannot wait for `stay`.
    seen: Mutex<Seen>,
    /// Whether the holder was asked to release.
    pub(crate) asked: watch::Sender<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) hold: Option<Hold>,
    /// Its queue position.
    pub(crate) queued: Option<Queued>,
}

#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    /// The doubt count when it was last seen.
    pub(crate) seen_at: u64,
}

/// A granted hold.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) session: Arc<Session>,
    /// The paths of its nodes.
    pub(crate) paths: Vec<String>,
    pub(crate) fence: Fence,
    /// The number of the connection over which its nodes are watched; 0 if they are not watched yet.
    pub(crate) watched_on: u64,
    pub(crate) watches: Watches,
    /// Whether a node of it was deleted by another client.
    pub(crate) gone: bool,
}

impl Hold {
    pub(crate) fn is_good(&self) -> bool {
        !self.gone && !self.session.is_over()
    }
}

/// Tasks that are aborted with the hold.
#[derive(Debug, Default)]
pub(crate) struct Watches(pub(crate) Vec<AbortHandle>);

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Stay {
    /// The session that its nodes belong to.
    pub(crate) session: Option<Arc<Session>>,
    /// Its node in the queue.
    pub(crate) node: Option<Node>,
    /// An unknown node may exist: look for it before creating another.
    pub(crate) unsure: bool,
    /// An unknown node may have existed: look for it again after the release.
    pub(crate) hunt: bool,
    /// The unknown node may be a read that shares its owner's writer's position. The writer may have been expelled and
    /// others admitted since, so this node is not a valid queue position.
    pub(crate) unplaced: bool,
    /// The claim was released: no more nodes are created.
    pub(crate) left: bool,
    /// The watch on the node ahead.
    pub(crate) armed: Option<Armed>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) born: i64,
}

impl Node {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }
}

/// An active watch.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) path: String,
    pub(crate) fired: Arc<AtomicBool>,
    pub(crate) task: AbortHandle,
}

impl Armed {
    pub(crate) fn is_for(&self, path: &str) -> bool {
        self.path == path && !self.fired.load(SeqCst)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Place {
    fn new(claim: &Claim, path: &str) -> Self {
        Self {
            id: claim.id,
            kind: claim.kind,
            path: path.to_owned(),
            stay: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            asked: watch::Sender::new(false),
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Whether it has a node, as far as this process knows.
    fn stands(&self) -> bool {
        let seen = self.seen();
        let held = seen.hold.as_ref().is_some_and(|hold| !hold.gone && hold.session.is_certain());
        held || seen.queued.as_ref().is_some_and(|queued| queued.session.is_certain())
    }

    /// The folder of its queue.
    pub(crate) fn folder(&self) -> String {
        match self.kind {
            Kind::Permit { .. } => format!("{}/{LOCKS}", self.path),
            _ => self.path.clone(),
        }
    }
}

/// The folders where a claim of this kind may have nodes.
pub(crate) fn folders(path: &str, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Permit { .. } => vec![format!("{path}/{LOCKS}"), format!("{path}/{LEASES}")],
        _ => vec![path.to_owned()],
    }
}

impl Stay {
    /// Moves to a session. Nodes of another session end with that one.
    pub(crate) fn in_session(&mut self, session: &Arc<Session>) {
        if !self.session.as_ref().is_some_and(|s| Arc::ptr_eq(s, session)) {
            *self = Self { session: Some(session.clone()), left: self.left, ..Self::default() };
        }
    }

    /// Records that a request which may have created a node was not answered.
    pub(crate) fn doubt(&mut self) {
        self.unsure = true;
        self.hunt = true;
    }

    /// Records an unanswered create of a read that shares its owner's writer's position.
    pub(crate) fn doubt_under_write(&mut self) {
        self.doubt();
        self.unplaced = true;
    }

    /// Whether it certainly has no node in the store.
    pub(crate) fn is_nothing(&self) -> bool {
        self.node.is_none() && !self.hunt
    }

    /// Whether it has no node and no watch.
    pub(crate) fn is_over(&self) -> bool {
        self.is_nothing() && self.armed.is_none()
    }
}
