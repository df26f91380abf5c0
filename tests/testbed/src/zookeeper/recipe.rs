//! How a ZooKeeper server is started: its configuration, and a JVM that is small and starts fast.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{ask, mode};
use crate::{Certificates, Instance, Recipe, Result, process};

/// User and password for the scheme `digest` of the superuser, whom no ACL restricts.
pub const SUPER: &str = "super:testbed";

/// The digest of [`SUPER`], as the server's configuration has it.
const SUPER_DIGEST: &str = "super:+mQ+Lk1frXnCm9CKj74JfaPV26k=";

/// Debian's folder of jars. The manifest of ZooKeeper's jar names most of the others.
const JARS: &str = "/usr/share/java";

/// Includes a logger, since a server without one does not report which port is taken, and the Netty jars that the
/// manifest lacks.
const CLASSES: &[&str] =
    &["slf4j-simple", "zookeeper", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"];

/// A variable with the class path of another version.
const OTHER_CLASSES: &str = "TENURE_ZOOKEEPER_CLASSES";

/// Options of a ZooKeeper server. By default: empty, open to everybody on 127.0.0.1, with session timeouts from one
/// second to a minute.
#[derive(Clone, Debug)]
pub struct ZooKeeperOptions {
    /// The tick time. The shortest session timeout is two ticks, and expiry is up to one tick late.
    pub tick: Duration,
    /// Opens another port, for TLS, with these files.
    pub tls: Option<Certificates>,
    /// Whether TLS clients need a certificate signed by the same CA.
    pub client_certificates: bool,
    /// How often empty containers are collected. Once a minute by default.
    pub container_check: Option<Duration>,
    /// Further lines of the configuration. They come last, and override. One that ZooKeeper does not know becomes a
    /// system property with the prefix `zookeeper.`.
    pub lines: Vec<String>,
    /// Further arguments of the JVM, such as `-Dname=value`.
    pub jvm: Vec<String>,
    /// Environment variables, each `NAME=VALUE`.
    pub environment: Vec<OsString>,
}

impl Default for ZooKeeperOptions {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(500),
            tls: None,
            client_certificates: false,
            container_check: None,
            lines: Vec::new(),
            jvm: Vec::new(),
            environment: Vec::new(),
        }
    }
}

impl ZooKeeperOptions {
    /// Number of ports of a server with these options: for clients, for its peers if it has any, for TLS.
    pub(super) fn ports(&self, has_peers: bool) -> usize {
        1 + if has_peers { 2 } else { 0 } + usize::from(self.tls.is_some())
    }
}

/// A member of an ensemble.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its server id, from 1.
    pub(super) id: usize,
    /// The ports of all members, in order of their ids.
    pub(super) ports: Vec<Vec<u16>>,
    /// The port at which it reaches each member, itself included, when that one leads.
    pub(super) reach: Vec<u16>,
}

/// A server, standalone or member of an ensemble.
pub(super) struct Node {
    pub(super) options: ZooKeeperOptions,
    pub(super) member: Option<Member>,
}

impl Recipe for Node {
    fn name(&self) -> &str {
        "zookeeper"
    }

    fn ports(&self) -> usize {
        self.options.ports(self.member.is_some())
    }

    fn prepare(&self, instance: &Instance) -> Result<()> {
        let mut lines = self.common(instance);
        if let Some(files) = &self.options.tls {
            let both = [std::fs::read(&files.certificate)?, std::fs::read(&files.key)?].concat();
            std::fs::write(key_store(instance), both)?;
            lines.extend(self.tls(instance, files));
        }
        if let Some(member) = &self.member {
            std::fs::write(instance.data().join("myid"), member.id.to_string())?;
            lines.extend(in_ensemble(member));
        }
        lines.extend(self.options.lines.iter().cloned());
        Ok(std::fs::write(config(instance), lines.join("\n") + "\n")?)
    }

    fn command(&self, instance: &Instance) -> Vec<OsString> {
        let classes = std::env::var(OTHER_CLASSES).unwrap_or_else(|_| {
            let jars: Vec<_> = CLASSES.iter().map(|name| format!("{JARS}/{name}.jar")).collect();
            jars.join(":")
        });
        let mut words: Vec<OsString> = vec!["java".into()];
        // Starts fast: C1 compiler, serial collector, and no perf data file.
        let small = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"];
        words.extend(small.map(Into::into));
        if let Some(check) = self.options.container_check {
            words.push(format!("-Dznode.container.checkIntervalMs={}", check.as_millis()).into());
        }
        words.extend(self.options.jvm.iter().map(Into::into));
        words.extend(["-cp".into(), classes.into()]);
        words.extend(["org.apache.zookeeper.server.quorum.QuorumPeerMain".into(), config(instance).into()]);
        process::with_environment(&self.options.environment, words)
    }

    /// Recognizes the server by its data folder. `ruok` is answered too early, and the TLS port opens last.
    fn serves(&self, instance: &Instance) -> bool {
        const SOON: Duration = Duration::from_secs(1);
        let port = instance.ports[0];
        let Ok(said) = ask(port, "conf", SOON) else { return false };
        let is_own = said.contains(&format!("dataDir={}/", instance.data().display()));
        let secure = format!("secureClientPort={}\n", secure_port(instance));
        let is_all = self.options.tls.is_none() || said.contains(&secure);
        is_own && is_all && mode(port, SOON).is_ok()
    }
}

impl Node {
    fn common(&self, instance: &Instance) -> Vec<String> {
        vec![
            format!("tickTime={}", self.options.tick.as_millis()),
            "maxSessionTimeout=60000".into(),
            format!("dataDir={}", instance.data().display()),
            format!("clientPort={}", instance.ports[0]),
            "clientPortAddress=127.0.0.1".into(),
            "maxClientCnxns=0".into(),
            "admin.enableServer=false".into(),
            "4lw.commands.whitelist=*".into(),
            // No fsync: what was written survives the process, though not the machine.
            "forceSync=no".into(),
            format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"),
        ]
    }

    fn tls(&self, instance: &Instance, files: &Certificates) -> Vec<String> {
        vec![
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".into(),
            format!("secureClientPort={}", secure_port(instance)),
            "secureClientPortAddress=127.0.0.1".into(),
            format!("ssl.keyStore.location={}", key_store(instance).display()),
            format!("ssl.trustStore.location={}", files.ca.display()),
            format!("ssl.clientAuth={}", if self.options.client_certificates { "need" } else { "none" }),
        ]
    }
}

fn in_ensemble(member: &Member) -> Vec<String> {
    let server = |(n, ports): (usize, &Vec<u16>)| {
        let [peers, election] = [member.reach[n], ports[2]];
        format!("server.{}=127.0.0.1:{peers}:{election}", n + 1)
    };
    let limits = ["initLimit=10", "syncLimit=4"].map(str::to_owned);
    limits.into_iter().chain(member.ports.iter().enumerate().map(server)).collect()
}

/// The TLS port is the last one.
pub(super) fn secure_port(instance: &Instance) -> u16 {
    instance.ports[instance.ports.len() - 1]
}

fn key_store(instance: &Instance) -> PathBuf {
    instance.folder().join("keys.pem")
}

fn config(instance: &Instance) -> PathBuf {
    instance.folder().join("zoo.cfg")
}
