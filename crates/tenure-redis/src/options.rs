//! Where the servers are, and how to speak to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a store is opened. Begin with `Options::default()` or [`Options::new`] and assign.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The servers, and how they belong together.
    pub topology: Topology,
    /// The user to log in as; the server's default user if `None`.
    pub user: Option<String>,
    /// The password; no log-in if `None`.
    pub password: Option<Secret>,
    /// The number of the database. A cluster has only 0.
    pub db: u32,
    /// Whether connections are encrypted, those to sentinels included.
    pub tls: Option<Tls>,
    /// Each call ends within this time: connect, handshake and all else included.
    pub timeout: Duration,
    /// What the server shows as the name of these connections.
    pub client_name: String,
    /// What comes before every name, so that several programs can share a server.
    pub prefix: String,
    /// Where fences come from.
    pub fences: Fences,
    /// The shortest `lockWatchdogTimeout` of the JVMs that share read/write locks: one that reads cuts the whole lock
    /// down to it.
    pub redisson_watchdog: Duration,
    /// How far the clock of a JVM that shares a semaphore may be ahead of the server's, or behind it.
    pub permit_slack: Duration,
}

impl Options {
    /// For these servers; all else as by default.
    pub fn new(topology: Topology) -> Self {
        Self { topology, ..Self::default() }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        match self.topology {
            Topology::Standalone(_) => "redis",
            Topology::Sentinel(_) => "redis+sentinel",
            Topology::Cluster(_) => "redis+cluster",
        }
    }
}

/// Where fences come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fences {
    /// The server's clock in microseconds, or one more than the last. The last is kept for `retention`.
    Ours {
        /// Longer than any clock here is ever set back.
        retention: Duration,
    },
    /// The counter of Redisson's fenced lock, in one series with it. It is kept for ever.
    Redisson,
}

impl Default for Fences {
    fn default() -> Self {
        Self::Ours { retention: Duration::from_secs(86_400) }
    }
}

impl Default for Options {
    /// One server on this machine, on the usual port.
    fn default() -> Self {
        Self {
            topology: Topology::Standalone(Address::tcp("localhost", 6379)),
            user: None,
            password: None,
            db: 0,
            tls: None,
            timeout: Duration::from_secs(3),
            client_name: "tenure".to_owned(),
            prefix: String::new(),
            fences: Fences::default(),
            redisson_watchdog: Duration::from_secs(30),
            permit_slack: Duration::from_secs(10),
        }
    }
}

/// The servers, and how they belong together.
#[derive(Clone, Debug)]
pub enum Topology {
    /// One server.
    Standalone(Address),
    /// A master that sentinels know.
    Sentinel(Sentinels),
    /// A cluster, found through any of these nodes.
    Cluster(Vec<Address>),
}

/// Sentinels, and whom to ask them for.
#[derive(Clone, Debug)]
pub struct Sentinels {
    /// All of them: what most of these say counts.
    pub addresses: Vec<Address>,
    /// The name under which they know the master.
    pub master: String,
    /// The user to log in as at a sentinel.
    pub user: Option<String>,
    /// The password at a sentinel; no log-in there if `None`.
    pub password: Option<Secret>,
}

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Address {
    /// A host, by name or number, and a port.
    Tcp {
        /// The host; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// A host and a port.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// How connections are encrypted. The server's certificate is always verified.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// A file with the certificates to trust (PEM); those of the system if `None`.
    pub ca: Option<PathBuf>,
    /// The own certificate and its key (PEM), for servers that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A word that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl<S: Into<String>> From<S> for Secret {
    fn from(word: S) -> Self {
        Self(word.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_and_addresses_are() {
        let options = Options { password: Some("hunter2".into()), ..Options::default() };
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(Address::tcp("::1", 1).to_string(), "[::1]:1");
        assert_eq!(Address::tcp("h", 1).to_string(), "h:1");
    }
}
