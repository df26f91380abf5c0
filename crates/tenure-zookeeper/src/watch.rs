//! Watches that are about no claim: of a number, or of who leads.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::backend::{Interest, Watch};
use tokio::sync::oneshot;

use crate::ears::{Ear, Listening};
use crate::path::NUMBERS;
use crate::session::Answer;
use crate::store::Store;
use crate::wire::Watcher;

/// What is watched.
pub(crate) enum Subject {
    Numbers(String),
    Queue(String),
}

impl Subject {
    pub(crate) fn of(interest: Interest<'_>, path: &str) -> Self {
        match interest {
            Interest::Count(..) => Self::Numbers(format!("{path}/{NUMBERS}")),
            Interest::Claim(_) | Interest::Holder(_) => Self::Queue(path.to_owned()),
        }
    }
}

impl Store {
    pub(crate) async fn watch(self: &Arc<Self>, subject: Subject) -> Answer<Box<dyn Watch>> {
        let ear = self.ears.listen_to_all();
        let (armed, begun) = oneshot::channel();
        let task = tokio::spawn(follow(Arc::downgrade(self), subject, Arc::downgrade(&ear), armed));
        let listening = Listening::by(ear, task.abort_handle());
        // From then on nothing is missed.
        match begun.await {
            Ok(answer) => answer.map(|()| Box::new(listening) as Box<dyn Watch>),
            Err(_) => Ok(Box::new(listening)),
        }
    }

    async fn watcher(self: Arc<Self>, subject: &Subject) -> Answer<Watcher> {
        let session = self.link.session().await?;
        match subject {
            Subject::Numbers(path) => Ok(session.stat_and_watch(path).await?.1),
            Subject::Queue(path) => loop {
                match session.list_and_watch(path).await {
                    Err(fault) if fault.is_missing() => {}
                    watched => break Ok(watched?.1),
                }
                // Unless it was made meanwhile: that watch would hear nothing of its children.
                if let (None, watcher) = session.stat_and_watch(path).await? {
                    break Ok(watcher);
                }
            },
        }
    }
}

/// Tells an ear of each change, for as long as it listens.
async fn follow(store: Weak<Store>, subject: Subject, ear: Weak<Ear>, armed: oneshot::Sender<Answer<()>>) {
    let arm = async || Some(store.upgrade()?.watcher(&subject).await);
    let mut watcher = match arm().await {
        Some(Ok(watcher)) => watcher,
        Some(Err(fault)) => return drop(armed.send(Err(fault))),
        None => return,
    };
    let _ = armed.send(Ok(()));
    loop {
        watcher.changed().await;
        // Watched again before it is told: what changes in between is seen by those who look then.
        watcher = loop {
            match arm().await {
                Some(Ok(watcher)) => break watcher,
                Some(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
                None => return,
            }
        };
        let Some(ear) = ear.upgrade() else { return };
        ear.tell();
    }
}
