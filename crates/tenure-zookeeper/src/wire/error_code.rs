//! Error codes of a server.

use std::fmt;

/// An error code, as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ErrorCode(pub(crate) i32);

impl ErrorCode {
    /// Another request of the same transaction was refused.
    pub(crate) const ROLLED_BACK: Self = Self(-2);
    pub(crate) const NO_NODE: Self = Self(-101);
    pub(crate) const NO_AUTH: Self = Self(-102);
    pub(crate) const BAD_VERSION: Self = Self(-103);
    pub(crate) const NO_CHILDREN_FOR_EPHEMERALS: Self = Self(-108);
    pub(crate) const NODE_EXISTS: Self = Self(-110);
    pub(crate) const SESSION_EXPIRED: Self = Self(-112);
    pub(crate) const INVALID_ACL: Self = Self(-114);
    pub(crate) const AUTH_FAILED: Self = Self(-115);
    /// Named after SASL, but sent by servers that enforce any scheme.
    pub(crate) const AUTH_REQUIRED: Self = Self(-124);

    /// Whether the request was certainly not executed. For all other codes that is unknown.
    pub(crate) fn is_definite(self) -> bool {
        self.name().is_some()
            && !matches!(self, Self::SESSION_EXPIRED | Self::AUTH_FAILED | Self::AUTH_REQUIRED)
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::ROLLED_BACK => "another request of its transaction was refused",
            Self(-6) => "the request is not supported",
            Self(-8) => "bad arguments",
            Self::NO_NODE => "no such node",
            Self::NO_AUTH => "no right to do that",
            Self::BAD_VERSION => "the version does not match",
            Self::NO_CHILDREN_FOR_EPHEMERALS => "ephemeral nodes have no children",
            Self::NODE_EXISTS => "the node exists",
            Self(-111) => "the node has children",
            Self::SESSION_EXPIRED => "the session has expired",
            Self::INVALID_ACL => "invalid ACL",
            Self::AUTH_FAILED => "authentication failed",
            Self::AUTH_REQUIRED => "authentication is required",
            Self(-119) => "the server is read-only",
            Self(-121) => "no such watch",
            Self(-125) => "the quota is exceeded",
            Self(-127) => "the server is overloaded",
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}
