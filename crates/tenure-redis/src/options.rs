//! Connection options: the servers, credentials, TLS, layout and fences.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::backend::{LoginCallback, Secret};

use crate::credentials::{Login, Logins};
use crate::nat::Nat;
use crate::transport::{Resolver, Timing};

/// Options for opening a [`Redis`](crate::Redis) store. Start from `Options::default()` or [`Options::new`] and set
/// fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The servers and their topology.
    pub topology: Topology,
    /// The user to log in as; the server's default user if `None`.
    pub user: Option<String>,
    /// The password, or the file that contains it; no authentication if `None`.
    pub password: Option<Secret>,
    /// The database number. A cluster has only 0.
    pub db: u32,
    /// TLS settings, also used for connections to sentinels; no TLS if `None`.
    pub tls: Option<Tls>,
    /// Where servers are reached that announce addresses which this client cannot reach.
    pub nat: Nat,
    /// Timeout of each call, including connect and handshake.
    pub timeout: Duration,
    /// The connection name that the server shows (`CLIENT LIST`).
    pub client_name: String,
    /// Prefix of every name, so that several programs can share a server.
    pub prefix: String,
    /// The key layout of locks.
    pub layout: Layout,
    /// Where fences come from. The plain layout has none.
    pub fences: Fences,
    /// The shortest `lockWatchdogTimeout` of the JVMs that share read/write locks: a JVM reader shortens the TTL of the
    /// whole lock to it.
    pub redisson_watchdog: Duration,
    /// A server with a shorter uptime than this neither grants nor renews, because it may have lost what it granted
    /// before a restart. No check if `None`. Meant for the nodes of a quorum.
    pub restart_delay: Option<Duration>,
    /// Detects that two stores that must be on different servers share one.
    pub siblings: Option<Siblings>,
    /// The largest difference between the server's clock and the clock of a JVM that shares a semaphore.
    pub permit_slack: Duration,
    /// Called at each connect, instead of using `user` and `password`.
    pub(crate) callback: Option<LoginCallback<Login>>,
    pub(crate) resolver: Resolver,
    pub(crate) timing: Timing,
}

impl Options {
    /// Creates default options for these servers.
    pub fn new(topology: Topology) -> Self {
        Self { topology, ..Self::default() }
    }

    /// Sets a callback that provides the login at each connect to a server, for passwords and tokens that expire. It
    /// replaces `user` and `password`; sentinels have a login of their own.
    ///
    /// The callback's time counts towards the connect timeout, and it must not block. If it fails, calls return
    /// `Unavailable` and the next connect calls it again.
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
    ///
    /// // For the server's default user.
    /// let login = || async { Ok::<_, std::io::Error>(Login::new(token().await?)) };
    /// let options = Options::default().with_credentials(login);
    /// ```
    pub fn with_credentials<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Login, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self { callback: Some(LoginCallback::new(ask)), ..self }
    }

    /// The source of the servers' login.
    pub(crate) fn logins(&self) -> Logins {
        match &self.callback {
            Some(callback) => Logins::Callback(callback.clone()),
            None => Logins::fixed(&self.user, &self.password),
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

/// The key layout of locks, which decides with which other libraries they are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// Redisson's layout: a hash per lock. Supports all kinds.
    #[default]
    Redisson,
    /// A string that contains the holder's token, `SET key token NX PX ms`, as in redsync, node-redlock, redis-py and
    /// most hand-written locks. Locks only, without a fence.
    Plain,
}

/// The source of fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fences {
    /// The server's clock in microseconds, or the last fence + 1 if that is larger. The last fence is kept for
    /// `retention`.
    Ours {
        /// Must be longer than any step by which a server's clock may be set back.
        retention: Duration,
    },
    /// The counter of Redisson's fenced lock, shared with Redisson's own clients. It is kept forever.
    Redisson,
}

impl Default for Fences {
    fn default() -> Self {
        Self::Ours { retention: Duration::from_secs(86_400) }
    }
}

impl Default for Options {
    /// One server on localhost, on port 6379.
    fn default() -> Self {
        Self {
            topology: Topology::Standalone(Address::tcp("localhost", 6379)),
            user: None,
            password: None,
            db: 0,
            tls: None,
            nat: Nat::default(),
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

/// The servers and their topology.
#[derive(Clone, Debug)]
pub enum Topology {
    /// One server.
    Standalone(Address),
    /// A master that is found through sentinels.
    Sentinel(Sentinels),
    /// A cluster, discovered through any of these nodes.
    Cluster(Vec<Address>),
}

impl Topology {
    /// The addresses that are configured; all others are announced by servers.
    pub(crate) fn addresses(&self) -> &[Address] {
        match self {
            Self::Standalone(address) => std::slice::from_ref(address),
            Self::Sentinel(sentinels) => &sentinels.addresses,
            Self::Cluster(addresses) => addresses,
        }
    }
}

/// The hosts, as in `cache-1:6379` or `main of sentinel-1:26379,sentinel-2:26379`.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Address]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Standalone(address) => address.fmt(f),
            Self::Sentinel(sentinels) => write!(f, "{} of {}", sentinels.master, list(&sentinels.addresses)),
            Self::Cluster(seeds) => f.write_str(&list(seeds)),
        }
    }
}

/// Sentinels, and the master to ask them for.
#[derive(Clone, Debug)]
pub struct Sentinels {
    /// All sentinels: the answer of the majority counts.
    pub addresses: Vec<Address>,
    /// The master's name in the sentinels' configuration.
    pub master: String,
    /// The user to log in as at a sentinel.
    pub user: Option<String>,
    /// The password at a sentinel, or the file that contains it; no authentication there if `None`.
    pub password: Option<Secret>,
}

/// The address that a server listens on.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Address {
    /// A host name or IP address, and a port.
    Tcp {
        /// The host; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix domain socket.
    Unix(PathBuf),
}

impl Address {
    /// Creates the address of a host and a port.
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

/// TLS settings. The server's certificate is always verified.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// A PEM file with the trusted CA certificates; the system's if `None`.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key (PEM files), for servers that require one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Detects stores that share a server although they must not, such as the nodes of a quorum: calls fail if two stores
/// see the same run id.
///
/// ```
/// # use tenure_redis::{Address, Options, Siblings, Topology};
/// let hosts = ["cache-1", "cache-2", "cache-3"];
/// let nodes = hosts.into_iter().zip(Siblings::new(3)).map(|(host, siblings)| {
///     let mut options = Options::new(Topology::Standalone(Address::tcp(host, 6379)));
///     options.siblings = Some(siblings);
///     options
/// });
/// assert_eq!(nodes.count(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Siblings {
    me: usize,
    run_ids: Arc<Mutex<HashMap<(usize, Address), String>>>,
}

impl Siblings {
    /// Returns one handle for each of `n` stores.
    pub fn new(n: usize) -> Vec<Self> {
        let all = Self::default();
        (0..n).map(|me| Self { me, ..all.clone() }).collect()
    }

    /// Records the run id of the server at this address. Returns the address under which another store uses the same
    /// server, if any.
    pub(crate) fn record_run_id(&self, at: &Address, run_id: &str) -> Option<Address> {
        let mut run_ids = self.run_ids.lock().unwrap_or_else(|e| e.into_inner());
        run_ids.insert((self.me, at.clone()), run_id.to_owned());
        let same = run_ids.iter().find(|((who, _), id)| *who != self.me && *id == run_id);
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
        assert_eq!(a.record_run_id(&at("a"), "one"), None);
        assert_eq!(a.record_run_id(&at("a"), "one"), None, "seen again");
        assert_eq!(b.record_run_id(&at("b"), "two"), None);
        assert_eq!(b.record_run_id(&at("b"), "one"), Some(at("a")));
        assert_eq!(a.record_run_id(&at("a"), "three"), None, "restarted");
        assert_eq!(b.record_run_id(&at("b"), "one"), None);
    }

    #[test]
    fn secrets_are_not_shown_and_addresses_are() {
        let options = Options { password: Some("hunter2".into()), ..Options::default() };
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(Address::tcp("::1", 1).to_string(), "[::1]:1");
        assert_eq!(Address::tcp("h", 1).to_string(), "h:1");
    }
}
