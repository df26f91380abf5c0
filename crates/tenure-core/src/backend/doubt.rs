//! The word of a store that what it said before may not be so any more.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

/// Reason to doubt what is held: the server was restarted, or another one has taken over, and whether it knows every
/// grant is not known. A backend raises it; each client of that backend then proves all that it holds, at once. Clones
/// are the same.
///
/// ```
/// # use tenure_core::{Backend, Client, Memory};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let client = Client::new(Memory::new());
/// let guard = client.lock("x").acquire().await?;
/// client.backend().info().doubt.raise(); // the store is asked again, and still has it
/// assert!(guard.is_held());
/// # guard.release().await }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Doubt(Arc<Raised>);

#[derive(Debug, Default)]
struct Raised {
    times: AtomicU64,
    notify: Notify,
    also: Mutex<Vec<Weak<Raised>>>,
}

impl Doubt {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on nothing that was answered before is certain.
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

    /// Whatever raises this raises `other`, too.
    pub fn also(&self, other: &Self) {
        self.0.also.lock().unwrap_or_else(|e| e.into_inner()).push(Arc::downgrade(&other.0));
    }

    /// How often it was raised. Two equal numbers, taken before a command is sent and after it was answered, say that
    /// the answer stands.
    pub fn times(&self) -> u64 {
        self.0.times.load(SeqCst)
    }

    /// Waits until it has been raised more than `seen` times, and says how often.
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
