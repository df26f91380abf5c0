//! Options of a Redis store, for each deployment.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::Secret;
use tenure_core::{Backend, Result};
use tenure_redis::{Address as Server, Deployment, Fences, Layout, Options, Redis, Sentinels, Tls, Topology};

use super::BackendConfig;
use super::servers::{AddressFormat, TlsFiles};
use crate::config::keys::StoreType;
use crate::config::raw::{RawConfig, Setting};

const SERVERS: AddressFormat = AddressFormat { scheme: "redis", tls_scheme: "rediss", port: 6379 };
const SENTINELS: AddressFormat = AddressFormat { port: 26379, ..SERVERS };

impl RawConfig {
    pub(super) fn take_redis_config(&mut self, kind: StoreType, setting: &Setting) -> Result<BackendConfig> {
        let mut options = Options::default();
        if let Some(socket) = self.take("socket") {
            if let Some(nodes) = self.take("nodes") {
                return Err(nodes.error("set either nodes or socket, not both"));
            }
            if let Some(tls) = self.get("tls")
                && tls.flag()?
            {
                return Err(tls.error("is not supported on a unix socket"));
            }
            options.topology = Topology::Standalone(Server::Unix(socket.value.into()));
            self.take_redis_options(false, &mut options)?;
            return Ok(BackendConfig::Redis(Box::new(options)));
        }
        let nodes = self.take_nodes(setting)?;
        let format = if kind == StoreType::RedisSentinel { &SENTINELS } else { &SERVERS };
        let parsed = format.parse(&nodes)?;
        if parsed.path.is_some() {
            return Err(nodes.error("an address in nodes has no path here: set db to select a database"));
        }
        let mut servers: Vec<Server> = parsed.hosts.into_iter().map(|(h, p)| Server::tcp(h, p)).collect();
        let several = kind == StoreType::Redis && servers.len() > 1;
        options.topology = match kind {
            StoreType::RedisSentinel => Topology::Sentinel(self.take_sentinels(servers, setting)?),
            StoreType::RedisCluster => Topology::Cluster(servers),
            _ if several => Topology::Cluster(servers),
            _ => Topology::Standalone(servers.remove(0)),
        };
        self.take_redis_options(parsed.tls, &mut options)?;
        let options = Box::new(options);
        Ok(if several {
            BackendConfig::PossiblyCluster(options, nodes)
        } else {
            BackendConfig::Redis(options)
        })
    }

    fn take_sentinels(&mut self, addresses: Vec<Server>, setting: &Setting) -> Result<Sentinels> {
        let master = self.take("master").ok_or_else(|| {
            setting.origin.error(
                "master",
                "missing: set it to the master's name in the sentinels' configuration, or use \
                 redis+sentinel://host,host/NAME",
            )
        })?;
        let (user, password) =
            self.take_login("sentinel_user", "sentinel_password", "sentinel_password_file")?;
        Ok(Sentinels { addresses, master: master.value, user, password })
    }

    /// Takes a user and a password. A user without a password is an error: there would be no login.
    fn take_login(
        &mut self,
        user: &str,
        password: &str,
        file: &str,
    ) -> Result<(Option<String>, Option<Secret>)> {
        let password = self.take_password(password, file)?;
        match self.take(user) {
            Some(user) if password.is_none() => Err(user.error("is set without a password")),
            user => Ok((user.map(|user| user.value), password)),
        }
    }

    fn take_redis_options(&mut self, tls_by_scheme: bool, options: &mut Options) -> Result<()> {
        (options.user, options.password) = self.take_login("user", "password", "password_file")?;
        if let Some(db) = self.take("db") {
            options.db = db.number("the number of a database")?;
            if options.db != 0 && matches!(options.topology, Topology::Cluster(_)) {
                return Err(db.error(format!("a cluster has no database {}", options.db)));
            }
        }
        self.take_duration_at_least("timeout", Duration::from_millis(10), &mut options.timeout)?;
        self.take_duration("permit_slack", &mut options.permit_slack)?;
        self.take_duration_at_least(
            "redisson_watchdog",
            Duration::from_secs(1),
            &mut options.redisson_watchdog,
        )?;
        if let Some(prefix) = self.take("prefix") {
            options.prefix = prefix.value;
        }
        if let Some(name) = self.take("client_name") {
            options.client_name = name.value;
        }
        if let Some(layout) = self.take("layout") {
            options.layout = layout.choice(&[("redisson", Layout::Redisson), ("plain", Layout::Plain)])?;
        }
        if let Some(fence) = self.take("fence") {
            if options.layout == Layout::Plain {
                return Err(fence.error("has no effect with the plain layout"));
            }
            options.fences =
                fence.choice(&[("tenure", Fences::default()), ("redisson", Fences::Redisson)])?;
        }
        let files = self.take_tls_files(tls_by_scheme, &SERVERS)?;
        options.tls = files.map(|TlsFiles { ca, identity }| Tls { ca, identity });
        if let Some(nat) = self.take("nat") {
            if options.tls.is_none() && nat.value.contains('/') {
                return Err(
                    nat.error("names what a certificate must have, but connections are not encrypted")
                );
            }
            options.nat = nat.value.parse().map_err(|why| nat.error(why))?;
        }
        Ok(())
    }
}

/// Opens several addresses of an unspecified deployment. A cluster is recognised by asking a server; for sentinels and
/// standalone servers the type must be set explicitly.
pub(super) async fn open_cluster(options: Options, nodes: &Setting) -> Result<Arc<dyn Backend>> {
    let (at, deployment) = tenure_redis::deployment(&options).await?;
    match deployment {
        Deployment::Cluster => Ok(Arc::new(Redis::open(options).await?)),
        Deployment::Sentinel => Err(nodes.error(format!(
            "{at} is a sentinel: set type to redis-sentinel, and master to the master's name in its configuration"
        ))),
        Deployment::Standalone => Err(nodes.error(format!(
            "{at} is a standalone server, not part of a cluster: set nodes to one server, or set type to redlock \
             for a quorum of independent servers"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tenure_core::Settings;

    fn options(address: &str) -> Result<Options> {
        let config = Address::parse(address)?.raw.validate(Settings::default())?;
        let BackendConfig::Redis(options) = config.backend else { panic!("not redis") };
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
        let file = options("redis://me@h?password_file=/run/secrets/word").unwrap();
        assert_eq!(
            (file.user.as_deref(), file.password),
            (Some("me"), Some(Secret::file("/run/secrets/word")))
        );
        let sentinel = options("redis+sentinel://a/main?password_file=/p&sentinel_password_file=/s").unwrap();
        let Topology::Sentinel(s) = &sentinel.topology else { panic!("{sentinel:?}") };
        assert_eq!((&sentinel.password, &s.password), (&Some(Secret::file("/p")), &Some(Secret::file("/s"))));
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
            ("redis://h/x", "expected the number of a database"),
            ("redis://h/1/2", "not expected in the path"),
            ("redis://h?ca=/x", "rediss://"),
            ("rediss://h?cert=/x", "must both be set"),
            ("redis+sentinel://a,b", "master's name"),
            ("redis+cluster://a/1", "no database 1"),
            ("redis://h?fence=x", "tenure or redisson"),
            ("redis://h?layout=x", "redisson or plain"),
            ("redis://h?layout=plain&fence=tenure", "no effect with the plain layout"),
            ("redis://h?prefx=x", "did you mean prefix?"),
            ("redis://h?prefix=%zz", "percent"),
            ("redis+unix:", "path of a socket"),
            ("redis://me@h", "without a password"),
            ("redis://:pw@h?password_file=/x", "password_file: set either password or this key"),
            ("redis://h/1?db=2", "twice"),
            ("redis://a,,b", "redis+cluster"),
            ("redis+cluster://a,,b", "an address is empty"),
            ("redis://::1:7", "in brackets"),
            ("redis://[::1", "bracket"),
        ] {
            let error = options(address).unwrap_err().to_string();
            assert!(error.contains(says), "{address}: {error}");
        }
    }
}
