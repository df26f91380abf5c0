//! How a call can fail, and the one table that classifies error replies.

use std::fmt;
use std::time::Duration;

use tenure_core::backend::Reason;

use crate::Address;

/// An error reply of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ErrorReply {
    /// The error code: the first word.
    pub(crate) code: String,
    /// The whole line.
    pub(crate) message: String,
}

impl ErrorReply {
    pub(crate) fn new(line: &str) -> Self {
        Self { code: line.split(' ').next().unwrap_or_default().to_owned(), message: line.to_owned() }
    }
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Certainly not executed; a retry may work.
    NotExecuted(Reason),
    /// Like `NotExecuted`, with the time after which it will work: the server's uptime is too short.
    RecentlyRestarted(String, Duration),
    /// Sent at least in part, and not answered.
    Unknown(Reason),
    /// The server's error, which a retry would not change. What a script wrote before it failed stays written.
    Refused(ErrorReply),
}

impl Failure {
    pub(crate) fn not_executed(why: impl Into<Reason>) -> Self {
        Self::NotExecuted(why.into())
    }

    pub(crate) fn unknown(why: impl Into<Reason>) -> Self {
        Self::Unknown(why.into())
    }

    /// Whether it was not executed because its keys are split over two nodes while their slot migrates.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self, Self::NotExecuted(why) if why.text.contains("TRYAGAIN"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExecuted(why) | Self::Unknown(why) => f.write_str(&why.text),
            Self::RecentlyRestarted(why, _) => f.write_str(why),
            Self::Refused(reply) => f.write_str(&reply.message),
        }
    }
}

impl From<Failure> for Reason {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotExecuted(why) | Failure::Unknown(why) => why,
            Failure::RecentlyRestarted(why, _) => why.into(),
            Failure::Refused(reply) => reply.message.into(),
        }
    }
}

/// How to react to an error reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ErrorClass {
    /// The server does not have the script: send its text.
    NoScript,
    /// The slot belongs to another node.
    Moved(u16, Address),
    /// Ask another node, for this request only.
    Ask(Address),
    NotExecuted(Cause),
    /// The connection has lost its login.
    LoggedOut,
    Refused,
}

/// Why a request was not executed, and so what may help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Temporary: this server may execute it later.
    Temporary,
    /// Another node may be the right one by now.
    OtherNode,
    /// Like `OtherNode`: the server is a replica. Its address may belong to another server by now, which only a new
    /// connection can find out.
    Replica,
}

/// Error codes of requests that were certainly not executed.
///
/// A script gets most of these at its first write, and the reply then ends in `script: <hash>, on @user_script:1.`
/// (servers before 7.0 say `ERR Error running script … @user_script: 1: -CODE …`). Nothing was written then either: the
/// checked conditions do not change while a script runs, and memory is not checked again after its first write.
const NOT_EXECUTED: &[(&str, Cause)] = &[
    // A replica, or a demoted master.
    ("READONLY", Cause::Replica),
    // A replica that has lost its master and serves nothing meanwhile.
    ("MASTERDOWN", Cause::Replica),
    // Just started and still loading its data.
    ("LOADING", Cause::OtherNode),
    // The slot has no node, or the cluster has no majority.
    ("CLUSTERDOWN", Cause::OtherNode),
    // The keys are split over two nodes while their slot migrates.
    ("TRYAGAIN", Cause::Temporary),
    // Fewer replicas than `min-replicas-to-write`.
    ("NOREPLICAS", Cause::Temporary),
    // It cannot save to disk, and is configured to refuse writes then.
    ("MISCONF", Cause::Temporary),
    // Out of memory.
    ("OOM", Cause::Temporary),
    // Another script is running for too long.
    ("BUSY", Cause::Temporary),
    // A transaction of which a command was refused when queued.
    ("EXECABORT", Cause::Temporary),
];

/// Like [`NOT_EXECUTED`], for replies whose code is just `ERR`.
const NOT_EXECUTED_ERR: &[&str] = &[
    "ERR max number of clients",
    // Only scripts that have not written can be killed.
    "ERR Script killed by user with SCRIPT KILL",
];

/// Classifies an error reply; this happens nowhere else. Unlisted errors are refused.
pub(crate) fn classify(reply: &ErrorReply, from: &Address) -> ErrorClass {
    let code = match reply.message.split_once("@user_script") {
        Some((_, old)) if reply.code == "ERR" => old.split(": -").nth(1).unwrap_or_default(),
        _ => &reply.code,
    };
    let code = code.split(' ').next().unwrap_or_default();
    if let Some((_, cause)) = NOT_EXECUTED.iter().find(|(listed, _)| *listed == code) {
        return ErrorClass::NotExecuted(*cause);
    }
    if NOT_EXECUTED_ERR.iter().any(|listed| reply.message.starts_with(listed)) {
        return ErrorClass::NotExecuted(Cause::Temporary);
    }
    match (code, redirect(reply, from)) {
        ("NOSCRIPT", _) => ErrorClass::NoScript,
        ("NOAUTH", _) => ErrorClass::LoggedOut,
        ("MOVED", Some((slot, node))) => ErrorClass::Moved(slot, node),
        ("ASK", Some((_, node))) => ErrorClass::Ask(node),
        _ => ErrorClass::Refused,
    }
}

/// Parses `MOVED 3999 127.0.0.1:6381`. An empty host means the host that was asked.
fn redirect(reply: &ErrorReply, from: &Address) -> Option<(u16, Address)> {
    let mut words = reply.message.split(' ').skip(1);
    let slot = words.next()?.parse().ok()?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((slot, announced_address(host, port.parse().ok()?, from)))
}

/// The address of a node as another one announces it: no host, or `?`, means the host that was asked.
pub(crate) fn announced_address(host: &str, port: u16, from: &Address) -> Address {
    match from {
        Address::Tcp { host: asked, .. } if host.is_empty() || host == "?" => Address::tcp(asked, port),
        _ => Address::tcp(host, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(line: &str) -> ErrorClass {
        classify(&ErrorReply::new(line), &Address::tcp("asked", 1))
    }

    #[test]
    fn redirections_are_read() {
        assert_eq!(
            class("MOVED 3999 10.0.0.1:6381"),
            ErrorClass::Moved(3999, Address::tcp("10.0.0.1", 6381))
        );
        assert_eq!(class("MOVED 3999 :6381"), ErrorClass::Moved(3999, Address::tcp("asked", 6381)));
        assert_eq!(class("MOVED 3999 ?:6381"), ErrorClass::Moved(3999, Address::tcp("asked", 6381)));
        assert_eq!(class("ASK 3999 2001:db8::1:6381"), ErrorClass::Ask(Address::tcp("2001:db8::1", 6381)));
        assert_eq!(class("MOVED nonsense"), ErrorClass::Refused);
    }

    #[test]
    fn older_servers_wrap_what_a_script_meets() {
        let wrapped = |inner: &str| {
            class(&format!(
                "ERR Error running script (call to f_6b): @user_script:1: @user_script: 1: {inner}"
            ))
        };
        assert_eq!(
            wrapped("-READONLY You can't write against a read only replica."),
            ErrorClass::NotExecuted(Cause::Replica)
        );
        assert_eq!(
            wrapped("-OOM command not allowed when used memory > 'maxmemory'."),
            ErrorClass::NotExecuted(Cause::Temporary)
        );
        assert_eq!(wrapped("WRONGTYPE Operation against a key"), ErrorClass::Refused);
    }
}
