//! Where the servers are, and how to speak to them.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::credentials::{Callback, Login, Logins, Secret};
use crate::transport::{Resolver, Timing};

/// How a store is opened. Begin with `Options::default()` or [`Options::new`] and assign.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The servers, and how they belong together.
    pub topology: Topology,
    /// The user to log in as; the server's default user if `None`.
    pub user: Option<String>,
    /// The password, or the file in which it stands; no log-in if `None`.
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
    /// How locks stand in the store.
    pub layout: Layout,
    /// Where fences come from. The plain layout has none.
    pub fences: Fences,
    /// The shortest `lockWatchdogTimeout` of the JVMs that share read/write locks: one that reads cuts the whole lock
    /// down to it.
    pub redisson_watchdog: Duration,
    /// A server that has been up for less than this neither grants nor renews: it may have forgotten what it granted.
    /// `None` where it may. For the nodes of a quorum.
    pub restart_delay: Option<Duration>,
    /// Stores that must not be on the same server as this one.
    pub siblings: Option<Siblings>,
    /// How far the clock of a JVM that shares a semaphore may be ahead of the server's, or behind it.
    pub permit_slack: Duration,
    /// Asked at each connect, instead of `user` and `password`.
    pub(crate) callback: Option<Callback>,
    pub(crate) resolver: Resolver,
    pub(crate) timing: Timing,
}

impl Options {
    /// For these servers; all else as by default.
    pub fn new(topology: Topology) -> Self {
        Self { topology, ..Self::default() }
    }

    /// Asks for the login at each connect to a server, for passwords and tokens that do not last. It takes the place of
    /// `user` and `password`; sentinels have a login of their own.
    ///
    /// What it takes is part of the time of a connect, and it must not block. If it fails, calls are `Unavailable` and
    /// it is asked again.
    ///
    /// ```
    /// use tenure_redis::{Login, Options};
    ///
    /// async fn token() -> std::io::Result<String> {
    ///     Ok("fetched anew".to_owned())
    /// }
    ///
    /// async fn login() -> std::io::Result<Login> {
    ///     Ok(Login::user("app", token().await?))
    /// }
    ///
    /// let options = Options::default().with_credentials(login);
    /// ```
    pub fn with_credentials<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Login, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self { callback: Some(Callback::new(ask)), ..self }
    }

    /// Where the login at the servers comes from.
    pub(crate) fn logins(&self) -> Logins {
        match &self.callback {
            Some(callback) => Logins::Asked(callback.clone()),
            None => Logins::said(&self.user, &self.password),
        }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        match self.topology {
            Topology::Standalone(_) => "redis",
            Topology::Sentinel(_) => "redis+sentinel",
            Topology::Cluster(_) => "redis+cluster",
        }
    }
}

/// How locks stand in the store, and so with which other libraries they are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// As Redisson has them: a hash, and all kinds.
    #[default]
    Redisson,
    /// A string with the holder's token, `SET key token NX PX ms`: what redsync, node-redlock, redis-py and most locks
    /// written by hand use. Locks only, without a fence.
    Plain,
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
            layout: Layout::default(),
            fences: Fences::default(),
            redisson_watchdog: Duration::from_secs(30),
            restart_delay: None,
            siblings: None,
            permit_slack: Duration::from_secs(10),
            callback: None,
            resolver: Resolver::default(),
            timing: Timing::default(),
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
    /// The password at a sentinel, or the file in which it stands; no log-in there if `None`.
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

/// Servers that must be different ones, as those of a quorum: where two stores find the same run id, calls fail.
#[derive(Clone, Debug, Default)]
pub struct Siblings {
    me: usize,
    met: Arc<Mutex<HashMap<(usize, Address), String>>>,
}

impl Siblings {
    /// One for each of `n` stores.
    pub fn new(n: usize) -> Vec<Self> {
        let all = Self::default();
        (0..n).map(|me| Self { me, ..all.clone() }).collect()
    }

    /// A server was met under this address. The one of another store that is the same, if there is one.
    pub(crate) fn meet(&self, at: &Address, run_id: &str) -> Option<Address> {
        let mut met = self.met.lock().unwrap_or_else(|e| e.into_inner());
        met.insert((self.me, at.clone()), run_id.to_owned());
        let same = met.iter().find(|((who, _), id)| *who != self.me && *id == run_id);
        same.map(|((_, address), _)| address.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_server_is_recognised() {
        let [a, b] = &Siblings::new(2)[..] else { panic!("two") };
        let at = |host: &str| Address::tcp(host, 1);
        assert_eq!(a.meet(&at("a"), "one"), None);
        assert_eq!(a.meet(&at("a"), "one"), None, "met again");
        assert_eq!(b.meet(&at("b"), "two"), None);
        assert_eq!(b.meet(&at("b"), "one"), Some(at("a")));
        assert_eq!(a.meet(&at("a"), "three"), None, "restarted");
        assert_eq!(b.meet(&at("b"), "one"), None);
    }

    #[test]
    fn secrets_are_not_shown_and_addresses_are() {
        let options = Options { password: Some("hunter2".into()), ..Options::default() };
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(Address::tcp("::1", 1).to_string(), "[::1]:1");
        assert_eq!(Address::tcp("h", 1).to_string(), "h:1");
    }
}
