//! The outcome of a failed request: refused, session ended, not sent, or unknown. This is the only place that decides
//! it.

use std::fmt;

use tenure_core::Error;
use tenure_core::backend::Reason;

use crate::wire::ErrorCode;

pub(crate) const SCHEME: &str = "zookeeper";

/// The answer to a request.
pub(crate) type RequestResult<T> = Result<T, RequestError>;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) enum RequestError {
    /// The server answered, and did nothing.
    Refused(ErrorCode),
    /// The session has ended, and all its nodes with it.
    SessionEnded(Reason),
    /// It may or may not have been executed.
    Unknown(Reason),
    /// It was not sent.
    NotSent(Reason),
    /// Refused: the login has no right to delete the node at this path.
    NotOwner(String),
    /// The request is invalid.
    Config(Error),
}

impl RequestError {
    pub(crate) fn not_sent(why: impl Into<Reason>) -> Self {
        Self::NotSent(why.into())
    }

    pub(crate) fn unknown(why: impl Into<Reason>) -> Self {
        Self::Unknown(why.into())
    }

    /// The error of a call of which another part was or may have been executed.
    pub(crate) fn into_unknown(self) -> Self {
        match self {
            Self::NotSent(why) | Self::SessionEnded(why) | Self::Unknown(why) => Self::Unknown(why),
            Self::Refused(code) => Self::unknown(code.to_string()),
            Self::NotOwner(_) => Self::unknown(ErrorCode::NO_AUTH.to_string()),
            Self::Config(error) => Self::unknown(error.to_string()),
        }
    }

    /// Whether the login has no right to do it.
    pub(crate) fn is_no_right(&self) -> bool {
        matches!(self, Self::Refused(ErrorCode::NO_AUTH) | Self::NotOwner(_))
    }

    pub(crate) fn is_no_node(&self) -> bool {
        matches!(self, Self::Refused(ErrorCode::NO_NODE))
    }

    /// Whether it was not executed because another request of its transaction was refused.
    pub(crate) fn is_rolled_back(&self) -> bool {
        matches!(self, Self::Refused(ErrorCode::ROLLED_BACK))
    }

    /// Whether it was not sent because all servers refuse connections.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::NotSent(Reason { cause: Some(cause), .. }) if cause.is_refused())
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
            Self::NotSent(reason) | Self::SessionEnded(reason) => Error::unavailable(backend, what, reason),
            Self::Unknown(reason) => Error::unknown(backend, what, reason),
            Self::NotOwner(path) => Error::Config(format!(
                "{backend}: {what}: not the owner of {path}: this login has no right to delete it"
            )),
            Self::Refused(ErrorCode::NO_AUTH) => Error::Config(format!(
                "{backend}: {what}: this login has no right to do that at {path}: check its ACL with getAcl, or \
                 use the login that created it"
            )),
            Self::Refused(ErrorCode::INVALID_ACL) => Error::Config(format!(
                "{backend}: {what}: the server rejects the ACL because the session has no login: give one, as in \
                 user:password@host"
            )),
            Self::Refused(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS) => Error::Config(format!(
                "{backend}: {what}: {path} is an ephemeral node of another program and cannot have children: use \
                 another name"
            )),
            Self::Refused(code) => {
                Error::unavailable(backend, what, format!("{path}: the server answered: {code}"))
            }
        }
    }
}

impl From<ErrorCode> for RequestError {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::SESSION_EXPIRED => Self::SessionEnded(code.to_string().into()),
            ErrorCode::AUTH_FAILED => Self::Config(Error::Config(format!(
                "{SCHEME}: the servers reject the login: check user and password"
            ))),
            ErrorCode::AUTH_REQUIRED => Self::Config(Error::Config(format!(
                "{SCHEME}: the servers accept only sessions that authenticate by a scheme that they enforce \
                 (enforce.auth.schemes, sessionRequireClientSASLAuth): for x509 give a certificate, cert=FILE and \
                 key=FILE with zookeeper+tls://; for digest user:password@host; SASL (Kerberos) is not supported"
            ))),
            definite if definite.is_definite() => Self::Refused(definite),
            other => Self::Unknown(format!("the server answered: {other}").into()),
        }
    }
}
