//! ZooKeeper.

use std::time::Duration;

use tenure_core::Result;
use tenure_zookeeper::{Access, Login, Options, Tls};

use super::Place;
use super::servers::{Files, Written};
use crate::config::raw::{Given, Setting};

const SERVERS: Written = Written { scheme: "zookeeper", secure: "zookeeper+tls", port: 2181 };

/// The minimum for the session timeout and the request timeout.
const SHORTEST: Duration = Duration::from_millis(100);

impl Given {
    pub(super) fn zookeeper(&mut self, setting: &Setting) -> Result<Place> {
        let nodes = self.nodes(setting)?;
        let line = SERVERS.line(&nodes)?;
        let named = line.hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let mut options = Options::new(named);
        options.chroot = match (self.take("chroot"), line.path) {
            (Some(chroot), Some(_)) => {
                return Err(chroot.wrong("is given twice, here and after the last of the nodes"));
            }
            (Some(chroot), None) => path(&chroot, &chroot.text)?,
            (None, Some(end)) => path(&nodes, &format!("/{end}"))?,
            (None, None) => None,
        };
        options.login = match (self.take("user"), self.take("password")) {
            (Some(user), Some(password)) => Some(Login { user: user.text, password: password.text }),
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                return Err(one.wrong("a login is user and password, as in user:password@host"));
            }
        };
        self.at_least("session", SHORTEST, &mut options.session)?;
        self.at_least("timeout", SHORTEST, &mut options.timeout)?;
        self.duration("tick", &mut options.tick)?;
        if let Some(prefix) = self.take("prefix") {
            options.prefix = prefix.text;
        }
        if let Some(acl) = self.take("acl") {
            options.access = acl.choice(&[("login", Access::Login), ("open", Access::Open)])?;
        }
        let files = self.files(line.tls, &SERVERS)?;
        options.tls = files.map(|Files { ca, identity }| {
            let mut tls = Tls::default();
            (tls.ca, tls.identity) = (ca, identity);
            tls
        });
        Ok(Place::ZooKeeper(Box::new(options)))
    }
}

/// A validated node path; `None` for the root.
fn path(said: &Setting, path: &str) -> Result<Option<String>> {
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Ok(None);
    }
    match path.strip_prefix('/') {
        None => Err(said.wrong(format!("{path:?} is not a path: it begins without a slash"))),
        Some(parts) if parts.split('/').any(str::is_empty) => {
            Err(said.wrong(format!("{path:?} is not a path: a part of it is empty")))
        }
        Some(_) => Ok(Some(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tenure_core::Settings;

    fn options(address: &str) -> Result<Options> {
        let plan = Address::parse(address)?.given.plan(Settings::default())?;
        let Place::ZooKeeper(options) = plan.place else { panic!("not zookeeper") };
        Ok(*options)
    }

    #[test]
    fn they_are_understood() {
        let all =
            options("zookeeper://me:p%40ss@a,b:2182,[::1]/app/locks?session=10s&prefix=x/&tick=1s").unwrap();
        assert_eq!(all.servers, ["a:2181", "b:2182", "[::1]:2181"]);
        assert_eq!((all.chroot.as_deref(), &*all.prefix), (Some("/app/locks"), "x/"));
        assert_eq!((all.session, all.tick), (Duration::from_secs(10), Duration::from_secs(1)));
        assert_eq!(all.login.as_ref().unwrap().password, "p@ss");
        assert!(!format!("{all:?}").contains("p@ss"));
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
            ("zookeeper://h/a//b", "part of it is empty"),
            ("zookeeper://me@h", "user and password"),
            ("zookeeper://h?sesion=1s", "did you mean session?"),
            ("zookeeper://h?session=1ms", "too short"),
            ("zookeeper://h?acl=x", "login or open"),
            ("zookeeper://h?ca=/x", "zookeeper+tls://"),
            ("zookeeper+tls://h?cert=/x", "together"),
        ] {
            let error = options(address).unwrap_err().to_string();
            assert!(error.contains(says), "{address}: {error}");
        }
    }
}
