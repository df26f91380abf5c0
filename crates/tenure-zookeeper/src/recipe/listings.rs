//! Lists of queues. Those of this process who ask for the list of one queue while it is being read share the next one:
//! thousands who come at once would otherwise each read the nodes of all the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::RequestResult;
use crate::recipe::queue::Queue;
use crate::session::Session;

/// Gets the next list.
type Waiting = oneshot::Sender<RequestResult<Arc<Queue>>>;

/// A session and a folder.
type Key = (i64, String);

/// The folders that are being read, each with those who want the next list of it.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<HashMap<Key, Vec<Waiting>>>);

/// The right to read a folder. Its end begins the list for those who came meanwhile.
pub(crate) struct Turn {
    listings: Arc<Listings>,
    session: Arc<Session>,
    folder: String,
}

impl Listings {
    /// Returns `None` if the folder is being read.
    pub(crate) fn begin(self: &Arc<Self>, session: &Arc<Session>, folder: &str) -> Option<Turn> {
        match self.0.lock().unwrap().entry((session.id, folder.to_owned())) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => {
                vacant.insert(Vec::new());
                Some(self.turn(session, folder))
            }
        }
    }

    /// Returns a list that was begun after this call.
    pub(crate) async fn list(
        self: &Arc<Self>,
        session: &Arc<Session>,
        folder: &str,
    ) -> RequestResult<Arc<Queue>> {
        loop {
            let next = match self.0.lock().unwrap().entry((session.id, folder.to_owned())) {
                Entry::Occupied(mut reading) => {
                    let (waiting, next) = oneshot::channel();
                    reading.get_mut().push(waiting);
                    Some(next)
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(Vec::new());
                    None
                }
            };
            let Some(next) = next else { return self.turn(session, folder).list().await };
            if let Ok(answer) = next.await {
                return answer;
            }
            // The runtime in which it would have been read has ended.
        }
    }

    fn turn(self: &Arc<Self>, session: &Arc<Session>, folder: &str) -> Turn {
        Turn { listings: self.clone(), session: session.clone(), folder: folder.to_owned() }
    }
}

impl Turn {
    pub(crate) async fn list(self) -> RequestResult<Arc<Queue>> {
        self.read().await
    }

    async fn read(&self) -> RequestResult<Arc<Queue>> {
        Ok(Arc::new(Queue::new(self.session.client.list(&self.folder).await?)))
    }

    async fn list_for(self, waiting: Vec<Waiting>) {
        let answer = self.read().await;
        for one in waiting {
            let _ = one.send(answer.clone());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let waiting = {
            let mut all = self.listings.0.lock().unwrap();
            let Entry::Occupied(mut reading) = all.entry((self.session.id, self.folder.clone())) else {
                return;
            };
            if reading.get().is_empty() {
                reading.remove();
                return;
            }
            std::mem::take(reading.get_mut())
        };
        // A task, since a caller's future may not be polled any more. If there is no runtime, the turn ends at once, and
        // those who wait begin again.
        let next = self.listings.turn(&self.session, &self.folder).list_for(waiting);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(next);
        }
    }
}
