//! The stay of one claim: what of it stands in the store, from its first attempt until all of that is gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use tenure_core::{Claim, Fence, HoldId, Kind};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::path::{LEASES, LOCKS};
use crate::session::Session;

/// All that may stand in the store by way of this client.
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

    /// The place of this claim, made when it is new.
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

    /// Who of this client is in the way of a claim that only asks, and has no place of its own yet.
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
    /// Its node is certain to stand before any that is made now: no server is needed to hear that it is busy.
    Stands(HoldId),
    /// It may, once its attempt is answered.
    Comes(Arc<Place>),
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: HoldId,
    pub(crate) kind: Kind,
    /// The path of the name.
    pub(crate) path: String,
    /// One thing at a time is done about it: a release goes behind the attempt that it undoes.
    pub(crate) stay: tokio::sync::Mutex<Stay>,
    /// What those see who cannot wait for that.
    seen: Mutex<Seen>,
    /// Whether the holder was asked to give way.
    pub(crate) asked: watch::Sender<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) hold: Option<Hold>,
    /// Its place in a queue.
    pub(crate) queued: Option<Queued>,
}

#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    /// How many doubts there were when it was seen.
    pub(crate) seen_at: u64,
}

/// What is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) session: Arc<Session>,
    /// Its nodes.
    pub(crate) paths: Vec<String>,
    pub(crate) fence: Fence,
    /// Over which connection its nodes were seen and are watched; none yet if 0.
    pub(crate) watched_on: u64,
    pub(crate) watches: Watches,
    /// Somebody has deleted a node of it.
    pub(crate) gone: bool,
}

impl Hold {
    pub(crate) fn is_good(&self) -> bool {
        !self.gone && !self.session.is_over()
    }
}

/// Tasks that end with the hold.
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
    /// Its place in the queue.
    pub(crate) node: Option<Node>,
    /// A node may stand there that is not known here: to be looked for before another is made.
    pub(crate) unsure: bool,
    /// The same, once it has been looked for: what is released is looked for again.
    pub(crate) hunt: bool,
    /// Such a node may be a read in the place of its owner's writer. Others may have entered since that writer was put
    /// out, so it is no place to enter from.
    pub(crate) unplaced: bool,
    /// It is over: nothing is made any more.
    pub(crate) left: bool,
    /// Whose going is waited for.
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

/// A watch under way.
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

    /// Whether it has a node, as far as this process can know.
    fn stands(&self) -> bool {
        let seen = self.seen();
        let held = seen.hold.as_ref().is_some_and(|hold| !hold.gone && hold.session.is_certain());
        held || seen.queued.as_ref().is_some_and(|queued| queued.session.is_certain())
    }

    /// Where it queues.
    pub(crate) fn folder(&self) -> String {
        match self.kind {
            Kind::Permit { .. } => format!("{}/{LOCKS}", self.path),
            _ => self.path.clone(),
        }
    }
}

/// Where something of a claim of this kind may stand.
pub(crate) fn folders(path: &str, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Permit { .. } => vec![format!("{path}/{LOCKS}"), format!("{path}/{LEASES}")],
        _ => vec![path.to_owned()],
    }
}

impl Stay {
    /// What it has in another session goes with that one.
    pub(crate) fn in_session(&mut self, session: &Arc<Session>) {
        if !self.session.as_ref().is_some_and(|s| Arc::ptr_eq(s, session)) {
            *self = Self { session: Some(session.clone()), left: self.left, ..Self::default() };
        }
    }

    /// A request was not answered that may have made something.
    pub(crate) fn doubt(&mut self) {
        self.unsure = true;
        self.hunt = true;
    }

    /// The same of a read in the place of its owner's writer.
    pub(crate) fn doubt_under_write(&mut self) {
        self.doubt();
        self.unplaced = true;
    }

    /// Whether nothing of it can stand in the store.
    pub(crate) fn is_nothing(&self) -> bool {
        self.node.is_none() && !self.hunt
    }

    /// Whether it is not even waited for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_nothing() && self.armed.is_none()
    }
}
