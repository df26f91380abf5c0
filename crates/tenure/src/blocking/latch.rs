//! The blocking count-down latch.

use std::time::Duration;

use super::thread::forward_blocking;

/// A count-down latch. A latch that does not exist is open; deleting it opens it too.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # let client = tenure::blocking::connect("memory:")?;
/// let ready = client.latch("ready");
/// ready.try_set_count(2)?;
/// std::thread::scope(|s| {
///     s.spawn(|| ready.count_down());
///     s.spawn(|| ready.count_down());
///     ready.wait()
/// })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    inner: crate::Latch,
}

impl From<crate::Latch> for Latch {
    fn from(latch: crate::Latch) -> Self {
        Self { inner: latch }
    }
}

impl Latch {
    forward_blocking! {
        /// Sets the count if the latch is open. Returns whether it did.
        ///
        /// # Errors
        /// `Config` for a count of 0; `Unavailable` or `Unknown` when the store does not answer.
        fn try_set_count(&self, count: u64) -> bool;

        /// Counts down by one. At zero the latch opens and is deleted. Does nothing when it is open.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn count_down(&self) -> ();

        /// The count; 0 when it is open.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn count(&self) -> u64;

        /// Deletes the latch, which opens it. Returns whether it existed.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn delete(&self) -> bool;

        /// Waits until the latch opens. Returns even if a new count is set after it opened.
        ///
        /// # Errors
        /// As [`tenure::Latch::wait`](crate::Latch::wait).
        fn wait(&self) -> ();

        /// Waits for at most `limit`. Returns whether the latch opened.
        ///
        /// # Errors
        /// As [`tenure::Latch::wait`](crate::Latch::wait).
        fn try_wait_for(&self, limit: Duration) -> bool;
    }
}
