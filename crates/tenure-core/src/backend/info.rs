//! What a store is and can do.

use std::fmt;
use std::time::Duration;

use crate::backend::{Clock, Doubt, Drift, Durability, Error, Family, Name, Result};

/// What a store is and can do.
#[derive(Clone, Debug)]
pub struct Info {
    /// The scheme of its address, and its name in errors.
    pub scheme: &'static str,
    /// What it serves; all else is [`Error::Unsupported`].
    pub families: &'static [Family],
    /// Why it does not serve the others, where there is more to say than that.
    pub refusals: &'static [(Family, &'static str)],
    /// Whether grants carry a fence.
    pub fenced: bool,
    /// Whether a holder may stand there by a word of its own: [`Claim::token`](crate::Claim::token).
    pub tokens: bool,
    /// Whether it has copies, and can say how many of them have a grant: [`Claim::durability`](crate::Claim::durability).
    pub durable: bool,
    /// What keeps a holder alive.
    pub liveness: Liveness,
    /// The longest sleep of a waiter that hears nothing.
    pub poll: Duration,
    /// The clock on which this store says how long a grant is valid.
    pub clock: Clock,
    /// What it takes off each lease.
    pub drift: Drift,
    /// Raised by the backend when it finds that its server may have forgotten what it granted. Clients then prove all
    /// that they hold, and those who wait look again. A store that cannot forget never raises it.
    pub doubt: Doubt,
    /// How often a shared hold must be proved at least, where other libraries may cut short what carries it.
    pub shared_proof: Option<Duration>,
}

impl Info {
    /// `Unsupported` unless this store serves `family`.
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

    /// `Unsupported` unless a holder can stand there by this word; `Config` if it is none.
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

    /// `Unsupported` unless this store can wait for as many copies; `Config` for none at all.
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

    /// `Unsupported` where a hold cannot be extended without its guard.
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

    /// The error of a call to this store that was certainly not executed.
    pub fn unavailable(&self, what: impl fmt::Display, reason: impl fmt::Display) -> Error {
        Error::Unavailable {
            backend: self.scheme,
            what: what.to_string(),
            reason: reason.to_string(),
            retry_after: None,
        }
    }
}

fn list(families: &[Family]) -> String {
    families.iter().map(|f| format!("{f}s")).collect::<Vec<_>>().join(", ")
}

/// What keeps a holder alive in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// Each hold has a lease of its own.
    Lease,
    /// All holds of a client live and die with its session. A lease that was asked for is kept by the core: it
    /// releases the hold when that is over.
    Session,
}
