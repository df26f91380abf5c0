//! Subscribers: one per watched claim, and others that are woken with all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use tenure_core::HoldId;
use tenure_core::backend::{Signal, Watch};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Ears {
    claims: Mutex<HashMap<HoldId, Weak<Ear>>>,
    /// Subscribers that are not for a claim.
    others: Mutex<Vec<Weak<Ear>>>,
}

/// A subscriber.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    told: Notify,
}

impl Ear {
    pub(crate) fn tell(&self) {
        self.told.notify_one();
    }
}

impl Ears {
    /// Subscribes to this claim.
    pub(crate) fn listen(self: &Arc<Self>, id: HoldId) -> Listening {
        let ear = Arc::new(Ear::default());
        self.claims.lock().unwrap().insert(id, Arc::downgrade(&ear));
        Listening { ear, claim: Some((self.clone(), id)), task: None }
    }

    /// Subscribes to what concerns all subscribers. The caller may also notify it directly.
    pub(crate) fn listen_to_all(&self) -> Arc<Ear> {
        let ear = Arc::new(Ear::default());
        let mut others = self.others.lock().unwrap();
        others.retain(|other| other.strong_count() > 0);
        others.push(Arc::downgrade(&ear));
        ear
    }

    /// Whether this claim has a subscriber.
    pub(crate) fn hears(&self, id: HoldId) -> bool {
        self.claims.lock().unwrap().contains_key(&id)
    }

    /// Wakes the subscriber of this claim.
    pub(crate) fn tell(&self, id: HoldId) {
        let ear = self.claims.lock().unwrap().get(&id).and_then(Weak::upgrade);
        if let Some(ear) = ear {
            ear.tell();
        }
    }

    pub(crate) fn tell_all(&self) {
        let claims: Vec<_> = self.claims.lock().unwrap().values().filter_map(Weak::upgrade).collect();
        let others: Vec<_> = self.others.lock().unwrap().iter().filter_map(Weak::upgrade).collect();
        claims.iter().chain(&others).for_each(|ear| ear.tell());
    }
}

/// The core's `Watch` over a subscriber.
#[derive(Debug)]
pub(crate) struct Listening {
    ear: Arc<Ear>,
    claim: Option<(Arc<Ears>, HoldId)>,
    task: Option<tokio::task::AbortHandle>,
}

impl Listening {
    /// A watch on `ear`, which `task` notifies. Dropping the watch aborts the task.
    pub(crate) fn by(ear: Arc<Ear>, task: tokio::task::AbortHandle) -> Self {
        Self { ear, claim: None, task: Some(task) }
    }
}

#[async_trait]
impl Watch for Listening {
    async fn signal(&mut self) -> Signal {
        self.ear.told.notified().await;
        Signal::Changed
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some((ears, id)) = &self.claim {
            let mut claims = ears.claims.lock().unwrap();
            if claims.get(id).is_some_and(|ear| std::ptr::eq(ear.as_ptr(), Arc::as_ptr(&self.ear))) {
                claims.remove(id);
            }
        }
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
