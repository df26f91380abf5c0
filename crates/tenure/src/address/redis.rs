//! Addresses of Redis, in every deployment.

use std::path::PathBuf;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_redis::{Address as Server, Fences, Layout, Options, Secret, Sentinels, Tls, Topology};

use super::parts::{Files, decoded, host_and_port};
use super::{Address, Place};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Address {
    pub(super) fn redis(&mut self) -> Result<Place> {
        let scheme = self.scheme.clone();
        let (tls, deployment) = match scheme.split_once('+') {
            Some((base, deployment)) => (base == "rediss", deployment),
            None => (scheme == "rediss", ""),
        };
        let mut options = Options::default();
        if deployment == "unix" {
            let path = self.rest.strip_prefix("//").unwrap_or(&self.rest);
            if path.is_empty() {
                return Err(Error::Config(format!("{scheme}: expected the path of a socket")));
            }
            options.topology = Topology::Standalone(Server::Unix(PathBuf::from(decoded(path)?)));
        } else {
            self.servers(deployment, &mut options)?;
        }
        self.redis_options(tls, &mut options)?;
        Ok(Place::Redis(Box::new(options)))
    }

    /// `//[user:password@]host[:port],…[/path]`
    fn servers(&self, deployment: &str, options: &mut Options) -> Result<()> {
        let scheme = &self.scheme;
        let wrong = |what: String| Error::Config(format!("{scheme}: {what}"));
        let rest = self.rest.strip_prefix("//").ok_or_else(|| wrong(format!("expected {scheme}://host")))?;
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        let servers = match servers.rsplit_once('@') {
            Some((login, servers)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                options.user = Some(decoded(user)?).filter(|u| !u.is_empty());
                options.password = Some(decoded(password)?).filter(|p| !p.is_empty()).map(Secret::from);
                servers
            }
            None => servers,
        };
        let port = if deployment == "sentinel" { SENTINEL_PORT } else { PORT };
        let mut addresses = Vec::new();
        for server in servers.split(',') {
            let (host, port) = host_and_port(server, port).map_err(wrong)?;
            addresses.push(Server::tcp(host, port));
        }
        let mut path = path.split('/').filter(|p| !p.is_empty());
        options.topology = match deployment {
            "sentinel" => {
                let master = path.next().map(decoded).transpose()?;
                let master = master.ok_or_else(|| {
                    wrong(
                        "expected the name of the master behind the sentinels, as in //host,host/NAME".into(),
                    )
                })?;
                Topology::Sentinel(Sentinels { addresses, master, user: None, password: None })
            }
            "cluster" => Topology::Cluster(addresses),
            _ if addresses.len() > 1 => {
                return Err(wrong(format!(
                    "one server expected, {} given: did you mean redis+cluster:// or redis+sentinel://?",
                    addresses.len()
                )));
            }
            _ => Topology::Standalone(addresses.remove(0)),
        };
        if let Some(db) = path.next() {
            options.db = db.parse().map_err(|_| wrong(format!("{db:?} is not the number of a database")))?;
        }
        if let Some(more) = path.next() {
            return Err(wrong(format!("{more:?} is too much in the path")));
        }
        if deployment == "cluster" && options.db != 0 {
            return Err(wrong(format!("a cluster has no database {}", options.db)));
        }
        Ok(())
    }

    fn redis_options(&mut self, tls: bool, options: &mut Options) -> Result<()> {
        let scheme = self.scheme.clone();
        self.duration("timeout", &mut options.timeout)?;
        if options.timeout < Duration::from_millis(10) {
            return Err(Error::Config(format!("{scheme}: a timeout of {:?} is too short", options.timeout)));
        }
        self.duration("permit_slack", &mut options.permit_slack)?;
        self.duration("redisson_watchdog", &mut options.redisson_watchdog)?;
        if options.redisson_watchdog < Duration::from_secs(1) {
            return Err(Error::Config(format!(
                "{scheme}: a redisson_watchdog of {:?} is too short",
                options.redisson_watchdog
            )));
        }
        if let Some(prefix) = self.take("prefix") {
            options.prefix = decoded(&prefix)?;
        }
        if let Some(name) = self.take("client_name") {
            options.client_name = decoded(&name)?;
        }
        if let Some(db) = self.take("db") {
            options.db =
                db.parse().map_err(|_| Error::Config(format!("option db={db}: expected a number")))?;
        }
        match self.take("layout").as_deref() {
            None | Some("redisson") => {}
            Some("plain") => options.layout = Layout::Plain,
            Some(other) => {
                return Err(Error::Config(format!("option layout={other}: expected redisson or plain")));
            }
        }
        match self.take("fence").as_deref() {
            Some(_) if options.layout == Layout::Plain => {
                return Err(Error::Config(format!("{scheme}: the plain layout has no fence to choose")));
            }
            None | Some("tenure") => {}
            Some("redisson") => options.fences = Fences::Redisson,
            Some(other) => {
                return Err(Error::Config(format!("option fence={other}: expected tenure or redisson")));
            }
        }
        let files = self.files(tls, "rediss://")?;
        options.tls = files.map(|Files { ca, identity }| Tls { ca, identity });
        if let Topology::Sentinel(sentinels) = &mut options.topology {
            sentinels.user = self.take("sentinel_user").map(|u| decoded(&u)).transpose()?;
            let password = self.take("sentinel_password").map(|p| decoded(&p)).transpose()?;
            sentinels.password = password.map(Secret::from);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(address: &str) -> Result<Options> {
        let mut address = Address::parse(address)?;
        let Place::Redis(options) = address.place()? else { panic!("not redis") };
        address.finish()?;
        Ok(*options)
    }

    #[test]
    fn every_deployment_has_an_address() {
        let one = options("redis://me:p%40ss@h:1/2?prefix=a%3A&timeout=1s").unwrap();
        assert!(matches!(&one.topology, Topology::Standalone(a) if a.to_string() == "h:1"));
        assert_eq!((one.user.as_deref(), one.db, &*one.prefix), (Some("me"), 2, "a:"));
        assert_eq!(one.password, Some("p@ss".into()));
        let plain = options("redis://localhost").unwrap();
        assert!(matches!(&plain.topology, Topology::Standalone(a) if a.to_string() == "localhost:6379"));
        let v6 = options("rediss://[::1]:7?ca=/x").unwrap();
        assert!(matches!(&v6.topology, Topology::Standalone(a) if a.to_string() == "[::1]:7"));
        assert_eq!(v6.tls.unwrap().ca, Some("/x".into()));
        let sentinel = options("redis+sentinel://:pw@a,b:2/main/3?sentinel_password=s").unwrap();
        let Topology::Sentinel(s) = &sentinel.topology else { panic!("{sentinel:?}") };
        assert_eq!((s.addresses.len(), &*s.master, sentinel.db), (2, "main", 3));
        assert_eq!((s.addresses[0].to_string(), s.password.is_some()), ("a:26379".into(), true));
        let cluster = options("redis+cluster://a,b,c").unwrap();
        assert!(matches!(&cluster.topology, Topology::Cluster(all) if all.len() == 3));
        let unix = options("redis+unix:/run/redis.sock?db=1").unwrap();
        assert!(matches!(&unix.topology, Topology::Standalone(Server::Unix(p)) if p.ends_with("redis.sock")));
    }

    #[test]
    fn wrong_ones_say_what_is_wrong() {
        for (address, says) in [
            ("redis:localhost", "expected redis://"),
            ("redis://a,b", "redis+cluster"),
            ("redis://h:x", "not a port"),
            ("redis://h/x", "not the number of a database"),
            ("redis://h/1/2", "too much"),
            ("redis://h?ca=/x", "rediss://"),
            ("rediss://h?cert=/x", "together"),
            ("redis+sentinel://a,b", "name of the master"),
            ("redis+cluster://a/1", "no database 1"),
            ("redis://h?fence=x", "tenure or redisson"),
            ("redis://h?layout=x", "redisson or plain"),
            ("redis://h?layout=plain&fence=tenure", "no fence to choose"),
            ("redis://h?prefx=x", "did you mean prefix?"),
            ("redis://h?prefix=%zz", "percent"),
            ("redis+unix:", "path of a socket"),
            ("redis://[::1", "bracket"),
        ] {
            let error = options(address).unwrap_err().to_string();
            assert!(error.contains(says), "{address}: {error}");
        }
    }
}
