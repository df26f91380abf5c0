//! How much may be watched at once. After a reconnect the driver sets all watches again, in requests of 128 KiB that all
//! have one number: with more than one of them the answers are mixed up, and the session never recovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Bytes of paths. What is beyond is looked at instead of watched.
const MOST: usize = 96 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: AtomicUsize,
}

/// A watch within the budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// `None` when there is too much already.
    pub(crate) fn watch(self: &Arc<Self>, path: &str, chroot: usize) -> Option<Ticket> {
        let bytes = path.len() + chroot;
        let fits = |used: usize| Some(used + bytes).filter(|sum| *sum <= MOST);
        self.used.fetch_update(SeqCst, SeqCst, fits).ok()?;
        Some(Ticket { budget: self.clone(), bytes })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_used_again() {
        let budget = Arc::new(Budget::default());
        let path = "x".repeat(1000);
        let mut tickets: Vec<_> = std::iter::from_fn(|| budget.watch(&path, 24)).collect();
        assert_eq!(tickets.len(), MOST / 1024);
        tickets.pop();
        assert!(budget.watch(&path, 24).is_some());
    }
}
