//! The blocking leader election.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Guard;
use super::thread::{block_on, forward_blocking, forward_options};
use crate::{Durability, Leader, Result};

/// An election. Whoever holds it is the leader, for a term that is identified by the fence of the hold.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let election = client.election("cron").note("10.0.0.7:8080").max_hold(Duration::from_secs(3600));
/// if let Some(leadership) = election.try_campaign_for(Duration::from_secs(3))? {
///     let leader = election.leader()?.expect("there is one");
///     assert_eq!(Some(leader.term), leadership.fence());
///     leadership.release()?;
/// }
///
/// let standby = client.election("cron").lease(Duration::from_secs(60)).durability(tenure::Durability::Master);
/// let leadership = standby.campaign()?; // waits until elected
/// std::thread::scope(|s| {
///     s.spawn(|| assert!(standby.try_campaign().unwrap().is_none())); // another thread does not wait
/// });
/// # leadership.release() }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is used"]
pub struct Election {
    inner: crate::Election,
}

impl From<crate::Election> for Election {
    fn from(election: crate::Election) -> Self {
        Self { inner: election }
    }
}

impl Election {
    forward_options! {
        /// Sets the note that a leader publishes, for instance an address.
        fn note(self, note: impl Into<Arc<str>>);

        /// Ends a term after this lease, without renewal: the leader must campaign again. By default the term is renewed
        /// until the guard is gone.
        fn lease(self, lease: Duration);

        /// Ends a leadership after this long, even if the leader is alive.
        fn max_hold(self, limit: Duration);

        /// Sets how many copies must have stored a leader before it leads; see
        /// [`tenure::Lock::durability`](crate::Lock::durability).
        fn durability(self, durability: Durability);
    }

    /// Campaigns until elected. A thread that already leads re-enters its term at once.
    ///
    /// # Errors
    /// As [`tenure::Election::campaign`](crate::Election::campaign).
    #[track_caller]
    pub fn campaign(&self) -> Result<Guard> {
        block_on(self.inner.campaign()).map(Guard::new)
    }

    /// Becomes the leader if there is none; `None` if there is one.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    #[track_caller]
    pub fn try_campaign(&self) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_campaign())?.map(Guard::new))
    }

    /// Campaigns for at most `limit`; `None` if not elected by then.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    #[track_caller]
    pub fn try_campaign_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_campaign_for(limit))?.map(Guard::new))
    }

    forward_blocking! {
        /// Returns the current leader, or `None` if nobody leads.
        ///
        /// # Errors
        /// As [`tenure::Election::leader`](crate::Election::leader).
        fn leader(&self) -> Option<Leader>;
    }

    /// Returns a stream of leaders, which begins with the current one.
    ///
    /// # Errors
    /// As [`tenure::Election::leader`](crate::Election::leader).
    pub fn observe(&self) -> Result<Observer> {
        self.inner.observe().map(|inner| Observer { inner })
    }
}

/// A stream of leaders.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let mut observer = client.election("cron").observe()?;
/// assert_eq!(observer.next()?, None); // nobody leads yet
/// assert!(observer.next_for(Duration::from_millis(10))?.is_none()); // nothing has changed
/// let leadership = client.election("cron").campaign()?;
/// assert_eq!(observer.next()?.map(|leader| leader.term), leadership.fence());
/// # leadership.release() }
/// ```
#[derive(Debug)]
pub struct Observer {
    inner: crate::Observer,
}

impl Observer {
    /// Waits for the next change: returns the current leader first, then each new leader, or `None` when nobody leads;
    /// see [`tenure::Observer::next`](crate::Observer::next).
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; call it again.
    #[track_caller]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Leader>> {
        block_on(self.inner.next())
    }

    /// Waits for the next change for at most `limit`. The outer `None` means that nothing changed, the inner one that
    /// nobody leads.
    ///
    /// # Errors
    /// As [`Observer::next`].
    #[track_caller]
    pub fn next_for(&mut self, limit: Duration) -> Result<Option<Option<Leader>>> {
        block_on(async {
            match timeout(limit, self.inner.next()).await {
                Ok(change) => change.map(Some),
                Err(_) => Ok(None),
            }
        })
    }
}
