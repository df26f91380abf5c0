//! Options of a ZooKeeper store.

use std::time::Duration;

use tenure_core::Result;
use tenure_zookeeper::{Access, Login, Options, Tls};

use super::BackendConfig;
use super::servers::{AddressFormat, TlsFiles};
use crate::config::raw::{RawConfig, Setting};

const SERVERS: AddressFormat = AddressFormat { scheme: "zookeeper", tls_scheme: "zookeeper+tls", port: 2181 };

/// The minimum for the session timeout and the request timeout.
const SHORTEST: Duration = Duration::from_millis(100);

impl RawConfig {
    pub(super) fn take_zookeeper_config(&mut self, setting: &Setting) -> Result<BackendConfig> {
        let nodes = self.take_nodes(setting)?;
        let parsed = SERVERS.parse(&nodes)?;
        let servers = parsed.hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let mut options = Options::new(servers);
        options.chroot = match (self.take("chroot"), parsed.path) {
            (Some(chroot), Some(_)) => {
                return Err(chroot.error("is set twice, here and after the last of the nodes"));
            }
            (Some(chroot), None) => node_path(&chroot, &chroot.value)?,
            (None, Some(end)) => node_path(&nodes, &format!("/{end}"))?,
            (None, None) => None,
        };
        let user = self.take("user");
        // Where one of both is set without the other.
        let set = ["password", "password_file"].into_iter().find_map(|key| self.get(key).cloned());
        options.login = match (user, self.take_password("password", "password_file")?) {
            (Some(user), Some(password)) => Some(Login::new(user.value, password)),
            (None, None) => None,
            (user, _) => {
                let one = user.or(set).unwrap_or_else(|| setting.clone());
                return Err(one.error("user and password must both be set"));
            }
        };
        self.take_duration_at_least("session", SHORTEST, &mut options.session)?;
        self.take_duration_at_least("timeout", SHORTEST, &mut options.timeout)?;
        self.take_duration("tick", &mut options.tick)?;
        if let Some(prefix) = self.take("prefix") {
            options.prefix = prefix.value;
        }
        if let Some(acl) = self.take("acl") {
            options.access = acl.choice(&[("login", Access::Login), ("open", Access::Open)])?;
        }
        let files = self.take_tls_files(parsed.tls, &SERVERS)?;
        options.tls = files.map(|TlsFiles { ca, identity }| {
            let mut tls = Tls::default();
            (tls.ca, tls.identity) = (ca, identity);
            tls
        });
        Ok(BackendConfig::ZooKeeper(Box::new(options)))
    }
}

/// A validated node path; `None` for the root.
fn node_path(setting: &Setting, path: &str) -> Result<Option<String>> {
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Ok(None);
    }
    match path.strip_prefix('/') {
        None => Err(setting.error(format!("{path:?} is not a path: it must begin with a slash"))),
        Some(parts) if parts.split('/').any(str::is_empty) => {
            Err(setting.error(format!("{path:?} is not a path: it has an empty component")))
        }
        Some(_) => Ok(Some(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tenure_core::Settings;
    use tenure_zookeeper::Secret;

    fn options(address: &str) -> Result<Options> {
        let config = Address::parse(address)?.raw.validate(Settings::default())?;
        let BackendConfig::ZooKeeper(options) = config.backend else { panic!("not zookeeper") };
        Ok(*options)
    }

    #[test]
    fn they_are_understood() {
        let all =
            options("zookeeper://me:p%40ss@a,b:2182,[::1]/app/locks?session=10s&prefix=x/&tick=1s").unwrap();
        assert_eq!(all.servers, ["a:2181", "b:2182", "[::1]:2181"]);
        assert_eq!((all.chroot.as_deref(), &*all.prefix), (Some("/app/locks"), "x/"));
        assert_eq!((all.session, all.tick), (Duration::from_secs(10), Duration::from_secs(1)));
        assert_eq!(all.login, Some(Login::new("me", "p@ss")));
        assert!(!format!("{all:?}").contains("p@ss"));
        let file = options("zookeeper://me@a?password_file=/run/secrets/word").unwrap();
        assert_eq!(file.login, Some(Login::new("me", Secret::file("/run/secrets/word"))));
        let plain = options("zookeeper://").unwrap();
        assert_eq!((plain.servers, plain.chroot), (vec!["localhost:2181".to_owned()], None));
        let tls = options("zookeeper+tls://a/?ca=/x").unwrap().tls.unwrap();
        assert_eq!(tls.ca, Some("/x".into()));
    }

    #[test]
    fn wrong_ones_say_what_is_wrong() {
        for (address, says) in [
            ("zookeeper:localhost", "expected zookeeper://"),
            ("zookeeper://h:x", "not a port"),
            ("zookeeper://h/a//b", "empty component"),
            ("zookeeper://me@h", "user and password must both be set"),
            ("zookeeper://h?password_file=/x", "password_file: user and password must both be set"),
            ("zookeeper://me:pw@h?password_file=/x", "password_file: set either password or this key"),
            ("zookeeper://h?sesion=1s", "did you mean session?"),
            ("zookeeper://h?session=1ms", "too short"),
            ("zookeeper://h?acl=x", "login or open"),
            ("zookeeper://h?ca=/x", "zookeeper+tls://"),
            ("zookeeper+tls://h?cert=/x", "must both be set"),
        ] {
            let error = options(address).unwrap_err().to_string();
            assert!(error.contains(says), "{address}: {error}");
        }
    }
}
