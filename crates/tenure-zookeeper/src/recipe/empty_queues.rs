//! Queues that were empty when this process left them. The server numbers all children of a folder, one after the
//! other. So if a claim was alone, has left, and the next node that this process creates has the next number, nobody
//! else has come in between: that node is first, and no list is needed to know it.
//!
//! The numbers begin again in a folder that was deleted and created anew. The folder is watched, and the server reports
//! its end before it answers a create in the new one, over the same connection.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::recipe::node::Child;
use crate::session::Session;
use crate::wire::Watcher;

/// How many queues are remembered, and watched at most.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct EmptyQueues(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    queues: HashMap<String, EmptyQueue>,
    /// How many found no room since room was last made.
    refused: usize,
}

/// A queue whose nodes up to a number are certainly gone.
#[derive(Debug)]
pub(crate) struct EmptyQueue {
    session: i64,
    last: i32,
    folder: FolderWatch,
}

/// The watch of a folder, or none the first time it is used: a name that is used once costs no watch.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    pub(crate) connection: u64,
    pub(crate) watcher: Option<Watcher>,
}

impl FolderWatch {
    /// Whether everything that happened to the folder has been reported so far.
    fn is_current(&self, session: &Session) -> bool {
        self.connection == session.connection_number()
            && !self.watcher.as_ref().is_some_and(Watcher::has_fired)
    }
}

impl EmptyQueues {
    /// Records that a claim which was alone in its queue has left it: its node at `path` is certainly deleted.
    pub(crate) fn insert(&self, session: &Session, path: &str, folder: FolderWatch) {
        let Some((queue, Some(child))) =
            path.rsplit_once('/').map(|(queue, name)| (queue, Child::parse(name)))
        else {
            return;
        };
        if child.is_last_number() || !folder.is_current(session) {
            return;
        }
        let left = EmptyQueue { session: session.id, last: child.sequence, folder };
        let mut remembered = self.0.lock().unwrap();
        if remembered.queues.len() >= MOST {
            remembered.refused += 1;
            if remembered.refused < MOST {
                return;
            }
            // The folders of most of those that are not used any more are deleted by now.
            remembered.refused = 0;
            remembered
                .queues
                .retain(|_, queue| queue.folder.watcher.as_ref().is_some_and(|watcher| !watcher.has_fired()));
        }
        if remembered.queues.len() >= MOST {
            return;
        }
        remembered.queues.insert(queue.to_owned(), left);
    }

    /// Returns the queue in this folder, if it was left empty. Whoever creates the next node in it takes this.
    pub(crate) fn take(&self, session: &Session, folder: &str) -> Option<EmptyQueue> {
        let left = self.0.lock().unwrap().queues.remove(folder)?;
        (left.session == session.id && left.folder.is_current(session)).then_some(left)
    }
}

impl EmptyQueue {
    pub(crate) fn is_watched(&self) -> bool {
        self.folder.watcher.is_some()
    }

    /// Returns the watch of the folder if the node at `path`, which was created since, is certainly the first.
    pub(crate) fn into_first(self, session: &Session, path: &str) -> Option<FolderWatch> {
        let child = Child::parse(path.rsplit_once('/')?.1)?;
        let is_next = child.sequence == self.last.wrapping_add(1) && !child.is_last_number();
        (is_next && self.is_watched() && self.folder.is_current(session)).then_some(self.folder)
    }
}
