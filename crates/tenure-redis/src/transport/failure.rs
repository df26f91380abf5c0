//! How a call can fail, and what each error reply of a server means: one table.

use std::fmt;
use std::time::Duration;

use crate::Address;

/// An error reply of a server, in its own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    /// The first word.
    pub(crate) code: String,
    /// The whole line.
    pub(crate) message: String,
}

impl Reply {
    pub(crate) fn new(line: &str) -> Self {
        Self { code: line.split(' ').next().unwrap_or_default().to_owned(), message: line.to_owned() }
    }
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Certainly not executed; it may work later.
    NotExecuted(String),
    /// The same, and when it will work: the server has not been up for long enough.
    TooYoung(String, Duration),
    /// Sent, at least in part, and not answered.
    Unknown(String),
    /// The server's error, which will be the same next time. What a script wrote before it failed stays written.
    Refused(Reply),
}

impl Failure {
    /// Not executed because the slot of its keys moves, and some of them are on one node and some on another.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self, Self::NotExecuted(why) if why.contains("TRYAGAIN"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExecuted(why) | Self::TooYoung(why, _) | Self::Unknown(why) => f.write_str(why),
            Self::Refused(reply) => f.write_str(&reply.message),
        }
    }
}

/// What to do about an error reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The script is not known there: send its text.
    NoScript,
    /// The slot belongs to another node.
    Moved(u16, Address),
    /// This once, ask another node.
    Ask(Address),
    NotExecuted(Cause),
    /// A connection that was logged in is not any more.
    LoggedOut,
    Refused,
}

/// Why something was not executed, and so what may help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// This server may do it later.
    Passing,
    /// Another node may be the right one by now.
    Elsewhere,
    /// As `Elsewhere`: the server is a replica. Its address may stand for another server by now, which only a new
    /// connection finds out.
    Replica,
}

/// What is certainly not executed, by the first word of the reply.
///
/// A script meets most of these at its first write, and the reply then ends in `script: <hash>, on @user_script:1.`
/// (servers before 7.0 say `ERR Error running script … @user_script: 1: -CODE …`). Nothing was written then either:
/// what is checked does not change while a script runs, and memory is not looked at any more once it has written.
const NOT_EXECUTED: &[(&str, Cause)] = &[
    // A replica, or a master that has become one.
    ("READONLY", Cause::Replica),
    // A replica that has lost its master and serves nothing meanwhile.
    ("MASTERDOWN", Cause::Replica),
    // It has just started and reads its data.
    ("LOADING", Cause::Elsewhere),
    // The slot has no node, or too few nodes see each other.
    ("CLUSTERDOWN", Cause::Elsewhere),
    // Some of the keys are here and some there, while their slot moves.
    ("TRYAGAIN", Cause::Passing),
    // Fewer replicas than the server was told to insist on.
    ("NOREPLICAS", Cause::Passing),
    // It cannot save, and was told not to take writes then.
    ("MISCONF", Cause::Passing),
    // It has no memory left for more.
    ("OOM", Cause::Passing),
    // Another script takes its time.
    ("BUSY", Cause::Passing),
    // A transaction of which one command was not even queued.
    ("EXECABORT", Cause::Passing),
];

/// The same for replies whose first word says nothing.
const NOT_EXECUTED_ERR: &[&str] = &[
    "ERR max number of clients",
    // Only those that have not written can be killed.
    "ERR Script killed by user with SCRIPT KILL",
];

/// The one place where error replies are judged. What is in no list is refused.
pub(crate) fn judge(reply: &Reply, from: &Address) -> Verdict {
    let code = match reply.message.split_once("@user_script") {
        Some((_, old)) if reply.code == "ERR" => old.split(": -").nth(1).unwrap_or_default(),
        _ => &reply.code,
    };
    let code = code.split(' ').next().unwrap_or_default();
    if let Some((_, cause)) = NOT_EXECUTED.iter().find(|(listed, _)| *listed == code) {
        return Verdict::NotExecuted(*cause);
    }
    if NOT_EXECUTED_ERR.iter().any(|listed| reply.message.starts_with(listed)) {
        return Verdict::NotExecuted(Cause::Passing);
    }
    match (code, redirect(reply, from)) {
        ("NOSCRIPT", _) => Verdict::NoScript,
        ("NOAUTH", _) => Verdict::LoggedOut,
        ("MOVED", Some((slot, node))) => Verdict::Moved(slot, node),
        ("ASK", Some((_, node))) => Verdict::Ask(node),
        _ => Verdict::Refused,
    }
}

/// `MOVED 3999 127.0.0.1:6381`. An empty host is the one that was asked.
fn redirect(reply: &Reply, from: &Address) -> Option<(u16, Address)> {
    let mut words = reply.message.split(' ').skip(1);
    let slot = words.next()?.parse().ok()?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((slot, announced(host, port.parse().ok()?, from)))
}

/// The address of a node as another one announces it: no host, or `?`, means the host that was asked.
pub(crate) fn announced(host: &str, port: u16, from: &Address) -> Address {
    match from {
        Address::Tcp { host: asked, .. } if host.is_empty() || host == "?" => Address::tcp(asked, port),
        _ => Address::tcp(host, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(line: &str) -> Verdict {
        judge(&Reply::new(line), &Address::tcp("asked", 1))
    }

    #[test]
    fn redirections_are_read() {
        assert_eq!(verdict("MOVED 3999 10.0.0.1:6381"), Verdict::Moved(3999, Address::tcp("10.0.0.1", 6381)));
        assert_eq!(verdict("MOVED 3999 :6381"), Verdict::Moved(3999, Address::tcp("asked", 6381)));
        assert_eq!(verdict("MOVED 3999 ?:6381"), Verdict::Moved(3999, Address::tcp("asked", 6381)));
        assert_eq!(verdict("ASK 3999 2001:db8::1:6381"), Verdict::Ask(Address::tcp("2001:db8::1", 6381)));
        assert_eq!(verdict("MOVED nonsense"), Verdict::Refused);
    }

    #[test]
    fn older_servers_wrap_what_a_script_meets() {
        let wrapped = |inner: &str| {
            verdict(&format!(
                "ERR Error running script (call to f_6b): @user_script:1: @user_script: 1: {inner}"
            ))
        };
        assert_eq!(
            wrapped("-READONLY You can't write against a read only replica."),
            Verdict::NotExecuted(Cause::Replica)
        );
        assert_eq!(
            wrapped("-OOM command not allowed when used memory > 'maxmemory'."),
            Verdict::NotExecuted(Cause::Passing)
        );
        assert_eq!(wrapped("WRONGTYPE Operation against a key"), Verdict::Refused);
    }
}
