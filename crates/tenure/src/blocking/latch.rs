//! The count-down latch, for threads.

use std::time::Duration;

use super::thread::waits;

/// A count-down latch. One that is absent is open; deleting it opens it too.
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
    waits! {
        /// Sets the count if the latch is open. Whether it did.
        ///
        /// # Errors
        /// `Config` for a count of 0; `Unavailable` or `Unknown` when the store does not answer.
        fn try_set_count(&self, count: u64) -> bool;

        /// Counts down by one. At zero the latch opens, and is gone. Does nothing when it is open.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn count_down(&self) -> ();

        /// The count; 0 when it is open.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn count(&self) -> u64;

        /// Removes the latch, which opens it. Whether there was one.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer.
        fn delete(&self) -> bool;

        /// Waits until it opens. Once it opened, a count set anew does not matter.
        ///
        /// # Errors
        /// As [`tenure::Latch::wait`](crate::Latch::wait).
        fn wait(&self) -> ();

        /// Waits for at most `limit`. Whether it opened.
        ///
        /// # Errors
        /// As [`tenure::Latch::wait`](crate::Latch::wait).
        fn wait_for(&self, limit: Duration) -> bool;
    }
}
