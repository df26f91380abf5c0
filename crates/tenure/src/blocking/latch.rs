//! The blocking count-down latch.

use std::time::Duration;

use super::thread::forward_blocking;

/// A count-down latch. A latch that does not exist is open; deleting it opens it, too.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let ready = client.latch("ready");
/// ready.try_set_count(2)?;
/// assert!(!ready.try_wait_for(Duration::from_millis(10))?); // not open yet
/// ready.count_down()?;
/// assert_eq!(ready.count()?, 1);
/// std::thread::scope(|s| {
///     s.spawn(|| ready.count_down());
///     ready.wait()
/// })?;
///
/// ready.try_set_count(1)?;
/// ready.delete()?; // opens it
/// # Ok(()) }
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

        /// Counts down by one. At zero the latch opens and is removed. Does nothing if it is open.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn count_down(&self) -> ();

        /// Returns the count; 0 if it is open.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn count(&self) -> u64;

        /// Removes the latch, which opens it. Returns whether there was one.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn delete(&self) -> bool;

        /// Waits until it opens. Returns even if a new count is set after it has opened.
        ///
        /// # Errors
        /// As [`tenure::Latch::wait`](crate::Latch::wait).
        fn wait(&self) -> ();

        /// Waits until it opens, for at most `limit`. Returns whether it opened.
        ///
        /// # Errors
        /// As [`tenure::Latch::wait`](crate::Latch::wait).
        fn try_wait_for(&self, limit: Duration) -> bool;
    }
}
