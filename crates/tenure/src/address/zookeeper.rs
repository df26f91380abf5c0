//! Addresses of ZooKeeper.

use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_zookeeper::{Access, Login, Options, Tls};

use super::parts::{Files, decoded, host_and_port};
use super::{Address, Place};

const PORT: u16 = 2181;

impl Address {
    /// `//[user:password@]host[:port],…[/chroot]`
    pub(super) fn zookeeper(&mut self) -> Result<Place> {
        let scheme = self.scheme.clone();
        let wrong = |what: String| Error::Config(format!("{scheme}: {what}"));
        let rest = self.rest.strip_prefix("//").ok_or_else(|| wrong(format!("expected {scheme}://host")))?;
        let (servers, chroot) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, servers) = match servers.rsplit_once('@') {
            Some((login, servers)) => {
                let (user, password) = login
                    .split_once(':')
                    .ok_or_else(|| wrong("expected user and password, as in user:password@host".into()))?;
                (Some(Login { user: decoded(user)?, password: decoded(password)? }), servers)
            }
            None => (None, servers),
        };
        let mut named = Vec::new();
        for server in servers.split(',') {
            let (host, port) = host_and_port(server, PORT).map_err(wrong)?;
            named.push(if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            });
        }
        let mut options = Options::new(named);
        options.login = login;
        let chroot = decoded(chroot.trim_end_matches('/'))?;
        if chroot.split('/').skip(1).any(str::is_empty) || chroot.starts_with('/') {
            return Err(wrong(format!("/{chroot} is not a path: a part of it is empty")));
        }
        options.chroot = (!chroot.is_empty()).then(|| format!("/{chroot}"));
        self.zookeeper_options(&mut options)?;
        Ok(Place::ZooKeeper(Box::new(options)))
    }

    fn zookeeper_options(&mut self, options: &mut Options) -> Result<()> {
        let scheme = self.scheme.clone();
        self.duration("session", &mut options.session)?;
        self.duration("timeout", &mut options.timeout)?;
        self.duration("tick", &mut options.tick)?;
        for (what, time) in [("session", options.session), ("timeout", options.timeout)] {
            if time < Duration::from_millis(100) {
                return Err(Error::Config(format!("{scheme}: a {what} of {time:?} is too short")));
            }
        }
        if let Some(prefix) = self.take("prefix") {
            options.prefix = decoded(&prefix)?;
        }
        match self.take("acl").as_deref() {
            None | Some("login") => {}
            Some("open") => options.access = Access::Open,
            Some(other) => return Err(Error::Config(format!("option acl={other}: expected login or open"))),
        }
        let files = self.files(scheme == "zookeeper+tls", "zookeeper+tls://")?;
        options.tls = files.map(|Files { ca, identity }| {
            let mut tls = Tls::default();
            (tls.ca, tls.identity) = (ca, identity);
            tls
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(address: &str) -> Result<Options> {
        let mut address = Address::parse(address)?;
        let Place::ZooKeeper(options) = address.place()? else { panic!("not zookeeper") };
        address.finish()?;
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
