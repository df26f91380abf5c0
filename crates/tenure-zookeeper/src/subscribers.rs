//! Subscribers: one per watched claim, and others that are woken with all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use tenure_core::HoldId;
use tenure_core::backend::{Signal, Watch};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    claims: Mutex<HashMap<HoldId, Weak<Subscriber>>>,
    /// Subscribers that are not for a claim.
    others: Mutex<Vec<Weak<Subscriber>>>,
}

/// A subscriber.
#[derive(Debug, Default)]
pub(crate) struct Subscriber {
    changed: Notify,
}

impl Subscriber {
    pub(crate) fn notify(&self) {
        self.changed.notify_one();
    }
}

impl Subscribers {
    /// Subscribes to this claim.
    pub(crate) fn subscribe(self: &Arc<Self>, id: HoldId) -> Subscription {
        let subscriber = Arc::new(Subscriber::default());
        self.claims.lock().unwrap().insert(id, Arc::downgrade(&subscriber));
        Subscription { subscriber, claim: Some((self.clone(), id)), task: None }
    }

    /// Subscribes to what concerns all subscribers. The caller may also notify it directly.
    pub(crate) fn subscribe_to_all(&self) -> Arc<Subscriber> {
        let subscriber = Arc::new(Subscriber::default());
        let mut others = self.others.lock().unwrap();
        others.retain(|other| other.strong_count() > 0);
        others.push(Arc::downgrade(&subscriber));
        subscriber
    }

    /// Whether this claim has a subscriber.
    pub(crate) fn has_subscriber(&self, id: HoldId) -> bool {
        self.claims.lock().unwrap().contains_key(&id)
    }

    /// Wakes the subscriber of this claim.
    pub(crate) fn notify(&self, id: HoldId) {
        let subscriber = self.claims.lock().unwrap().get(&id).and_then(Weak::upgrade);
        if let Some(subscriber) = subscriber {
            subscriber.notify();
        }
    }

    pub(crate) fn notify_all(&self) {
        let claims: Vec<_> = self.claims.lock().unwrap().values().filter_map(Weak::upgrade).collect();
        let others: Vec<_> = self.others.lock().unwrap().iter().filter_map(Weak::upgrade).collect();
        claims.iter().chain(&others).for_each(|subscriber| subscriber.notify());
    }
}

/// The core's `Watch` over a subscriber.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscriber: Arc<Subscriber>,
    claim: Option<(Arc<Subscribers>, HoldId)>,
    task: Option<tokio::task::AbortHandle>,
}

impl Subscription {
    /// A watch on `subscriber`, which `task` notifies. Dropping the watch aborts the task.
    pub(crate) fn with_task(subscriber: Arc<Subscriber>, task: tokio::task::AbortHandle) -> Self {
        Self { subscriber, claim: None, task: Some(task) }
    }
}

#[async_trait]
impl Watch for Subscription {
    async fn signal(&mut self) -> Signal {
        self.subscriber.changed.notified().await;
        Signal::Changed
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some((subscribers, id)) = &self.claim {
            let mut claims = subscribers.claims.lock().unwrap();
            if claims
                .get(id)
                .is_some_and(|subscriber| std::ptr::eq(subscriber.as_ptr(), Arc::as_ptr(&self.subscriber)))
            {
                claims.remove(id);
            }
        }
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
