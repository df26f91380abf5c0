//! A single Redis server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Certificates, Instance, Monitor, Recipe, Resp, Result, Server, Subscription, process};

/// The admin user that the testbed itself uses, on servers that require authentication.
const ADMIN: &str = "testbed";

/// Options of a Redis server. By default: empty, in memory only, no authentication, on 127.0.0.1.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// The password of the default user.
    pub password: Option<String>,
    /// More users, as ACL rules with the name in front: `alice on >secret ~* &* +@all`.
    pub users: Vec<String>,
    /// Accept TLS only, with these files; a unix socket stays open for the testbed.
    pub tls: Option<Certificates>,
    /// The port of its master.
    pub replica_of: Option<u16>,
    /// Memory limit, for instance `10mb`.
    pub max_memory: Option<String>,
    /// Whether each write is synced to the append-only file at once.
    pub append_only: bool,
    /// Snapshot schedule as in `save`, for instance `1 1`. None by default.
    pub save: Option<String>,
    /// Further lines of the configuration. They come last, and override.
    pub lines: Vec<String>,
    /// Environment variables, each `NAME=VALUE`.
    pub environment: Vec<OsString>,
}

impl RedisOptions {
    /// User and password of the testbed, if the server requires any.
    pub(crate) fn login(&self) -> Option<&'static str> {
        (self.password.is_some() || !self.users.is_empty()).then_some(ADMIN)
    }
}

/// A Redis server; process control is in [`Server`].
#[derive(Debug)]
pub struct Redis {
    server: Server,
    options: RedisOptions,
}

impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Redis {
    /// Starts a server, and waits until it answers.
    ///
    /// # Errors
    /// When it does not, with its log.
    pub fn start(options: RedisOptions) -> Result<Self> {
        let server = Server::start(Node { options: options.clone(), kind: Kind::Single })?;
        Ok(Self { server, options })
    }

    /// Starts a node for a cluster that is not formed yet.
    pub(crate) fn start_in_cluster(options: RedisOptions) -> Result<Self> {
        let server = Server::start(Node { options: options.clone(), kind: Kind::InCluster })?;
        Ok(Self { server, options })
    }

    /// Starts a sentinel, configured by `lines` alone.
    pub(crate) fn start_sentinel(options: RedisOptions) -> Result<Self> {
        let server = Server::start(Node { options: options.clone(), kind: Kind::Sentinel })?;
        Ok(Self { server, options })
    }

    /// `redis://127.0.0.1:PORT`, or `rediss:` with TLS. Without user and password.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port())
    }

    /// The unix socket that it listens on.
    pub fn socket(&self) -> PathBuf {
        socket(self.instance())
    }

    /// Opens a connection with all permissions.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn client(&self) -> Result<Resp> {
        let mut client = match self.options.tls {
            None => Resp::connect(self.port())?,
            Some(_) => Resp::connect_unix(&self.socket())?,
        };
        if let Some(user) = self.options.login() {
            client.cmd(&["AUTH", user, user])?;
        }
        Ok(client)
    }

    /// Runs a command over a new connection.
    ///
    /// # Errors
    /// As [`Resp::cmd`].
    pub fn cmd<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<crate::Value> {
        self.client()?.cmd(words)
    }

    /// Records all commands that it executes from now on.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn monitor(&self) -> Result<Monitor> {
        Monitor::over(self.client()?, self.client()?)
    }

    /// Subscribes to the channels that match one of these patterns.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn psubscribe(&self, patterns: &[&str]) -> Result<Subscription> {
        Subscription::over(self.client()?, patterns)
    }

    /// Returns a section of INFO, such as `replication`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn info(&self, section: &str) -> Result<BTreeMap<String, String>> {
        self.client()?.info(section)
    }

    /// Returns the id of this run; it changes with each restart.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn run_id(&self) -> Result<String> {
        Ok(self.info("server")?.remove("run_id").unwrap_or_default())
    }
}

fn socket(instance: &Instance) -> PathBuf {
    instance.folder().join("socket")
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Single,
    InCluster,
    Sentinel,
}

struct Node {
    options: RedisOptions,
    kind: Kind,
}

impl Recipe for Node {
    fn name(&self) -> &str {
        if self.kind == Kind::Sentinel { "redis-sentinel" } else { "redis-server" }
    }

    /// In a cluster also one for the bus, which would default to port + 10000.
    fn ports(&self) -> usize {
        if self.kind == Kind::InCluster { 2 } else { 1 }
    }

    fn prepare(&self, instance: &Instance) -> Result<()> {
        let lines = match self.kind {
            Kind::Sentinel => self.common(instance),
            Kind::Single => [self.common(instance), self.store()].concat(),
            Kind::InCluster => [self.common(instance), self.store(), in_cluster(instance)].concat(),
        };
        let lines = [lines, self.options.lines.clone()].concat();
        Ok(std::fs::write(config(instance), lines.join("\n") + "\n")?)
    }

    fn command(&self, instance: &Instance) -> Vec<OsString> {
        let command = vec![self.name().into(), config(instance).into()];
        process::with_environment(&self.options.environment, command)
    }

    /// Asks over the socket in its own folder, where no other server can answer. It is the last one it listens on.
    fn serves(&self, instance: &Instance) -> bool {
        let Ok(mut client) = Resp::connect_unix(&socket(instance)) else { return false };
        if client.set_timeout(Duration::from_secs(1)).is_err() {
            return false;
        }
        match client.cmd(&["PING"]) {
            Ok(_) => true,
            // NOAUTH is an answer too. While it loads its files it does not serve.
            Err(e) => e.reply().is_some_and(|text| text.starts_with("NOAUTH")),
        }
    }
}

impl Node {
    fn common(&self, instance: &Instance) -> Vec<String> {
        let port = instance.ports[0];
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            "protected-mode no".into(),
            "daemonize no".into(),
            format!("dir {}", instance.data().display()),
            format!("unixsocket {}", socket(instance).display()),
        ];
        match &self.options.tls {
            None => lines.push(format!("port {port}")),
            Some(files) => lines.extend([
                "port 0".into(),
                format!("tls-port {port}"),
                format!("tls-ca-cert-file {}", files.ca.display()),
                format!("tls-cert-file {}", files.certificate.display()),
                format!("tls-key-file {}", files.key.display()),
                "tls-auth-clients no".into(),
            ]),
        }
        lines
    }

    fn store(&self) -> Vec<String> {
        let options = &self.options;
        let mut lines = vec![
            format!("save {}", options.save.as_deref().unwrap_or(r#""""#)),
            // A joining replica need not wait for others to join with it.
            "repl-diskless-sync-delay 0".into(),
        ];
        if options.append_only {
            lines.extend(["appendonly yes".to_owned(), "appendfsync always".into()]);
        }
        lines.extend(options.max_memory.iter().map(|size| format!("maxmemory {size}")));
        lines.extend(options.replica_of.iter().map(|port| format!("replicaof 127.0.0.1 {port}")));
        if let Some(user) = options.login() {
            lines.push(format!("user {user} on >{user} ~* &* +@all"));
            lines.extend([format!("masteruser {user}"), format!("masterauth {user}")]);
        }
        lines.extend(options.password.iter().map(|word| format!("requirepass {word}")));
        lines.extend(options.users.iter().map(|user| format!("user {user}")));
        lines
    }
}

fn in_cluster(instance: &Instance) -> Vec<String> {
    let bus = instance.ports[1];
    vec!["cluster-enabled yes".into(), "cluster-config-file nodes.conf".into(), format!("cluster-port {bus}")]
}

fn config(instance: &Instance) -> PathBuf {
    Path::join(instance.folder(), "server.conf")
}
