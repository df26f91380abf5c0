//! The blocking leader election.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Guard;
use super::thread::{block_on, forward_blocking, forward_options};
use crate::{Durability, Leader, Result};

/// A leader election. The holder leads; its term is its fence.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let election = client.election("cron").note("10.0.0.7:8080");
/// if let Some(leadership) = election.try_campaign_for(Duration::from_secs(3))? {
///     let leader = election.leader()?.expect("there is one");
///     assert_eq!(Some(leader.term), leadership.fence());
///     leadership.release()?;
/// }
/// # Ok(()) }
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
        /// A note that the leader publishes, such as its address.
        fn note(self, note: impl Into<Arc<str>>);

        /// Limits a term to this lease, which is not renewed: the leader must campaign again. Without it the term is
        /// renewed.
        fn lease(self, lease: Duration);

        /// Ends a leadership after this long, even if the leader is alive.
        fn max_hold(self, limit: Duration);

        /// How many replicas must have a grant before it counts; see
        /// [`tenure::Lock::durability`](crate::Lock::durability).
        fn durability(self, durability: Durability);
    }

    /// Campaigns until elected. A thread that leads already is elected again at once, for the same term.
    ///
    /// # Errors
    /// As [`tenure::Election::campaign`](crate::Election::campaign).
    #[track_caller]
    pub fn campaign(&self) -> Result<Guard> {
        block_on(self.inner.campaign()).map(Guard::new)
    }

    /// Becomes leader if nobody leads.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    #[track_caller]
    pub fn try_campaign(&self) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_campaign())?.map(Guard::new))
    }

    /// Campaigns for at most `limit`.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    #[track_caller]
    pub fn try_campaign_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(block_on(self.inner.try_campaign_for(limit))?.map(Guard::new))
    }

    forward_blocking! {
        /// The current leader.
        ///
        /// # Errors
        /// As [`tenure::Election::leader`](crate::Election::leader).
        fn leader(&self) -> Option<Leader>;
    }

    /// Observes who leads.
    ///
    /// # Errors
    /// As [`tenure::Election::leader`](crate::Election::leader).
    pub fn observe(&self) -> Result<Observer> {
        self.inner.observe().map(|inner| Observer { inner })
    }
}

/// A stream of leaders.
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
