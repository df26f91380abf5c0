//! Watches that are not for a claim: of a counter, or of the leader.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::backend::{Interest, Watch};
use tokio::sync::oneshot;

use crate::error::RequestResult;
use crate::recipe::Store;
use crate::recipe::path::COUNTERS;
use crate::session::Session;
use crate::subscribers::{Subscriber, Subscription};
use crate::wire::{Change, Watcher};

/// The node that is watched.
pub(crate) enum WatchedNode {
    Counters(String),
    Queue(String),
}

impl WatchedNode {
    pub(crate) fn of(interest: Interest<'_>, path: &str) -> Self {
        match interest {
            Interest::Count(..) => Self::Counters(format!("{path}/{COUNTERS}")),
            Interest::Claim(_) | Interest::Holder(_) => Self::Queue(path.to_owned()),
        }
    }
}

impl Store {
    pub(crate) async fn watch(self: &Arc<Self>, node: WatchedNode) -> RequestResult<Box<dyn Watch>> {
        let subscriber = self.subscribers.subscribe_to_all();
        let (ready, is_ready) = oneshot::channel();
        let task =
            tokio::spawn(notify_changes(Arc::downgrade(self), node, Arc::downgrade(&subscriber), ready));
        let subscription = Subscription::with_task(subscriber, task.abort_handle());
        // Once the watch is set, no change is missed.
        match is_ready.await {
            Ok(answer) => answer.map(|()| Box::new(subscription) as Box<dyn Watch>),
            Err(_) => Ok(Box::new(subscription)),
        }
    }
}

impl WatchedNode {
    async fn watch(&self, session: &Session) -> RequestResult<Watcher> {
        match self {
            Self::Counters(path) => Ok(session.client.stat_and_watch(path).await?.1),
            Self::Queue(path) => loop {
                match session.client.list_and_watch(path).await {
                    Err(error) if error.is_no_node() => {}
                    watched => break Ok(watched?.1),
                }
                // Unless it was created meanwhile: this watch would not report changes of its children.
                if let (None, watcher) = session.client.stat_and_watch(path).await? {
                    break Ok(watcher);
                }
            },
        }
    }
}

/// Notifies a subscriber of each change, until it is dropped.
async fn notify_changes(
    store: Weak<Store>,
    node: WatchedNode,
    subscriber: Weak<Subscriber>,
    ready: oneshot::Sender<RequestResult<()>>,
) {
    let first = async {
        Some(match store.upgrade()?.sessions.get_or_connect().await {
            Ok(session) => node.watch(&session).await,
            Err(error) => Err(error),
        })
    };
    let mut watcher = match first.await {
        Some(Ok(watcher)) => watcher,
        Some(Err(error)) => return drop(ready.send(Err(error))),
        None => return,
    };
    let _ = ready.send(Ok(()));
    loop {
        if watcher.changed().await == Change::SessionOver {
            // The subscriber then checks, which begins another session unless the client is closed.
            let Some(subscriber) = subscriber.upgrade() else { return };
            subscriber.notify();
        }
        // Watch again before notifying, so that a change in between is seen by the check that follows.
        match watch_again(&store, &node).await {
            Some(next) => watcher = next,
            None => return,
        }
        let Some(subscriber) = subscriber.upgrade() else { return };
        subscriber.notify();
    }
}

/// Watches it in the current session, or in the next one that begins. `None` when the store is dropped.
async fn watch_again(store: &Weak<Store>, node: &WatchedNode) -> Option<Watcher> {
    let mut sessions = store.upgrade()?.sessions.subscribe_to_new();
    loop {
        let current = store.upgrade()?.sessions.current().await;
        match current {
            None => sessions.changed().await.ok()?,
            Some(session) => match node.watch(&session).await {
                Ok(watcher) => return Some(watcher),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            },
        }
    }
}
