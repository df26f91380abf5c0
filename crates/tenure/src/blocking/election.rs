//! Elections, for threads.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Guard;
use super::thread::{options, wait, waits};
use crate::{Durability, Leader, Result};

/// An election. Whoever holds it leads, for a term that is its fence.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// # let client = tenure::blocking::connect("memory:")?;
/// let election = client.election("cron").note("10.0.0.7:8080");
/// if let Some(leadership) = election.campaign_for(Duration::from_secs(3))? {
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
    options! {
        /// What a leader says of itself, an address say.
        fn note(self, note: impl Into<Arc<str>>);

        /// A term that ends after this long unless the leader stands again. Without one it is renewed.
        fn lease(self, lease: Duration);

        /// Ends a leadership after this long, however alive the leader is.
        fn max_hold(self, limit: Duration);

        /// How many copies must know of a leader before it leads; see
        /// [`tenure::Lock::durability`](crate::Lock::durability).
        fn durability(self, durability: Durability);
    }

    /// Waits until elected. The thread that leads is elected again at once, for the same term.
    ///
    /// # Errors
    /// As [`tenure::Election::campaign`](crate::Election::campaign).
    #[track_caller]
    pub fn campaign(&self) -> Result<Guard> {
        wait(self.inner.campaign()).map(Guard::new)
    }

    /// Leads if nobody else does.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    #[track_caller]
    pub fn try_campaign(&self) -> Result<Option<Guard>> {
        Ok(wait(self.inner.try_campaign())?.map(Guard::new))
    }

    /// Waits for at most `limit` to be elected.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    #[track_caller]
    pub fn campaign_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(wait(self.inner.campaign_for(limit))?.map(Guard::new))
    }

    waits! {
        /// Who leads now.
        ///
        /// # Errors
        /// As [`tenure::Election::leader`](crate::Election::leader).
        fn leader(&self) -> Option<Leader>;
    }

    /// Follows who leads.
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
    /// Waits for the next change: at first who leads now, then each time another one does, or nobody; see
    /// [`tenure::Observer::next`](crate::Observer::next).
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer: call again.
    #[track_caller]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Leader>> {
        wait(self.inner.next())
    }

    /// Waits for the next change for at most `limit`. The outer `None` means that nothing changed, the inner one that
    /// nobody leads.
    ///
    /// # Errors
    /// As [`Observer::next`].
    #[track_caller]
    pub fn next_for(&mut self, limit: Duration) -> Result<Option<Option<Leader>>> {
        wait(async {
            match timeout(limit, self.inner.next()).await {
                Ok(change) => change.map(Some),
                Err(_) => Ok(None),
            }
        })
    }
}
