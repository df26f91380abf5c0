//! Redis, in every deployment.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Backend, Result};
use tenure_redis::{
    Address as Server, Deployment, Fences, Layout, Options, Redis, Secret, Sentinels, Tls, Topology,
};

use super::Place;
use super::servers::{Files, Written};
use crate::config::keys::Type;
use crate::config::raw::{Given, Setting};

const SERVERS: Written = Written { scheme: "redis", secure: "rediss", port: 6379 };
const SENTINELS: Written = Written { port: 26379, ..SERVERS };

impl Given {
    pub(super) fn redis(&mut self, kind: Type, setting: &Setting) -> Result<Place> {
        let mut options = Options::default();
        if let Some(socket) = self.take("socket") {
            if let Some(nodes) = self.take("nodes") {
                return Err(nodes.wrong("a server is reached by its socket or by its address, not by both"));
            }
            if let Some(tls) = self.get("tls")
                && tls.flag()?
            {
                return Err(tls.wrong("a socket has no encryption, and needs none"));
            }
            options.topology = Topology::Standalone(Server::Unix(socket.text.into()));
            self.redis_options(false, &mut options)?;
            return Ok(Place::Redis(Box::new(options)));
        }
        let nodes = self.nodes(setting)?;
        let written = if kind == Type::RedisSentinel { &SENTINELS } else { &SERVERS };
        let line = written.line(&nodes)?;
        if line.path.is_some() {
            return Err(nodes.wrong("an address has no path here: db sets the number of a database"));
        }
        let mut servers: Vec<Server> = line.hosts.into_iter().map(|(h, p)| Server::tcp(h, p)).collect();
        let several = kind == Type::Redis && servers.len() > 1;
        options.topology = match kind {
            Type::RedisSentinel => Topology::Sentinel(self.sentinels(servers, setting)?),
            Type::RedisCluster => Topology::Cluster(servers),
            _ if several => Topology::Cluster(servers),
            _ => Topology::Standalone(servers.remove(0)),
        };
        self.redis_options(line.tls, &mut options)?;
        let options = Box::new(options);
        Ok(if several { Place::PerhapsCluster(options, nodes) } else { Place::Redis(options) })
    }

    fn sentinels(&mut self, addresses: Vec<Server>, setting: &Setting) -> Result<Sentinels> {
        let master = self.take("master").ok_or_else(|| {
            setting.from.wrong(
                "master",
                "missing: the name of the master behind the sentinels, as in redis+sentinel://host,host/NAME",
            )
        })?;
        let (user, password) = self.login("sentinel_user", "sentinel_password", "sentinel_password_file")?;
        Ok(Sentinels { addresses, master: master.text, user, password })
    }

    fn redis_options(&mut self, line_tls: bool, options: &mut Options) -> Result<()> {
        (options.user, options.password) = self.login("user", "password", "password_file")?;
        if let Some(db) = self.take("db") {
            options.db = db.number("the number of a database")?;
            if options.db != 0 && matches!(options.topology, Topology::Cluster(_)) {
                return Err(db.wrong(format!("a cluster has no database {}", options.db)));
            }
        }
        self.at_least("timeout", Duration::from_millis(10), &mut options.timeout)?;
        self.duration("permit_slack", &mut options.permit_slack)?;
        self.at_least("redisson_watchdog", Duration::from_secs(1), &mut options.redisson_watchdog)?;
        if let Some(prefix) = self.take("prefix") {
            options.prefix = prefix.text;
        }
        if let Some(name) = self.take("client_name") {
            options.client_name = name.text;
        }
        if let Some(layout) = self.take("layout") {
            options.layout = layout.choice(&[("redisson", Layout::Redisson), ("plain", Layout::Plain)])?;
        }
        if let Some(fence) = self.take("fence") {
            if options.layout == Layout::Plain {
                return Err(fence.wrong("the plain layout has no fence to choose"));
            }
            options.fences =
                fence.choice(&[("tenure", Fences::default()), ("redisson", Fences::Redisson)])?;
        }
        let files = self.files(line_tls, &SERVERS)?;
        options.tls = files.map(|Files { ca, identity }| Tls { ca, identity });
        Ok(())
    }

    /// Takes a user, and a password or the file that contains it. A user without a password is an error: there would
    /// be no login.
    fn login(&mut self, user: &str, password: &str, file: &str) -> Result<(Option<String>, Option<Secret>)> {
        let (user, word, file) = (self.take(user), self.take(password), self.take(file));
        let password = match (word, file) {
            (Some(_), Some(file)) => return Err(file.wrong(format!("{password} is given as well"))),
            (Some(word), None) => Some(Secret::from(word.text)),
            (None, Some(file)) => Some(Secret::file(file.text)),
            (None, None) => None,
        };
        match user {
            Some(user) if password.is_none() => Err(user.wrong("given without a password")),
            user => Ok((user.map(|user| user.text), password)),
        }
    }
}

/// Opens several addresses of an unspecified deployment. A cluster is recognised by asking a server; for sentinels and
/// standalone servers the type must be set explicitly.
pub(super) async fn open_cluster(options: Options, nodes: &Setting) -> Result<Arc<dyn Backend>> {
    let (at, deployment) = tenure_redis::deployment(&options).await?;
    match deployment {
        Deployment::Cluster => Ok(Arc::new(Redis::open(options).await?)),
        Deployment::Sentinel => Err(nodes.wrong(format!(
            "{at} is a sentinel: set type to redis-sentinel, and master to the name that it knows the master by"
        ))),
        Deployment::Standalone => Err(nodes.wrong(format!(
            "{at} is a server by itself and no cluster: name one server alone, or set type to redlock, where most \
             of several must agree"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tenure_core::Settings;

    fn options(address: &str) -> Result<Options> {
        let plan = Address::parse(address)?.given.plan(Settings::default())?;
        let Place::Redis(options) = plan.place else { panic!("not redis") };
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
            ("redis://me@h", "without a password"),
            ("redis://:pw@h?password_file=/x", "password_file: password is given as well"),
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
