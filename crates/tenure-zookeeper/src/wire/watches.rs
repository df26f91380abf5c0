//! Registered watches. A watch fires once. It is registered before the request that sets it is sent, so that no event
//! can come too early; an event for an earlier watch of the same node fires it, too.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

/// A change of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Created,
    Deleted,
    Data,
    Children,
    /// The session is over: there will be no event.
    Over,
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

    fn concerns(self, of: Of) -> bool {
        match self {
            Self::Created | Self::Data => of == Of::Node,
            Self::Children => of == Of::Children,
            Self::Deleted | Self::Over => true,
        }
    }
}

/// What part of a node is watched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Of {
    /// Its data and its existence.
    Node,
    Children,
}

/// Whether the server has set a watch, and of which type, for setting it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Set {
    /// Its request is not answered yet.
    NotYet,
    Standing,
    /// Set on a node that does not exist.
    Absent,
}

#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    paths: HashMap<(Of, String), Vec<Listener>>,
    /// Watches without listeners that the server still has.
    unwanted: HashSet<(Of, String)>,
    last: u64,
}

#[derive(Debug)]
struct Listener {
    id: u64,
    set: Set,
    tell: oneshot::Sender<Change>,
}

/// One watch. Dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct Watcher {
    told: oneshot::Receiver<Change>,
    id: u64,
    of: Of,
    path: String,
    /// The node may outlive the listeners, so the watch must be removed from the server when there are none.
    lasting: bool,
    all: Arc<Watches>,
}

/// Watches to set again, in the form of the request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) data: Vec<String>,
    pub(crate) absent: Vec<String>,
    pub(crate) children: Vec<String>,
    bytes: usize,
}

impl Watches {
    /// Registers a watch; must be called before the request is sent.
    pub(crate) fn listen(self: &Arc<Self>, of: Of, path: String, lasting: bool) -> Watcher {
        let (tell, told) = oneshot::channel();
        let mut known = self.0.lock().unwrap();
        known.last += 1;
        let id = known.last;
        let there = known.paths.entry((of, path.clone())).or_default();
        there.push(Listener { id, set: Set::NotYet, tell });
        Watcher { told, id, of, path, lasting, all: self.clone() }
    }

    /// Takes the watches to remove from the server.
    pub(crate) fn unwanted(&self) -> Vec<(Of, String)> {
        let mut known = self.0.lock().unwrap();
        if known.unwanted.is_empty() {
            return Vec::new();
        }
        let unwanted = std::mem::take(&mut known.unwanted);
        unwanted.into_iter().filter(|key| !known.paths.contains_key(key)).collect()
    }

    pub(crate) fn tell(&self, path: &str, change: Change) {
        let mut known = self.0.lock().unwrap();
        for of in [Of::Node, Of::Children] {
            if !change.concerns(of) {
                continue;
            }
            for listener in known.paths.remove(&(of, path.to_owned())).into_iter().flatten() {
                let _ = listener.tell.send(change);
            }
        }
    }

    pub(crate) fn end(&self) {
        for listener in std::mem::take(&mut self.0.lock().unwrap().paths).into_values().flatten() {
            let _ = listener.tell.send(Change::Over);
        }
    }

    /// The watches that a new connection has to set, in batches of at most `most` bytes.
    pub(crate) fn again(&self, most: usize) -> Vec<Again> {
        let mut known = self.0.lock().unwrap();
        // The server has no watches for a new connection.
        known.unwanted.clear();
        let mut parts = vec![Again::default()];
        for ((of, path), listeners) in &known.paths {
            // An unanswered watch may be set already: a spurious event is harmless, a missed one is not.
            let has =
                |absent| listeners.iter().any(|l| (l.set == Set::Absent) == absent && !l.tell.is_closed());
            for absent in [false, true] {
                if !has(absent) {
                    continue;
                }
                let cost = path.len() + 4;
                if parts.last().is_some_and(|part| part.bytes + cost > most) {
                    parts.push(Again::default());
                }
                if let Some(part) = parts.last_mut() {
                    part.bytes += cost;
                    let list = match of {
                        Of::Children => &mut part.children,
                        Of::Node if absent => &mut part.absent,
                        Of::Node => &mut part.data,
                    };
                    list.push(path.clone());
                }
            }
        }
        parts.retain(|part| part.bytes > 0);
        parts
    }
}

impl Watcher {
    /// Records that the server has set the watch.
    pub(crate) fn stands(&self, absent: bool) {
        let mut known = self.all.0.lock().unwrap();
        let there = known.paths.get_mut(&(self.of, self.path.clone())).into_iter().flatten();
        there
            .filter(|l| l.id == self.id)
            .for_each(|l| l.set = if absent { Set::Absent } else { Set::Standing });
    }

    /// Waits for the event.
    pub(crate) async fn changed(mut self) -> Change {
        (&mut self.told).await.unwrap_or(Change::Over)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut known = self.all.0.lock().unwrap();
        let key = (self.of, std::mem::take(&mut self.path));
        if let Some(there) = known.paths.get_mut(&key) {
            there.retain(|l| l.id != self.id);
            if there.is_empty() {
                known.paths.remove(&key);
                if self.lasting {
                    known.unwanted.insert(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(watches: &Arc<Watches>, of: Of, path: &str) -> Watcher {
        watches.listen(of, path.to_owned(), of == Of::Children)
    }

    #[test]
    fn the_server_is_told_when_nobody_listens() {
        let watches = Arc::new(Watches::default());
        drop(watched(&watches, Of::Node, "/a"));
        assert_eq!(watches.unwanted(), [], "that one goes by itself");
        let [first, second] = ["/a", "/a"].map(|path| watched(&watches, Of::Children, path));
        drop(first);
        assert_eq!(watches.unwanted(), []);
        drop(second);
        let third = watched(&watches, Of::Children, "/a");
        assert_eq!(watches.unwanted(), [], "it is watched again");
        drop(third);
        assert_eq!(watches.unwanted(), [(Of::Children, "/a".to_owned())]);
        assert_eq!(watches.unwanted(), []);
    }

    #[tokio::test]
    async fn a_sign_reaches_those_whom_it_concerns() {
        let watches = Arc::new(Watches::default());
        let [node, children, other] = [(Of::Node, "/a"), (Of::Children, "/a"), (Of::Node, "/b")]
            .map(|(of, path)| watched(&watches, of, path));
        watches.tell("/a", Change::Data);
        assert_eq!(node.changed().await, Change::Data);
        watches.tell("/a", Change::Deleted);
        assert_eq!(children.changed().await, Change::Deleted);
        watches.end();
        assert_eq!(other.changed().await, Change::Over);
        assert!(watches.0.lock().unwrap().paths.is_empty());
    }

    #[test]
    fn what_may_stand_is_set_again_and_nothing_else() {
        let watches = Arc::new(Watches::default());
        let [unanswered, data, absent, children, dropped] = ["/u", "/d", "/n", "/c", "/x"]
            .map(|path| watched(&watches, if path == "/c" { Of::Children } else { Of::Node }, path));
        data.stands(false);
        absent.stands(true);
        children.stands(false);
        dropped.stands(false);
        drop(dropped);
        let again = watches.again(1000);
        assert_eq!(again.len(), 1);
        let mut nodes = again[0].data.clone();
        nodes.sort();
        assert_eq!(nodes, ["/d", "/u"]);
        assert_eq!(again[0].absent, ["/n"]);
        assert_eq!(again[0].children, ["/c"]);
        assert_eq!(watches.again(6).len(), 4);
        drop((unanswered, data, absent, children));
        assert!(watches.again(1000).is_empty());
        assert!(watches.0.lock().unwrap().paths.is_empty());
    }
}
