//! Where the servers are, and how to speak to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a store is opened. Begin with [`Options::new`] and assign.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The servers, each `host:port`.
    pub servers: Vec<String>,
    /// The node below which everything is, as in Curator's connection string: `/app`. It must exist.
    pub chroot: Option<String>,
    /// What comes before every name, so that several programs can share a server.
    pub prefix: String,
    /// For how long a holder that died keeps what it held. The servers may grant another time, and that one counts.
    pub session: Duration,
    /// Each request is answered within this time, or its outcome is unknown.
    pub timeout: Duration,
    /// The longest `tickTime` of the servers. A server tells its leader twice per tick which sessions it heard of, so
    /// that half a tick is not relied upon.
    pub tick: Duration,
    /// User and password of the digest scheme.
    pub login: Option<Login>,
    /// Who may read and change what is made here.
    pub access: Access,
    /// Whether connections are encrypted.
    pub tls: Option<Tls>,
}

impl Options {
    /// For these servers; all else as by default.
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

/// Who may read and change what is made here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// With a login whoever has the same one, otherwise everybody.
    #[default]
    Login,
    /// Everybody, as Curator does by default.
    Open,
}

/// Encrypted connections. All files are PEM.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tls {
    /// Who signs the servers' certificates.
    pub ca: Option<PathBuf>,
    /// A certificate of our own, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}
