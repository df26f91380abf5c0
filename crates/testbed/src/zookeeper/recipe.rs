//! How a ZooKeeper server is started: its configuration, and a small and quick JVM.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{ask, mode};
use crate::{Certificates, Place, Recipe, Result};

/// User and password, for the scheme `digest`, of somebody whom no ACL stops.
pub const SUPER: &str = "super:testbed";

/// What the server is told of them.
const SUPER_DIGEST: &str = "super:+mQ+Lk1frXnCm9CKj74JfaPV26k=";

/// Where Debian has its jars. That of ZooKeeper names most of the others.
const JARS: &str = "/usr/share/java";

/// With a logger, as a server without one does not say which port is taken. And what the jar forgets to name of Netty.
const CLASSES: &[&str] =
    &["slf4j-simple", "zookeeper", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"];

/// What a ZooKeeper server is to be like. By default: empty, open to everybody on 127.0.0.1, with sessions from one
/// second to a minute.
#[derive(Clone, Debug)]
pub struct ZooKeeperOptions {
    /// Its unit of time. The shortest session has two of them, and ends up to one of them late.
    pub tick: Duration,
    /// One more port, for TLS, with these files.
    pub tls: Option<Certificates>,
    /// Whether clients need a certificate by the same authority, with TLS.
    pub client_certificates: bool,
    /// How often it looks for containers that are empty. Once in a minute unless set.
    pub container_check: Option<Duration>,
    /// Any other lines of the configuration. They come last, and win. One that ZooKeeper does not know becomes a system
    /// property with `zookeeper.` in front.
    pub lines: Vec<String>,
    /// Any other arguments of the JVM, such as `-Dname=value`.
    pub jvm: Vec<String>,
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
        }
    }
}

impl ZooKeeperOptions {
    /// How many ports a server with these options has: for clients, for its peers if it has any, for TLS.
    pub(super) fn ports(&self, has_peers: bool) -> usize {
        1 + if has_peers { 2 } else { 0 } + usize::from(self.tls.is_some())
    }
}

/// A server's place among others.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Counted from 1.
    pub(super) id: usize,
    /// All ports of all members, in their order.
    pub(super) ports: Vec<Vec<u16>>,
    /// Where this one reaches each of them, itself included, when they lead.
    pub(super) reach: Vec<u16>,
}

/// One server, alone or not.
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

    fn prepare(&self, place: &Place) -> Result<()> {
        let mut lines = self.common(place);
        if let Some(files) = &self.options.tls {
            let both = [std::fs::read(&files.certificate)?, std::fs::read(&files.key)?].concat();
            std::fs::write(key_store(place), both)?;
            lines.extend(self.tls(place, files));
        }
        if let Some(member) = &self.member {
            std::fs::write(place.data().join("myid"), member.id.to_string())?;
            lines.extend(in_ensemble(member));
        }
        lines.extend(self.options.lines.iter().cloned());
        Ok(std::fs::write(config(place), lines.join("\n") + "\n")?)
    }

    fn command(&self, place: &Place) -> Vec<OsString> {
        let jars: Vec<_> = CLASSES.iter().map(|name| format!("{JARS}/{name}.jar")).collect();
        let mut words: Vec<OsString> = vec!["java".into()];
        // Quick to start: the simple compiler and collector, and no file for tools that watch a JVM.
        let small = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"];
        words.extend(small.map(Into::into));
        if let Some(check) = self.options.container_check {
            words.push(format!("-Dznode.container.checkIntervalMs={}", check.as_millis()).into());
        }
        words.extend(self.options.jvm.iter().map(Into::into));
        words.extend(["-cp".into(), jars.join(":").into()]);
        words.extend(["org.apache.zookeeper.server.quorum.QuorumPeerMain".into(), config(place).into()]);
        words
    }

    /// Known by its folder. `ruok` would be answered too early, and it listens for TLS last.
    fn serves(&self, place: &Place) -> bool {
        const SOON: Duration = Duration::from_secs(1);
        let port = place.ports[0];
        let Ok(said) = ask(port, "conf", SOON) else { return false };
        let is_own = said.contains(&format!("dataDir={}/", place.data().display()));
        let secure = format!("secureClientPort={}\n", secure_port(place));
        let is_all = self.options.tls.is_none() || said.contains(&secure);
        is_own && is_all && mode(port, SOON).is_ok()
    }
}

impl Node {
    fn common(&self, place: &Place) -> Vec<String> {
        vec![
            format!("tickTime={}", self.options.tick.as_millis()),
            "maxSessionTimeout=60000".into(),
            format!("dataDir={}", place.data().display()),
            format!("clientPort={}", place.ports[0]),
            "clientPortAddress=127.0.0.1".into(),
            "maxClientCnxns=0".into(),
            "admin.enableServer=false".into(),
            "4lw.commands.whitelist=*".into(),
            // What was written outlives the process, if not the machine.
            "forceSync=no".into(),
            format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"),
        ]
    }

    fn tls(&self, place: &Place, files: &Certificates) -> Vec<String> {
        vec![
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".into(),
            format!("secureClientPort={}", secure_port(place)),
            "secureClientPortAddress=127.0.0.1".into(),
            format!("ssl.keyStore.location={}", key_store(place).display()),
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

/// The last one.
pub(super) fn secure_port(place: &Place) -> u16 {
    place.ports[place.ports.len() - 1]
}

fn key_store(place: &Place) -> PathBuf {
    place.folder().join("keys.pem")
}

fn config(place: &Place) -> PathBuf {
    place.folder().join("zoo.cfg")
}
