//! How a call can fail, and what each error reply of a server means: one table.

use std::fmt;

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
    /// Sent, at least in part, and not answered.
    Unknown(String),
    /// The server's error, which will be the same next time. What a script wrote before it failed stays written.
    Refused(Reply),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExecuted(why) | Self::Unknown(why) => f.write_str(why),
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
    /// Not executed. Whether another node may be the right one by now.
    NotExecuted {
        elsewhere: bool,
    },
    Refused,
}

/// The one place where error replies are judged.
pub(crate) fn judge(reply: &Reply, from: &Address) -> Verdict {
    // An error out of the middle of a script: what it wrote before stays.
    if reply.message.contains(" script: ") {
        return Verdict::Refused;
    }
    match reply.code.as_str() {
        "NOSCRIPT" => Verdict::NoScript,
        "MOVED" => match redirect(reply, from) {
            Some((slot, node)) => Verdict::Moved(slot, node),
            None => Verdict::Refused,
        },
        "ASK" => match redirect(reply, from) {
            Some((_, node)) => Verdict::Ask(node),
            None => Verdict::Refused,
        },
        "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" => Verdict::NotExecuted { elsewhere: true },
        "NOREPLICAS" | "MISCONF" | "TRYAGAIN" | "OOM" | "BUSY" | "EXECABORT" => {
            Verdict::NotExecuted { elsewhere: false }
        }
        "ERR" if reply.message.starts_with("ERR max number of clients") => {
            Verdict::NotExecuted { elsewhere: false }
        }
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
