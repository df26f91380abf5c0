//! Registered watches. A watch fires once. It is registered before the request that sets it is sent, so that no event
//! can come too early; an event for an earlier watch of the same node fires it, too.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tenure_core::HoldId;
use tokio::sync::{mpsc, oneshot};

/// A change of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Created,
    Deleted,
    Data,
    Children,
    /// The session is over: there will be no event.
    SessionOver,
}

impl Change {
    pub(crate) fn from_wire(kind: i32) -> Option<Self> {
        match kind {
            1 => Some(Self::Created),
            2 => Some(Self::Deleted),
            3 => Some(Self::Data),
            4 => Some(Self::Children),
            _ => None,
        }
    }

    fn fires(self, of: WatchTarget) -> bool {
        match self {
            Self::Created | Self::Data => of == WatchTarget::Node,
            Self::Children => of == WatchTarget::Children,
            Self::Deleted | Self::SessionOver => true,
        }
    }
}

/// What part of a node is watched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum WatchTarget {
    /// Its data and its existence.
    Node,
    Children,
}

/// Whether the server has set a watch, and of which type, for setting it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SetState {
    /// Its request is not answered yet.
    Requested,
    Set,
    /// Set on a node that does not exist.
    SetOnMissingNode,
}

#[derive(Debug, Default)]
pub(crate) struct WatchRegistry(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    paths: HashMap<(WatchTarget, Arc<str>), Vec<Listener>>,
    /// Watches without listeners that the server still has.
    unwanted: HashSet<(WatchTarget, Arc<str>)>,
    last: u64,
}

#[derive(Debug)]
struct Listener {
    id: u64,
    set: SetState,
    event: Receiver,
}

/// Who gets an event.
#[derive(Debug)]
enum Receiver {
    One(oneshot::Sender<Change>),
    /// One for all holds: a task for each would cost more memory than the rest of the hold.
    Holds(HoldId, HoldEvents),
}

/// The events of watches that belong to holds: the hold, the number of the watch, and what has happened.
pub(crate) type HoldEvents = mpsc::UnboundedSender<(HoldId, u64, Change)>;

impl Listener {
    fn notify(self, change: Change) {
        match self.event {
            Receiver::One(event) => drop(event.send(change)),
            Receiver::Holds(hold, events) => drop(events.send((hold, self.id, change))),
        }
    }

    fn is_closed(&self) -> bool {
        match &self.event {
            Receiver::One(event) => event.is_closed(),
            Receiver::Holds(_, events) => events.is_closed(),
        }
    }
}

/// One watch. Dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct Watcher {
    event: Option<oneshot::Receiver<Change>>,
    id: u64,
    of: WatchTarget,
    path: Arc<str>,
    /// The node may outlive the listeners, so the watch must be removed from the server when there are none.
    outlives_watchers: bool,
    all: Arc<WatchRegistry>,
}

/// Watches to set again, in the form of the request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SetWatches {
    pub(crate) data: Vec<String>,
    pub(crate) absent: Vec<String>,
    pub(crate) children: Vec<String>,
    bytes: usize,
}

impl WatchRegistry {
    /// Registers a watch; must be called before the request is sent.
    pub(crate) fn register(
        self: &Arc<Self>,
        of: WatchTarget,
        path: &str,
        outlives_watchers: bool,
    ) -> Watcher {
        let path: Arc<str> = path.into();
        let (sender, event) = oneshot::channel();
        let mut registered = self.0.lock().unwrap();
        registered.last += 1;
        let id = registered.last;
        let there = registered.paths.entry((of, path.clone())).or_insert_with(|| Vec::with_capacity(1));
        there.push(Listener { id, set: SetState::Requested, event: Receiver::One(sender) });
        Watcher { event: Some(event), id, of, path, outlives_watchers, all: self.clone() }
    }

    /// Takes the watches to remove from the server.
    pub(crate) fn take_unwanted(&self) -> Vec<(WatchTarget, Arc<str>)> {
        let mut registered = self.0.lock().unwrap();
        if registered.unwanted.is_empty() {
            return Vec::new();
        }
        let unwanted = std::mem::take(&mut registered.unwanted);
        unwanted.into_iter().filter(|key| !registered.paths.contains_key(key)).collect()
    }

    pub(crate) fn dispatch(&self, path: &str, change: Change) {
        let path: Arc<str> = path.into();
        let mut registered = self.0.lock().unwrap();
        for of in [WatchTarget::Node, WatchTarget::Children] {
            if !change.fires(of) {
                continue;
            }
            for listener in registered.paths.remove(&(of, path.clone())).into_iter().flatten() {
                listener.notify(change);
            }
        }
    }

    pub(crate) fn end_session(&self) {
        for listener in std::mem::take(&mut self.0.lock().unwrap().paths).into_values().flatten() {
            listener.notify(Change::SessionOver);
        }
    }

    /// The watches that a new connection has to set, in batches of at most `most` bytes.
    pub(crate) fn to_restore(&self, most: usize) -> Vec<SetWatches> {
        let mut registered = self.0.lock().unwrap();
        // The server has no watches for a new connection.
        registered.unwanted.clear();
        let mut parts = vec![SetWatches::default()];
        for ((of, path), listeners) in &registered.paths {
            // An unanswered watch may be set already: a spurious event is harmless, a missed one is not.
            let has = |absent| {
                listeners.iter().any(|l| (l.set == SetState::SetOnMissingNode) == absent && !l.is_closed())
            };
            for absent in [false, true] {
                if !has(absent) {
                    continue;
                }
                let cost = path.len() + 4;
                if parts.last().is_some_and(|part| part.bytes + cost > most) {
                    parts.push(SetWatches::default());
                }
                if let Some(part) = parts.last_mut() {
                    part.bytes += cost;
                    let list = match of {
                        WatchTarget::Children => &mut part.children,
                        WatchTarget::Node if absent => &mut part.absent,
                        WatchTarget::Node => &mut part.data,
                    };
                    list.push(path.as_ref().to_owned());
                }
            }
        }
        parts.retain(|part| part.bytes > 0);
        parts
    }
}

impl Watcher {
    /// Records that the server has set the watch.
    pub(crate) fn record_set(&self, absent: bool) {
        let mut registered = self.all.0.lock().unwrap();
        let there = registered.paths.get_mut(&(self.of, self.path.clone())).into_iter().flatten();
        there
            .filter(|l| l.id == self.id)
            .for_each(|l| l.set = if absent { SetState::SetOnMissingNode } else { SetState::Set });
    }

    /// Whether the event has come. It has if it precedes an answer that has been received.
    pub(crate) fn has_fired(&self) -> bool {
        self.event.as_ref().is_some_and(|event| !event.is_empty() || event.is_terminated())
    }

    /// Waits for the event.
    pub(crate) async fn changed(mut self) -> Change {
        match &mut self.event {
            Some(event) => event.await.unwrap_or(Change::SessionOver),
            None => std::future::pending().await,
        }
    }

    /// From now on the event is one of this hold, also if it has come already.
    pub(crate) fn follow(mut self, hold: HoldId, events: &HoldEvents) -> Self {
        let mut registered = self.all.0.lock().unwrap();
        let there = registered.paths.get_mut(&(self.of, self.path.clone())).into_iter().flatten();
        for listener in there.filter(|listener| listener.id == self.id) {
            listener.event = Receiver::Holds(hold, events.clone());
        }
        drop(registered);
        if let Some(Ok(change)) = self.event.take().map(|mut event| event.try_recv()) {
            let _ = events.send((hold, self.id, change));
        }
        self
    }

    /// The number that its event has for a hold.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut registered = self.all.0.lock().unwrap();
        let key = (self.of, self.path.clone());
        if let Some(there) = registered.paths.get_mut(&key) {
            there.retain(|l| l.id != self.id);
            if there.is_empty() {
                registered.paths.remove(&key);
                if self.outlives_watchers {
                    registered.unwanted.insert(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(watches: &Arc<WatchRegistry>, of: WatchTarget, path: &str) -> Watcher {
        watches.register(of, path, of == WatchTarget::Children)
    }

    #[test]
    fn watches_without_listeners_are_removed_from_the_server() {
        let watches = Arc::new(WatchRegistry::default());
        drop(watched(&watches, WatchTarget::Node, "/a"));
        assert_eq!(watches.take_unwanted(), [], "that one goes by itself");
        let [first, second] = ["/a", "/a"].map(|path| watched(&watches, WatchTarget::Children, path));
        drop(first);
        assert_eq!(watches.take_unwanted(), []);
        drop(second);
        let third = watched(&watches, WatchTarget::Children, "/a");
        assert_eq!(watches.take_unwanted(), [], "it is watched again");
        drop(third);
        assert_eq!(watches.take_unwanted(), [(WatchTarget::Children, "/a".into())]);
        assert_eq!(watches.take_unwanted(), []);
    }

    #[tokio::test]
    async fn an_event_fires_the_watches_of_its_target() {
        let watches = Arc::new(WatchRegistry::default());
        let [node, children, other] =
            [(WatchTarget::Node, "/a"), (WatchTarget::Children, "/a"), (WatchTarget::Node, "/b")]
                .map(|(of, path)| watched(&watches, of, path));
        watches.dispatch("/a", Change::Data);
        assert_eq!(node.changed().await, Change::Data);
        watches.dispatch("/a", Change::Deleted);
        assert_eq!(children.changed().await, Change::Deleted);
        watches.end_session();
        assert_eq!(other.changed().await, Change::SessionOver);
        assert!(watches.0.lock().unwrap().paths.is_empty());
    }

    #[tokio::test]
    async fn a_hold_gets_its_event_whenever_it_comes() {
        let watches = Arc::new(WatchRegistry::default());
        let hold = HoldId { n: 7, ..HoldId::NONE };
        let (events, mut received) = mpsc::unbounded_channel();
        let early = watched(&watches, WatchTarget::Node, "/a");
        watches.dispatch("/a", Change::Data);
        let early = early.follow(hold, &events);
        assert_eq!(received.recv().await.unwrap(), (hold, early.id(), Change::Data));
        let late = watched(&watches, WatchTarget::Node, "/a").follow(hold, &events);
        watches.dispatch("/a", Change::Deleted);
        assert_eq!(received.recv().await.unwrap(), (hold, late.id(), Change::Deleted));
        drop(watched(&watches, WatchTarget::Node, "/a").follow(hold, &events));
        watches.dispatch("/a", Change::Deleted);
        assert!(received.try_recv().is_err(), "it was dropped");
    }

    #[test]
    fn only_watches_that_may_be_set_are_restored() {
        let watches = Arc::new(WatchRegistry::default());
        let [unanswered, data, absent, children, dropped] = ["/u", "/d", "/n", "/c", "/x"].map(|path| {
            watched(&watches, if path == "/c" { WatchTarget::Children } else { WatchTarget::Node }, path)
        });
        data.record_set(false);
        absent.record_set(true);
        children.record_set(false);
        dropped.record_set(false);
        drop(dropped);
        let again = watches.to_restore(1000);
        assert_eq!(again.len(), 1);
        let mut nodes = again[0].data.clone();
        nodes.sort();
        assert_eq!(nodes, ["/d", "/u"]);
        assert_eq!(again[0].absent, ["/n"]);
        assert_eq!(again[0].children, ["/c"]);
        assert_eq!(watches.to_restore(6).len(), 4);
        drop((unanswered, data, absent, children));
        assert!(watches.to_restore(1000).is_empty());
        assert!(watches.0.lock().unwrap().paths.is_empty());
    }
}
