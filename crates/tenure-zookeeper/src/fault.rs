//! The outcome of a failed request: refused, session ended, not sent, or unknown. This is the only place that decides
//! it.

use std::fmt;

use tenure_core::Error;

use crate::wire::Refusal;

pub(crate) const SCHEME: &str = "zookeeper";

/// The answer to a request.
pub(crate) type Answer<T> = Result<T, Fault>;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The server answered, and did nothing.
    Refused(Refusal),
    /// The session has ended, and all its nodes with it.
    Ended(String),
    /// It may or may not have been executed.
    Unknown(String),
    /// It was not sent.
    Unsent(String),
    /// The request is invalid.
    Config(Error),
}

impl Fault {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused(Refusal::NO_NODE))
    }

    /// Whether the request may have had an effect that outlives the session.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Converts it into an error of the call `what` on `path`.
    pub(crate) fn into_error(self, what: impl fmt::Display, path: &str) -> Error {
        let what = what.to_string();
        let backend = SCHEME;
        match self {
            Self::Config(error) => error,
            Self::Unsent(reason) | Self::Ended(reason) => {
                Error::Unavailable { backend, what, reason, retry_after: None }
            }
            Self::Unknown(reason) => Error::Unknown { backend, what, reason },
            Self::Refused(Refusal::NO_AUTH) => Error::Config(format!(
                "{backend}: {what}: this login has no right to do that at {path}: see its ACL with getAcl, or give \
                 the user and password that made it"
            )),
            Self::Refused(Refusal::INVALID_ACL) => Error::Config(format!(
                "{backend}: {what}: the server does not take the ACL: is a user given, as in user:password@host?"
            )),
            Self::Refused(Refusal::NO_CHILDREN_FOR_EPHEMERALS) => Error::Config(format!(
                "{backend}: {what}: {path} is an ephemeral node of another program, and has no room for a queue"
            )),
            Self::Refused(refusal) => Error::Unavailable {
                backend,
                what,
                reason: format!("{path}: the server says: {refusal}"),
                retry_after: None,
            },
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::SESSION_EXPIRED => Self::Ended(refusal.to_string()),
            Refusal::AUTH_FAILED => {
                Self::Config(Error::Config(format!("{SCHEME}: the server refuses the login")))
            }
            Refusal::AUTH_REQUIRED => Self::Config(Error::Config(format!(
                "{SCHEME}: the servers close every session that has not proved who it is by a scheme that they enforce \
                 (enforce.auth.schemes, sessionRequireClientSASLAuth): for x509 give a certificate, cert=FILE and \
                 key=FILE with zookeeper+tls://; for digest user:password@host; SASL (Kerberos) is not built in"
            ))),
            definite if definite.is_definite() => Self::Refused(definite),
            other => Self::Unknown(format!("the server says: {other}")),
        }
    }
}
