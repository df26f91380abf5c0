//! What goes between a client and a server.

use std::sync::Arc;

use tenure_core::backend::{Attempt, CountOp, CountReply, Counter, Released, Renewal, Signal, Snapshot};
use tenure_core::{Claim, ClientId, HoldId, Name, OpId, Result};

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Attempt(Claim),
    Renew(Vec<Arc<Claim>>),
    Release(Claim, u32),
    Count(Name, Counter, CountOp, OpId),
    Watch(Name, ClientId, Topic),
    Inspect(Name),
}

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Topic {
    Admissions,
    Count,
    Holder,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Attempt(Result<Attempt>),
    Renew(Result<Vec<Renewal>>),
    Release(Result<Released>),
    Count(Result<CountReply>),
    Watch(Result<()>),
    Inspect(Option<Snapshot>),
}

/// A signal of a watch, to the client and the number of the call that opened it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signalled {
    pub(crate) client: u32,
    pub(crate) call: u64,
    pub(crate) signal: Signal,
}

impl Request {
    /// The hold of an attempt, and whether it is one.
    pub(crate) fn lane(&self) -> Option<(HoldId, bool)> {
        match self {
            Self::Attempt(claim) => Some((claim.id, true)),
            Self::Release(claim, _) => Some((claim.id, false)),
            _ => None,
        }
    }

    /// What it is called in an error.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Attempt(_) => "acquire",
            Self::Renew(_) => "renew",
            Self::Release(..) => "release",
            Self::Count(..) => "count",
            Self::Watch(..) => "watch",
            Self::Inspect(_) => "inspect",
        }
    }
}
