//! Options: where the servers are, and how to connect to them.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::backend::{LoginCallback, Secret};

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
    /// Called at each connect, instead of using `login`.
    pub(crate) callback: Option<LoginCallback<Login>>,
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
            callback: None,
        }
    }

    /// Sets a callback that provides the login at each connect to a server, for passwords that change. It replaces
    /// `login`.
    ///
    /// It must not block, and has at most the timeout of a request. If it fails, calls return `Unavailable` and the next
    /// one calls it again; a session that only lost its connection goes on with the logins that it has.
    ///
    /// ```
    /// use tenure_zookeeper::{Login, Options};
    ///
    /// async fn password() -> std::io::Result<String> {
    ///     Ok("fetched anew".to_owned())
    /// }
    ///
    /// async fn login() -> std::io::Result<Login> {
    ///     Ok(Login::new("orders", password().await?))
    /// }
    ///
    /// let options = Options::new(["zk-1:2181", "zk-2:2181", "zk-3:2181"]).with_credentials(login);
    /// ```
    pub fn with_credentials<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Login, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self { callback: Some(LoginCallback::new(ask)), ..self }
    }
}

/// User and password.
///
/// ```
/// use tenure_zookeeper::{Login, Options, Secret};
///
/// let mut options = Options::new(["zk-1:2181"]);
/// options.login = Some(Login::new("orders", Secret::file("/run/secrets/zookeeper")));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password, or the file that contains it, which is read at each connect.
    pub password: Secret,
}

impl Login {
    /// Creates a login of this user.
    pub fn new(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self { user: user.into(), password: password.into() }
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
