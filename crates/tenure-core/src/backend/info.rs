//! Properties and capabilities of a store.

use std::fmt;
use std::time::Duration;

use crate::backend::{
    Clock, Drift, Durability, Environment, Error, Family, Name, Reason, Result, SizeWarnings, Suspicion,
};

/// Properties and capabilities of a store. Start from [`Info::new`] and change what differs.
///
/// ```
/// # use tenure_core as tenure;
/// use tenure::backend::{Durability, Environment, Family, Info, Kind};
///
/// let mut info = Info::new("etcd", Environment::system());
/// info.fenced = true;
/// info.families = &[Family::Lock, Family::Leader];
/// assert!(info.require(Kind::Lock.family()).is_ok() && info.require(Family::Latch).is_err());
/// assert!(info.require_token("my-token").is_err()); // `tokens` is not set
/// assert!(info.require_durability(Durability::Replicas(1)).is_err()); // neither is `durable`
/// assert!(info.clock().is_boot());
///
/// println!("{}", info.unavailable("acquire orders/42", "connection refused"));
/// println!("{}", info.unknown(Kind::FairLock)); // for a kind that is newer than the store
///
/// info.address = "etcd-1:2379".to_owned();
/// assert_eq!(info.label(), "etcd etcd-1:2379");
/// let error = info.locate(info.unavailable("acquire orders/42", "connection refused"));
/// assert!(error.to_string().ends_with("etcd-1:2379: connection refused"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The scheme of its address, and its name in errors.
    pub scheme: &'static str,
    /// Where it is, for messages: the hosts or the path, without secrets. Empty for a store in this process.
    pub address: String,
    /// The supported families; all others are [`Error::Unsupported`].
    pub families: &'static [Family],
    /// Why other families are not supported, where there is a specific reason.
    pub refusals: &'static [(Family, &'static str)],
    /// Whether grants carry a fence.
    pub fenced: bool,
    /// Whether a holder can be identified by a token of the caller's own: [`Claim::token`](crate::Claim::token).
    pub tokens: bool,
    /// Whether it has replicas, and can tell how many have stored a grant:
    /// [`Claim::durability`](crate::Claim::durability).
    pub durable: bool,
    /// What keeps a holder alive.
    pub liveness: Liveness,
    /// The longest time that a waiter sleeps without a signal before it polls.
    pub poll: Duration,
    /// Where the engine of its clients gets time, chance and threads from. By its clock the backend reports how long a
    /// grant is valid.
    pub environment: Environment,
    /// The safety margin that is subtracted from each lease.
    pub drift: Drift,
    /// Raised by the backend when its server may have lost grants. Clients then verify all their holds, and waiters try
    /// again. A store that cannot lose grants never raises it.
    pub suspicion: Suspicion,
    /// Warns of semaphores whose size in the code differs from the stored one.
    pub sizes: SizeWarnings,
    /// The longest interval between two verifications of a shared hold, where other libraries may shorten the TTL of
    /// the key that carries it.
    pub shared_proof: Option<Duration>,
    /// The longest lease that it accepts, if there is a limit.
    pub max_lease: Option<Duration>,
}

impl Info {
    /// Creates the properties of a store with leases that supports every family, has no fences, tokens or replicas, and
    /// cannot lose grants.
    pub fn new(scheme: &'static str, environment: Environment) -> Self {
        Self {
            scheme,
            address: String::new(),
            families: Family::ALL,
            refusals: &[],
            fenced: false,
            tokens: false,
            durable: false,
            liveness: Liveness::Lease,
            poll: Duration::from_secs(5),
            environment,
            drift: Drift::default(),
            suspicion: Suspicion::new(),
            sizes: SizeWarnings::default(),
            shared_proof: None,
            max_lease: None,
        }
    }

    /// Returns the clock by which this backend reports how long a grant is valid.
    pub fn clock(&self) -> &Clock {
        &self.environment.clock
    }

    /// Checks that this store supports `family`.
    ///
    /// # Errors
    /// `Unsupported` if it does not.
    pub fn require(&self, family: Family) -> Result<()> {
        if self.families.contains(&family) {
            return Ok(());
        }
        let why = self.refusals.iter().find(|(refused, _)| *refused == family);
        let why = why.map_or_else(String::new, |(_, why)| format!("{why}; "));
        let article = if family == Family::Leader { "an" } else { "a" };
        Err(Error::Unsupported {
            backend: self.scheme,
            what: format!("{article} {family}"),
            reason: format!("{why}this store serves {}", list(self.families)),
        })
    }

    /// Returns the error for a kind or an operation that is newer than this backend.
    pub fn unknown(&self, what: impl fmt::Debug) -> Error {
        Error::Unsupported {
            backend: self.scheme,
            what: format!("{what:?}"),
            reason: "this version of the store does not know it".to_owned(),
        }
    }

    /// Checks that this store has tokens, and that `token` is valid.
    ///
    /// # Errors
    /// `Unsupported` if it has none; `Config` if the token is empty or too long.
    pub fn require_token(&self, token: &str) -> Result<()> {
        const LONGEST: usize = 1024;
        if token.is_empty() || token.len() > LONGEST {
            return Err(Error::Config(format!(
                "a token of {} bytes: expected 1 to {LONGEST} bytes of text",
                token.len()
            )));
        }
        if self.tokens {
            return Ok(());
        }
        Err(Error::Unsupported {
            backend: self.scheme,
            what: "a token of the caller's own".to_owned(),
            reason: "holders stand there by the ids of their holds; on Redis, layout=plain has tokens"
                .to_owned(),
        })
    }

    /// Checks that this store can wait for as many replicas.
    ///
    /// # Errors
    /// `Unsupported` if it has none; `Config` for zero replicas.
    pub fn require_durability(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Master => Ok(()),
            Durability::Replicas(0) => {
                Err(Error::Config("durability replicas:0: at least one must be asked for, or master".into()))
            }
            Durability::Replicas(_) if self.durable => Ok(()),
            Durability::Replicas(_) => Err(Error::Unsupported {
                backend: self.scheme,
                what: format!("durability {durability}"),
                reason: "this store has no replicas that it could wait for".into(),
            }),
        }
    }

    pub(crate) fn no_revocation(&self, name: &Name) -> Error {
        Error::Unsupported {
            backend: self.scheme,
            what: format!("asking the holder of {name} to give way"),
            reason: "this store has no place for such a request; on ZooKeeper there is one".to_owned(),
        }
    }

    /// Fails with `Unsupported` where a hold cannot be extended without its guard.
    pub(crate) fn require_lease(&self, name: &Name) -> Result<()> {
        match self.liveness {
            Liveness::Lease => Ok(()),
            Liveness::Session => Err(Error::Unsupported {
                backend: self.scheme,
                what: format!("extending a hold of {name} by its id"),
                reason: "a hold lives there as long as the session that took it, and needs no renewal"
                    .to_owned(),
            }),
        }
    }

    /// Fails where a hold cannot be kept for `d` without its holder.
    pub(crate) fn require_at_least(&self, d: Duration) -> Result<()> {
        if self.liveness == Liveness::Session {
            return Err(Error::Unsupported {
                backend: self.scheme,
                what: format!("keeping a hold for at least {d:?}"),
                reason: "a hold lives there as long as the session that took it, and ends with its process"
                    .to_owned(),
            });
        }
        match self.max_lease {
            Some(most) if d > most => Err(Error::Config(format!(
                "{}: a hold cannot be kept for at least {d:?}, because max_lease is {most:?}",
                self.scheme
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the scheme and the address, as in `redis cache-1:6379`.
    pub fn label(&self) -> String {
        format!("{} {}", self.scheme, self.address).trim_end().to_owned()
    }

    /// Adds the address to an error that names none of its hosts.
    pub fn locate(&self, mut error: Error) -> Error {
        let is_named = |text: &str| self.address.split(',').any(|host| text.contains(host));
        match &mut error {
            Error::Unavailable { reason, .. } | Error::Unknown { reason, .. } if !is_named(reason) => {
                *reason = format!("{}: {reason}", self.address);
            }
            Error::Config(why) if self.address.is_empty() || !is_named(why) => {
                let scheme = format!("{}: ", self.scheme);
                *why = format!("{}: {}", self.label(), why.strip_prefix(&scheme).unwrap_or(why));
            }
            _ => {}
        }
        error
    }

    /// Returns the reason for an error of a call that was not answered within `limit`.
    pub(crate) fn no_answer(&self, limit: Duration) -> String {
        match self.address.as_str() {
            "" => format!("no answer within {limit:?}"),
            address => format!("no answer from {address} within {limit:?}"),
        }
    }

    /// Returns the error of a call to this store that was certainly not executed.
    pub fn unavailable(&self, what: impl fmt::Display, reason: impl Into<Reason>) -> Error {
        Error::unavailable(self.scheme, what, reason)
    }
}

fn list(families: &[Family]) -> String {
    families.iter().map(|f| format!("{f}s")).collect::<Vec<_>>().join(", ")
}

/// What keeps a holder alive in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// Each hold has its own lease.
    Lease,
    /// All holds of a client live and die with its session. The core enforces a lease that the caller set: it releases
    /// the hold when that ends.
    Session,
}
