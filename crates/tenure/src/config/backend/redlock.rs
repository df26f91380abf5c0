//! Options of a RedLock quorum of Redis servers.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Backend, Drift, Result};
use tenure_redis::{Options, Redis, Siblings, Topology};
use tenure_redlock::{Node, Quorum, QuorumOptions};

use super::BackendConfig;
use crate::config::address;
use crate::config::duration::parse_duration;
use crate::config::keys::{Key, StoreType};
use crate::config::raw::{RawConfig, Setting};

/// How much longer than the longest lease a restarted node stays out of the quorum.
const RESTART_MARGIN: Duration = Duration::from_secs(1);

const LOGIN: [&str; 3] = ["user", "password", "password_file"];
const SENTINEL_LOGIN: [&str; 3] = ["sentinel_user", "sentinel_password", "sentinel_password_file"];

/// The options of a quorum and of each node.
pub(super) struct QuorumConfig {
    nodes: Vec<Options>,
    options: QuorumOptions,
}

impl RawConfig {
    /// Nodes are hosts or whole addresses. Options apply to all nodes; what a node's own address sets takes
    /// precedence.
    pub(super) fn take_redlock_config(&mut self, setting: &Setting) -> Result<BackendConfig> {
        let all = self.take_nodes(setting)?;
        let options = self.take_quorum_options()?;
        let restart_delay = self.take_restart_delay(options.max_lease)?;
        let common = std::mem::take(self);
        let each: Vec<&str> = all.value.split(',').map(str::trim).collect();
        let mut nodes: Vec<Options> = Vec::new();
        for (node, siblings) in each.iter().zip(Siblings::new(each.len())) {
            let mut parsed = common.node_options(node, &all)?;
            let name = parsed.topology.to_string();
            if nodes.iter().any(|other| other.topology.to_string() == name) {
                return Err(
                    all.error(format!("{name} is listed twice: each node must be a different server"))
                );
            }
            parsed.restart_delay = restart_delay;
            parsed.siblings = Some(siblings);
            nodes.push(parsed);
        }
        let any_sentinel = nodes.iter().any(|n| matches!(n.topology, Topology::Sentinel(_)));
        let unused = SENTINEL_LOGIN.into_iter().find_map(|key| common.get(key));
        match unused {
            Some(unused) if !any_sentinel => Err(unused.error("has no effect: no node uses sentinels")),
            _ => Ok(BackendConfig::Redlock(Box::new(QuorumConfig { nodes, options }))),
        }
    }

    /// Options of one of the nodes in `all`, including the common ones.
    fn node_options(&self, node: &str, all: &Setting) -> Result<Options> {
        if node.contains('?') {
            return Err(all.error("an address in nodes cannot have options: set them for all nodes"));
        }
        let own = if node.contains("://") {
            // The hosts of a node with several hosts are separated by `%2C`.
            let address = node.replace("%2C", ",").replace("%2c", ",");
            address::parse(&address, &all.origin)?
        } else {
            let mut own = RawConfig::default();
            own.set(Key::named("type").expect("a key"), StoreType::Redis.name(), &all.origin)?;
            own.set(all.key, node, &all.origin)?;
            own
        };
        let mut mine = self.clone();
        // A node's own login replaces the common one as a whole.
        if LOGIN.into_iter().any(|key| own.get(key).is_some()) {
            mine.remove(&LOGIN);
        }
        if own.get("type").is_some_and(|t| t.value != StoreType::RedisSentinel.name()) {
            mine.remove(&SENTINEL_LOGIN);
        }
        mine.extend(own);
        let (kind, setting) = mine.take_store_type()?;
        match kind {
            StoreType::Redis | StoreType::RedisSentinel | StoreType::RedisCluster => {}
            other => {
                return Err(all.error(format!(
                    "{}: cannot be a node of a quorum: expected a redis:// address",
                    other.name()
                )));
            }
        }
        if mine.get("layout").is_none() {
            // The default, because redsync and similar clients use this layout for RedLock.
            mine.set(Key::named("layout").expect("a key"), "plain", &all.origin)?;
        }
        match mine.take_redis_config(kind, &setting)? {
            BackendConfig::Redis(options) => Ok(*options),
            _ => Err(all.error(
                "a node is one server: for sentinels or a cluster use a redis+sentinel:// or redis+cluster:// \
                 address",
            )),
        }
    }

    fn take_quorum_options(&mut self) -> Result<QuorumOptions> {
        let mut options = QuorumOptions::default();
        if let Some(tries) = self.take("tries") {
            options.tries = tries.number("a number, 0 for no limit")?;
        }
        if let Some(delay) = self.take("retry_delay") {
            options.retry_delay = range(&delay.value).ok_or_else(|| {
                delay.error("expected a range such as 50ms-250ms, or a duration such as 100ms")
            })?;
        }
        if let Some(text) = self.take("drift") {
            options.drift = drift(&text.value)
                .ok_or_else(|| text.error("expected a sum such as 1%+2ms, or 1% or 2ms"))?;
        }
        self.take_duration("max_lease", &mut options.max_lease)?;
        options.node_timeout = self.take("node_timeout").map(|time| time.duration()).transpose()?;
        Ok(options)
    }

    /// How long a restarted node stays out of the quorum; `None` if it does not.
    fn take_restart_delay(&mut self, max_lease: Duration) -> Result<Option<Duration>> {
        let Some(setting) = self.take("restart_delay") else {
            return Ok(Some(max_lease.saturating_add(RESTART_MARGIN)));
        };
        if setting.value == "off" {
            return Ok(None);
        }
        let delay = parse_duration(&setting.value).map_err(|e| setting.error(format!("{e}, or off")))?;
        if delay <= max_lease {
            return Err(setting.error(format!("must be longer than max_lease, {max_lease:?}, or off")));
        }
        Ok(Some(delay))
    }
}

impl QuorumConfig {
    /// The quorum and its nodes, none of them connected.
    pub(super) fn assemble(self) -> Result<(Quorum, Vec<Arc<Redis>>)> {
        let mut nodes = Vec::new();
        for options in self.nodes {
            let name = options.topology.to_string();
            nodes.push((name, Arc::new(Redis::new(options)?)));
        }
        let (names, stores): (Vec<String>, Vec<Arc<Redis>>) = nodes.into_iter().unzip();
        let nodes = names.into_iter().zip(&stores);
        let nodes = nodes.map(|(name, redis)| Node { name, backend: redis.clone() }).collect();
        Ok((Quorum::new(nodes, self.options)?, stores))
    }

    pub(super) async fn open(self) -> Result<Arc<dyn Backend>> {
        let (quorum, stores) = self.assemble()?;
        quorum
            .connect(|node| {
                let redis = stores[node].clone();
                async move { redis.reach().await }
            })
            .await?;
        Ok(Arc::new(quorum))
    }
}

fn range(text: &str) -> Option<RangeInclusive<Duration>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some(parse_duration(from).ok()?..=parse_duration(to).ok()?)
}

fn drift(text: &str) -> Option<Drift> {
    let mut drift = Drift { factor: 0.0, plus: Duration::ZERO };
    for part in text.split('+') {
        match part.strip_suffix('%') {
            Some(percent) => drift.factor = percent.trim().parse::<f64>().ok()? / 100.0,
            None => drift.plus = parse_duration(part).ok()?,
        }
    }
    Some(drift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tenure_core::Settings;
    use tenure_redis::Layout;

    fn nodes(address: &str) -> Result<QuorumConfig> {
        let config = Address::parse(address)?.raw.validate(Settings::default())?;
        let BackendConfig::Redlock(nodes) = config.backend else { panic!("not redlock") };
        Ok(*nodes)
    }

    fn labels(address: &str) -> Vec<String> {
        nodes(address).unwrap().nodes.iter().map(|node| node.topology.to_string()).collect()
    }

    #[test]
    fn nodes_are_named_by_host_or_by_address() {
        assert_eq!(labels("redlock://a,b:1,[::1]:2"), ["a:6379", "b:1", "[::1]:2"]);
        assert_eq!(
            labels("redlock://redis://me:pw@a/1,rediss://b,c,redis+sentinel://d%2Ce/main"),
            ["a:6379", "b:6379", "c:6379", "main of d:26379,e:26379"]
        );
        let all = nodes("redlock://me:p%40ss@a,b/3?prefix=x:").unwrap();
        for node in &all.nodes {
            assert_eq!((node.user.as_deref(), node.db, &*node.prefix), (Some("me"), 3, "x:"));
            assert_eq!(node.layout, Layout::Plain);
            assert_eq!(node.restart_delay, Some(Duration::from_secs(61)));
        }
        assert_eq!(all.options, QuorumOptions::default());
        let mixed = nodes("redlock://redis://:own@a,redis://b?password_file=/run/word").unwrap();
        let passwords: Vec<_> = mixed.nodes.iter().map(|node| node.password.clone()).collect();
        assert_eq!(passwords, [Some("own".into()), Some(tenure_redis::Secret::file("/run/word"))]);
    }

    #[test]
    fn the_layout_is_the_one_that_others_share_unless_said() {
        let layouts = |address: &str| -> Vec<Layout> {
            nodes(address).unwrap().nodes.iter().map(|node| node.layout).collect()
        };
        assert_eq!(layouts("redlock://a,redis://b,redis+cluster://c"), [Layout::Plain; 3]);
        assert_eq!(layouts("redlock://a,b?layout=redisson"), [Layout::Redisson; 2]);
    }

    #[test]
    fn every_number_can_be_set() {
        let all = nodes(
            "redlock://a,b,c?tries=9&retry_delay=1ms-9ms&node_timeout=70ms&drift=2%+5ms&max_lease=9s&restart_delay=off",
        )
        .unwrap();
        let ms = Duration::from_millis;
        assert_eq!((all.options.tries, all.options.node_timeout), (9, Some(ms(70))));
        assert_eq!(all.options.retry_delay, ms(1)..=ms(9));
        assert_eq!(all.options.drift, Drift { factor: 0.02, plus: ms(5) });
        assert_eq!(all.options.max_lease, ms(9_000));
        assert!(all.nodes.iter().all(|n| n.restart_delay.is_none()));
        let delayed = nodes("redlock://a,b,c?max_lease=9s").unwrap();
        assert_eq!(delayed.nodes[2].restart_delay, Some(ms(10_000)));
    }

    #[tokio::test]
    async fn wrong_ones_say_what_is_wrong() {
        for (address, says) in [
            ("redlock:a,b", "expected redlock://"),
            ("redlock://", "expected redlock://"),
            ("redlock://a,a:6379", "listed twice"),
            ("redlock://a,sqlite://x", "cannot be a node of a quorum"),
            ("redlock://a?tries=x", "0 for no limit"),
            ("redlock://a?retry_delay=x", "50ms-250ms"),
            ("redlock://a?drift=x", "1%+2ms"),
            ("redlock://a?restart_delay=x", "or off"),
            ("redlock://a?restart_delay=5s", "longer than max_lease"),
            ("redlock://a?tryes=1", "did you mean tries?"),
            ("redlock://a?node_timeut=1s", "did you mean node_timeout?"),
            ("redlock://a?prefx=1", "did you mean prefix?"),
        ] {
            let error = nodes(address).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{address}: {error}");
        }
    }
}
