//! Options: where the servers are, and how to connect to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Options for opening a store. Begin with [`Options::new`] and assign.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The servers, each `host:port`.
    pub servers: Vec<String>,
    /// The root node for everything, as in Curator's connection string: `/app`. It must exist.
    pub chroot: Option<String>,
    /// The prefix of every name, so that several programs can share a server.
    pub prefix: String,
    /// The session timeout: how long a dead holder keeps its locks. The servers may grant another timeout, which then
    /// applies.
    pub session: Duration,
    /// The timeout of a request. Without an answer by then its outcome is unknown.
    pub timeout: Duration,
    /// The longest `tickTime` of the servers. A server reports to its leader twice per tick which sessions it has
    /// heard from, so half a tick of the session timeout is not relied upon.
    pub tick: Duration,
    /// User and password for the digest scheme.
    pub login: Option<Login>,
    /// Who may read and change the nodes that are created.
    pub access: Access,
    /// Encrypts connections if set.
    pub tls: Option<Tls>,
}

impl Options {
    /// Creates default options for these servers.
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            chroot: None,
            prefix: String::new(),
            session: Duration::from_secs(30),
            timeout: Duration::from_secs(3),
            tick: Duration::from_secs(2),
            login: None,
            access: Access::default(),
            tls: None,
        }
    }
}

/// User and password.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Who may read and change the nodes that are created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// With a login, clients with the same login; otherwise everyone.
    #[default]
    Login,
    /// Everyone, as in Curator by default.
    Open,
}

/// TLS settings. All files are PEM.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tls {
    /// The CA that signs the servers' certificates.
    pub ca: Option<PathBuf>,
    /// The client certificate, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}
