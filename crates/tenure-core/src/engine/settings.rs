//! Numbers and choices that a client goes by.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::backend::{Durability, Error, Result};

/// Numbers that a client goes by.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Lease of a lock that was asked for without one: renewed every third of it. 30 s.
    pub lease: Duration,
    /// How long a call that does not wait for a lock tries to get an answer from the store; one request that was sent by
    /// then has its own time. 5 s. A call that waits ends with its wait, but however short that is the store is given a
    /// twenty-fifth of this to answer: 200 ms, 5 s at most.
    pub call_timeout: Duration,
    /// How long a call that waits bears a store that does not answer, and how long waiters do. 30 s.
    pub outage: Duration,
    /// How long [`Client::close`](crate::Client::close) takes at most. 5 s.
    pub close_timeout: Duration,
    /// How many copies must have a grant before it counts, for locks that were asked for without saying. The one that
    /// decides. Counts of latches and counting semaphores do not wait for copies.
    pub durability: Durability,
    /// The longest sleep of a waiter that hears nothing; the store's own default if `None`.
    pub poll: Option<Duration>,
    /// A hold that is older than this is logged, once, as a warning. Never if `None`.
    pub warn_held: Option<Duration>,
    /// Whether an acquire that would wait in a circle of owners is told so. They wait.
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
            deadlocks: Deadlocks::Ignore,
        }
    }
}

impl Settings {
    /// A store is given this long to answer, however short the wait is that was asked for: else a wait of nothing would
    /// end in an error wherever there is a network.
    pub(crate) fn answer(&self) -> Duration {
        (self.call_timeout / 25).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }
}

/// What becomes of owners that wait for each other.
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
    /// The one that closes the circle gets [`Error::Deadlock`] instead. For programs in which an owner does one thing
    /// after the other: what it holds it releases itself, and not before a wait of its own has ended. A wait inside
    /// `select!`, `join!` or a timeout of the program's own may end in ways that are not seen here; use
    /// [`try_acquire_for`](crate::Lock::try_acquire_for), which is never told of a deadlock.
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
