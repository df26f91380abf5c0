//! The blocking counting semaphore.

use std::time::Duration;

use super::thread::forward_blocking;

/// A counting semaphore: a shared number of permits, not tied to the process that took them.
///
/// A process that dies with permits taken does not give them back: prefer [`super::Semaphore`] unless that is wanted.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let seats = client.counting_semaphore("seats");
/// seats.try_set(10)?;
/// seats.acquire(3)?;
/// assert_eq!(seats.available()?, 7);
/// seats.release(3)?;
///
/// seats.add(-2)?; // two are broken
/// assert!(!seats.try_acquire(9)?); // does not wait
/// assert!(!seats.try_acquire_for(9, Duration::from_millis(10))?);
/// assert_eq!(seats.drain()?, 8); // all that are left
/// seats.delete()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct CountingSemaphore {
    inner: crate::CountingSemaphore,
}

impl From<crate::CountingSemaphore> for CountingSemaphore {
    fn from(semaphore: crate::CountingSemaphore) -> Self {
        Self { inner: semaphore }
    }
}

impl CountingSemaphore {
    forward_blocking! {
        /// Sets the number of permits if it is not set yet. Returns whether it did.
        ///
        /// # Errors
        /// `Unavailable` or `Unknown` when the store does not answer; `Config` for a name that is invalid or in use as
        /// another kind.
        fn try_set(&self, permits: u64) -> bool;

        /// Takes `n` permits, waiting as long as it takes.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn acquire(&self, n: u64) -> ();

        /// Takes `n` permits if they are available. Returns whether it did.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn try_acquire(&self, n: u64) -> bool;

        /// Takes `n` permits, waiting for at most `limit`. Returns whether it did.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn try_acquire_for(&self, n: u64, limit: Duration) -> bool;

        /// Gives `n` permits back; creates the semaphore if it does not exist.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn release(&self, n: u64) -> ();

        /// Adds `n` to the number of permits, which may become negative.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn add(&self, n: i64) -> ();

        /// Takes all available permits, and returns how many.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn drain(&self) -> u64;

        /// Returns how many permits are available; 0 if the semaphore does not exist.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn available(&self) -> i64;

        /// Removes the semaphore. Returns whether there was one.
        ///
        /// # Errors
        /// As [`CountingSemaphore::try_set`].
        fn delete(&self) -> bool;
    }
}
