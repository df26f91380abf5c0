//! Maps failures of the server or the connection to the caller's errors.

use tenure_core::backend::Info;
use tenure_core::{Error, Name};

use crate::options::Layout;
use crate::transport::{ErrorReply, Failure};

/// The failed call, for error messages.
pub(crate) struct ErrorContext<'a> {
    pub(crate) info: &'a Info,
    pub(crate) verb: &'static str,
    pub(crate) name: Option<&'a Name>,
    pub(crate) key: &'a str,
}

/// The error code. Servers before 7.0 wrap errors raised inside scripts.
pub(crate) fn code(reply: &ErrorReply) -> &str {
    let inner = reply.message.rsplit_once("@user_script:").and_then(|(_, rest)| rest.split_once(": "));
    let text = inner.map_or(&*reply.code, |(_, text)| text);
    text.split(' ').next().unwrap_or_default()
}

impl ErrorContext<'_> {
    pub(crate) fn to_error(&self, failure: Failure) -> Error {
        let what = match self.name {
            Some(name) => format!("{} {name}", self.verb),
            None => self.verb.to_owned(),
        };
        let backend = self.info.scheme;
        self.info.locate(match failure {
            Failure::NotExecuted(reason) => Error::unavailable(backend, what, reason),
            Failure::RecentlyRestarted(reason, left) => {
                Error::unavailable(backend, what, reason).ready_after(Some(left))
            }
            Failure::Unknown(reason) => Error::unknown(backend, what, reason),
            Failure::Refused(reply) => Error::Config(match code(&reply) {
                "WRONGTYPE" => format!(
                    "{backend}: {what}: the key {:?}, or one beside it, belongs to another program; use another name",
                    self.key
                ),
                "NOPERM" | "NOAUTH" | "WRONGPASS" => {
                    format!("{backend}: {what}: the server does not allow it: {}", reply.message)
                }
                _ => format!("{backend}: {what}: the server refused it: {}", reply.message),
            }),
        })
    }

    /// The key has a type that no kind of lock has.
    pub(crate) fn foreign_key(&self, kind: &str) -> Error {
        let name = self.name.map_or_else(String::new, |name| format!(" {name}"));
        self.info.locate(Error::Config(format!(
            "{}{name}: the key {:?} is a {kind} of another program; use another name",
            self.verb, self.key
        )))
    }

    /// The key has the type of a lock in the other layout: somebody may hold it.
    pub(crate) fn other_layout(&self, layout: Layout) -> Error {
        let (is, shared) = match layout {
            Layout::Redisson => (
                "a string, as created by SET NX PX: a lock of the plain layout",
                "open the store with layout=plain to share such locks",
            ),
            Layout::Plain => (
                "a hash, as created by Redisson: a lock of Redisson's layout",
                "open the store without layout=plain to share such locks",
            ),
        };
        let name = self.name.map_or_else(String::new, |name| format!(" {name}"));
        self.info.locate(Error::Config(format!(
            "{}{name}: the key {:?} is {is}, or not a lock at all; {shared}, or use another name",
            self.verb, self.key
        )))
    }

    /// A reply that none of our scripts returns.
    pub(crate) fn unexpected_reply(&self, value: impl std::fmt::Debug) -> Error {
        self.info.locate(Error::Config(format!("{}: the server answered {value:?}", self.verb)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_servers_wrap_what_a_script_meets() {
        let wrapped =
            "ERR Error running script (call to f_f9): @user_script:109: WRONGTYPE Operation against a key";
        for (message, word) in
            [(wrapped, "WRONGTYPE"), ("WRONGTYPE x script: f, on @user_script:1.", "WRONGTYPE")]
        {
            assert_eq!(code(&ErrorReply::new(message)), word);
        }
        assert_eq!(code(&ErrorReply::new("NOPERM this user")), "NOPERM");
    }
}
