//! Programs that the machine must have besides Rust: checked before the first test starts, and installed if possible.
//!
//! Only the programs are used: nothing may use, or leave running, a system service.

use std::path::Path;
use std::process::{Command, Stdio};

/// A program, or the absolute path of a file, and the Debian package that contains it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

const SERVER: Need = Need { program: "redis-server", package: "redis-server" };
const SENTINEL: Need = Need { program: "redis-sentinel", package: "redis-sentinel" };
const CLI: Need = Need { program: "redis-cli", package: "redis-tools" };
/// Ties the life of servers to that of the tests.
const SETPRIV: Need = Need { program: "setpriv", package: "util-linux" };
const JAVA: Need = Need { program: "java", package: "default-jdk-headless" };
/// A jar, run by Java. The package depends on its logger and network libraries.
const ZOOKEEPER: Need = Need { program: "/usr/share/java/zookeeper.jar", package: "zookeeper" };
/// A peer in the benchmarks: its own mutex beside ZooKeeper's locks.
const ETCD: Need = Need { program: "etcd", package: "etcd-server" };
const MAVEN: Need = Need { program: "mvn", package: "maven" };
const GO: Need = Need { program: "go", package: "golang-go" };
const NODE: Need = Need { program: "node", package: "nodejs" };
const NPM: Need = Need { program: "npm", package: "npm" };
const PYTHON: Need = Need { program: "python3", package: "python3" };
const PIP: Need = Need { program: "pip3", package: "python3-pip" };

/// `flock(1)`, a peer in the benchmarks.
pub(crate) const FLOCK: Need = Need { program: "flock", package: "util-linux" };

/// All of Redis. Only the programs: the services of these packages are not started.
pub(crate) const REDIS: &[Need] = &[SERVER, SENTINEL, CLI, SETPRIV];

/// Evaluates queries, and tests alert rules (`promtool`).
pub(crate) const PROMETHEUS: &[Need] = &[SETPRIV, Need { program: "prometheus", package: "prometheus" }];

/// What a newcomer starts.
pub(crate) const NEWCOMER: &[Need] = &[SERVER, SETPRIV];

/// ZooKeeper, with Java to run it.
pub(crate) const KEEPER: &[Need] = &[SETPRIV, JAVA, ZOOKEEPER];

/// All servers.
pub(crate) const SERVERS: &[Need] = &[SERVER, SENTINEL, CLI, SETPRIV, JAVA, ZOOKEEPER];

/// Redis, and what Redisson runs on.
pub(crate) const REDISSON: &[Need] = &[SERVER, SENTINEL, CLI, SETPRIV, JAVA, MAVEN];

/// Redis, and what redsync runs on.
pub(crate) const REDSYNC: &[Need] = &[SERVER, SENTINEL, CLI, SETPRIV, GO];

/// Redis, and what node-redlock runs on.
pub(crate) const NODE_REDLOCK: &[Need] = &[SERVER, SENTINEL, CLI, SETPRIV, NODE, NPM];

/// Redis, and what redis-py runs on.
pub(crate) const REDIS_PY: &[Need] = &[SERVER, SENTINEL, CLI, SETPRIV, PYTHON, PIP];

/// ZooKeeper, and what Curator runs on.
pub(crate) const CURATOR: &[Need] = &[SETPRIV, JAVA, ZOOKEEPER, MAVEN];

/// All servers and all peers.
pub(crate) const ALL: &[Need] =
    &[FLOCK, SERVER, SENTINEL, CLI, SETPRIV, JAVA, MAVEN, ZOOKEEPER, GO, NODE, NPM, PYTHON, PIP];

/// The benchmarks with all their peers.
pub(crate) const BENCH: &[Need] =
    &[FLOCK, SERVER, SENTINEL, CLI, SETPRIV, JAVA, MAVEN, ZOOKEEPER, GO, PYTHON, PIP, ETCD];

/// The servers that are taken down.
pub(crate) const OUTAGE: &[Need] = &[SERVER, CLI, SETPRIV, JAVA, ZOOKEEPER];

/// How to install the missing packages.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Install { sudo: bool },
    Refuse(String),
}

/// Ensures that all programs are installed.
///
/// # Errors
/// What is missing, and the command to install it.
pub(crate) fn provide(needs: &[Need]) -> Result<(), String> {
    let packages = missing(needs, is_there);
    let means = Means { apt: is_there("apt-get"), root: is_root(), sudo: can_sudo() };
    match plan(&packages, &means) {
        Plan::Nothing => return Ok(()),
        Plan::Refuse(why) => return Err(why),
        Plan::Install { sudo } => install(&packages, sudo)?,
    }
    match missing(needs, is_there)[..] {
        [] => Ok(()),
        ref still => Err(format!("still missing after the installation: {}", still.join(" "))),
    }
}

fn missing(needs: &[Need], is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs.iter().filter(|n| !is_there(n.program)).map(|n| n.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// What the current user may do.
struct Means {
    apt: bool,
    root: bool,
    sudo: bool,
}

fn plan(packages: &[&str], means: &Means) -> Plan {
    let list = packages.join(" ");
    match means {
        _ if packages.is_empty() => Plan::Nothing,
        Means { apt: false, .. } => Plan::Refuse(format!(
            "missing: {list} (names of Debian packages; there is no apt-get here, install what brings these programs)"
        )),
        Means { root: true, .. } => Plan::Install { sudo: false },
        Means { sudo: true, .. } => Plan::Install { sudo: true },
        _ => {
            Plan::Refuse(format!("missing: {list}\n    sudo apt-get install --no-install-recommends {list}"))
        }
    }
}

fn install(packages: &[&str], sudo: bool) -> Result<(), String> {
    eprintln!("installing {}", packages.join(" "));
    let script = include_str!("install.sh");
    let mut command = if sudo { Command::new("sudo") } else { Command::new("sh") };
    if sudo {
        command.args(["-n", "sh"]);
    }
    // In the terminal's foreground process group, so that Ctrl-C reaches the script, which cleans up.
    let status = command.args(["-c", script, "install"]).args(packages).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} could not be installed: {status}", packages.join(" "))),
        Err(e) => Err(format!("{} could not be installed: {e}", packages.join(" "))),
    }
}

fn is_there(program: &str) -> bool {
    if Path::new(program).is_absolute() {
        return Path::new(program).is_file();
    }
    // Servers may be installed outside a user's PATH.
    let places = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&places).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.into_iter().any(|place| place.join(program).is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

fn can_sudo() -> bool {
    let quiet = || Stdio::null();
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"]).stdin(quiet()).stdout(quiet()).stderr(quiet());
    sudo.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_package_is_named_once() {
        assert!(missing(BENCH, |_| true).is_empty());
        assert_eq!(missing(&[SERVER, SETPRIV, FLOCK], |_| false), ["redis-server", "util-linux"]);
        assert_eq!(missing(&[SERVER, SETPRIV, FLOCK], |p| p == "redis-server"), ["util-linux"]);
    }

    #[test]
    fn who_may_install_does() {
        let means = |apt, root, sudo| Means { apt, root, sudo };
        assert_eq!(plan(&[], &means(false, false, false)), Plan::Nothing);
        assert_eq!(plan(&["a"], &means(true, true, true)), Plan::Install { sudo: false });
        assert_eq!(plan(&["a"], &means(true, false, true)), Plan::Install { sudo: true });
        for cannot in [means(true, false, false), means(false, true, true)] {
            let Plan::Refuse(why) = plan(&["a", "b"], &cannot) else { panic!("installed") };
            assert!(why.contains("a b"), "{why}");
        }
    }

    #[test]
    fn programs_are_looked_for() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-anywhere"));
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(is_there(file) && !is_there(&file.replace("Cargo", "no-such-file")));
    }
}
