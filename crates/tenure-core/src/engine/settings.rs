//! Settings of a client.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::backend::{Durability, Error, Result};

/// Settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Lease of a lock that is acquired without one; it is renewed every third of it. Default: 30 s.
    pub lease: Duration,
    /// How long a call that does not wait for a lock tries to get an answer from the store; a request already sent by
    /// then has its own timeout. Default: 5 s. A try, or a call that only looks, fails at once if connections are
    /// refused. A call that waits ends with its wait, but however short that is, the store is given a twenty-fifth of
    /// this to answer, at least 200 ms and at most 5 s.
    pub call_timeout: Duration,
    /// How long a waiting call, or a waiter, tolerates a store that does not answer. Default: 30 s.
    pub outage: Duration,
    /// How long [`Client::close`](crate::Client::close) takes at most. Default: 5 s.
    pub close_timeout: Duration,
    /// How many copies must have stored a grant before it counts, for locks that do not set it. Default: the master
    /// only. Operations on latches and counting semaphores do not wait for replicas.
    pub durability: Durability,
    /// The longest time that a waiter sleeps without a signal before it polls; the store's own default if `None`.
    pub poll: Option<Duration>,
    /// A hold older than this is logged once as a warning; never if `None`.
    pub warn_held: Option<Duration>,
    /// How long the tasks of this client pass a plain lock on among themselves before it is released to everybody, counted
    /// from the grant of the store. `None`: each release goes to the store. Default: 5 ms.
    pub local_handover: Option<Duration>,
    /// Whether an acquire that would cause a deadlock between owners fails. Default: it waits.
    pub deadlocks: Deadlocks,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            call_timeout: Duration::from_secs(5),
            outage: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            poll: None,
            durability: Durability::Master,
            warn_held: None,
            local_handover: Some(Duration::from_millis(5)),
            deadlocks: Deadlocks::Ignore,
        }
    }
}

impl Settings {
    /// How long the store is given to answer, however short the requested wait is: otherwise a wait of zero would
    /// always fail on a store behind a network.
    pub(crate) fn answer(&self) -> Duration {
        (self.call_timeout / 25).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }
}

/// What happens to owners that wait for each other.
///
/// ```
/// # use tenure_core::{Client, Deadlocks, Error, Memory, Owner, Settings};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let mut settings = Settings::default();
/// settings.deadlocks = Deadlocks::Report;
/// let client = Client::with(std::sync::Arc::new(Memory::new()), settings);
/// let take = |first: &'static str, then: &'static str| {
///     let client = client.clone();
///     tokio::spawn(async move {
///         let me = Owner::new();
///         let one = client.lock(first).owner(&me).acquire().await?;
///         tokio::task::yield_now().await;
///         let two = client.lock(then).owner(&me).acquire().await?;
///         two.release().await?;
///         one.release().await
///     })
/// };
/// let (a, b) = (take("a", "b"), take("b", "a"));
/// let told = [a.await.unwrap(), b.await.unwrap()];
/// assert_eq!(told.iter().filter(|t| matches!(t, Err(Error::Deadlock(_)))).count(), 1);
/// assert_eq!(told.iter().filter(|t| t.is_ok()).count(), 1); // the other one went on
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Deadlocks {
    /// They wait.
    #[default]
    Ignore,
    /// The acquire that would close the cycle fails with [`Error::Deadlock`]. For programs in which an owner does one
    /// thing after the other: only the owner itself releases what it holds, and not while it waits. A wait inside
    /// `select!`, `join!` or the program's own timeout may end in ways that are not visible here; use
    /// [`try_acquire_for`](crate::Lock::try_acquire_for) there, which never fails with a deadlock.
    Report,
}

impl fmt::Display for Deadlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ignore => "ignore",
            Self::Report => "report",
        })
    }
}

impl FromStr for Deadlocks {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        match s {
            "ignore" => Ok(Self::Ignore),
            "report" => Ok(Self::Report),
            _ => Err(Error::Config(format!("{s:?} is no way to treat deadlocks: expected report or ignore"))),
        }
    }
}
