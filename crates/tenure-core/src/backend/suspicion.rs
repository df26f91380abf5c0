//! A signal from a backend that earlier answers of its store may no longer be valid.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

/// Signals that grants may have been lost: the server was restarted, or another one has taken over, and may not have
/// every grant. A backend raises it; each client of that backend then verifies all its holds at once. Clones share
/// their state.
///
/// ```
/// # use tenure_core::{Backend, Client, Memory};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let client = Client::new(Memory::new());
/// let guard = client.lock("x").acquire().await?;
/// client.backend().info().suspicion.raise(); // the store is asked again, and still has it
/// assert!(guard.is_held());
/// # guard.release().await }
/// ```
///
/// A store made of others passes on what they suspect:
///
/// ```
/// # use tenure_core::backend::Suspicion;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (node, all) = (Suspicion::new(), Suspicion::new());
/// node.also(&all);
/// let before = all.times();
/// node.raise();
/// assert_eq!(all.above(before).await, 1); // waits until it is raised
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Suspicion(Arc<Raised>);

#[derive(Debug, Default)]
struct Raised {
    times: AtomicU64,
    notify: Notify,
    also: Mutex<Vec<Weak<Raised>>>,
}

impl Suspicion {
    /// Creates one that has not been raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that no earlier answer of the store is certain any more.
    pub fn raise(&self) {
        self.0.times.fetch_add(1, SeqCst);
        self.0.notify.notify_waiters();
        let also: Vec<_> = {
            let mut also = self.0.also.lock().unwrap_or_else(|e| e.into_inner());
            also.retain(|other| other.strong_count() > 0);
            also.iter().filter_map(Weak::upgrade).collect()
        };
        also.into_iter().for_each(|other| Self(other).raise());
    }

    /// Raises `other`, too, whenever this is raised.
    pub fn also(&self, other: &Self) {
        self.0.also.lock().unwrap_or_else(|e| e.into_inner()).push(Arc::downgrade(&other.0));
    }

    /// Returns how often it was raised. If the number is the same before a command is sent and after its answer, the
    /// answer is valid.
    pub fn times(&self) -> u64 {
        self.0.times.load(SeqCst)
    }

    /// Waits until it has been raised more than `seen` times, and returns how often.
    pub async fn above(&self, seen: u64) -> u64 {
        loop {
            let raised = self.0.notify.notified();
            tokio::pin!(raised);
            raised.as_mut().enable();
            let times = self.times();
            if times > seen {
                return times;
            }
            raised.await;
        }
    }
}
