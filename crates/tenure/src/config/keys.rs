//! All configuration keys: the types of store that have them, and the form of their values.

use crate::config::suggest;

/// A type of store, as the key `type` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Memory,
    Sqlite,
    Redis,
    RedisSentinel,
    RedisCluster,
    Redlock,
    ZooKeeper,
}

use Type::*;

impl Type {
    pub(crate) const ALL: &[Self] = &[Memory, Sqlite, Redis, RedisSentinel, RedisCluster, Redlock, ZooKeeper];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Memory => "memory",
            Sqlite => "sqlite",
            Redis => "redis",
            RedisSentinel => "redis-sentinel",
            RedisCluster => "redis-cluster",
            Redlock => "redlock",
            ZooKeeper => "zookeeper",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.name() == name)
    }

    /// The cargo feature that it needs.
    pub(crate) fn feature(self) -> Option<&'static str> {
        match self {
            Memory => None,
            Sqlite => Some("sqlite"),
            Redis | RedisSentinel | RedisCluster | Redlock => Some("redis"),
            ZooKeeper => Some("zookeeper"),
        }
    }
}

/// What a key configures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum About {
    /// Where the store is, and the login. Stands before the `?` of an address.
    Place,
    /// How to talk to the store, and how locks are stored there.
    Store,
    /// The client, for every type of store.
    Client,
}

/// The form of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Text,
    /// Text that is not shown.
    Secret,
    /// Addresses separated by commas.
    Nodes,
    /// The path of a file.
    File,
    Number,
    Flag,
    Time,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) about: About,
    pub(crate) form: Form,
    /// The types of store that have it.
    pub(crate) of: &'static [Type],
}

const fn key(name: &'static str, about: About, form: Form, of: &'static [Type]) -> Key {
    Key { name, about, form, of }
}

const SERVERS: &[Type] = &[Redis, RedisSentinel, RedisCluster, Redlock, ZooKeeper];
const ANY_REDIS: &[Type] = &[Redis, RedisSentinel, RedisCluster, Redlock];
/// RedLock too: its nodes may be masters behind sentinels.
const SENTINELS: &[Type] = &[RedisSentinel, Redlock];

/// The key for an address, which sets other keys.
pub(crate) const URL: &str = "url";

/// All keys, in display order.
pub(crate) const KEYS: &[Key] = &[
    key("type", About::Place, Form::Text, Type::ALL),
    key("nodes", About::Place, Form::Nodes, SERVERS),
    key("path", About::Place, Form::File, &[Sqlite]),
    key("socket", About::Place, Form::File, &[Redis]),
    key("master", About::Place, Form::Text, &[RedisSentinel]),
    key("chroot", About::Place, Form::Text, &[ZooKeeper]),
    key("user", About::Place, Form::Text, SERVERS),
    key("password", About::Place, Form::Secret, SERVERS),
    key("password_file", About::Store, Form::File, ANY_REDIS),
    key("tls", About::Place, Form::Flag, SERVERS),
    key("db", About::Store, Form::Number, ANY_REDIS),
    key("sentinel_user", About::Store, Form::Text, SENTINELS),
    key("sentinel_password", About::Store, Form::Secret, SENTINELS),
    key("sentinel_password_file", About::Store, Form::File, SENTINELS),
    key("ca", About::Store, Form::File, SERVERS),
    key("cert", About::Store, Form::File, SERVERS),
    key("key", About::Store, Form::File, SERVERS),
    key("prefix", About::Store, Form::Text, SERVERS),
    key("timeout", About::Store, Form::Time, SERVERS),
    key("client_name", About::Store, Form::Text, ANY_REDIS),
    key("layout", About::Store, Form::Text, ANY_REDIS),
    key("fence", About::Store, Form::Text, ANY_REDIS),
    key("redisson_watchdog", About::Store, Form::Time, ANY_REDIS),
    key("permit_slack", About::Store, Form::Time, ANY_REDIS),
    key("tries", About::Store, Form::Number, &[Redlock]),
    key("retry_delay", About::Store, Form::Text, &[Redlock]),
    key("node_timeout", About::Store, Form::Time, &[Redlock]),
    key("drift", About::Store, Form::Text, &[Redlock]),
    key("max_lease", About::Store, Form::Time, &[Redlock]),
    key("restart_delay", About::Store, Form::Time, &[Redlock]),
    key("session", About::Store, Form::Time, &[ZooKeeper]),
    key("tick", About::Store, Form::Time, &[ZooKeeper]),
    key("acl", About::Store, Form::Text, &[ZooKeeper]),
    key("network_fs", About::Store, Form::Text, &[Sqlite]),
    key("mode", About::Store, Form::Text, &[Sqlite]),
    key("lease", About::Client, Form::Time, Type::ALL),
    key("poll", About::Client, Form::Time, Type::ALL),
    key("call_timeout", About::Client, Form::Time, Type::ALL),
    key("outage", About::Client, Form::Time, Type::ALL),
    key("close_timeout", About::Client, Form::Time, Type::ALL),
    key("durability", About::Client, Form::Text, Type::ALL),
    key("warn_held", About::Client, Form::Time, Type::ALL),
    key("deadlocks", About::Client, Form::Text, Type::ALL),
];

impl Key {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|k| k.name == name)
    }

    /// The types of store that have it, as a phrase for errors.
    pub(crate) fn owners(&self) -> String {
        match self.of {
            [only] => format!("only {} has it", only.name()),
            many => {
                let names: Vec<&str> = many.iter().map(|t| t.name()).collect();
                format!("only {} have it", names.join(", "))
            }
        }
    }
}

/// Names that other programs use for some of the keys.
const ELSEWHERE: &[(&str, &str)] = &[
    ("address", "nodes"),
    ("addresses", "nodes"),
    ("host", "nodes"),
    ("hosts", "nodes"),
    ("node", "nodes"),
    ("servers", "nodes"),
    ("username", "user"),
    ("database", "db"),
    ("master_name", "master"),
    ("ssl", "tls"),
    ("file", "path"),
    ("namespace", "chroot"),
];

/// The key that was probably meant by an unknown one.
pub(crate) fn meant(name: &str, keys: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let elsewhere = ELSEWHERE.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    elsewhere.or_else(|| suggest::nearest(name, keys))
}

/// A "did you mean" suffix for errors, or an empty string.
pub(crate) fn hint(name: &str, keys: impl Iterator<Item = &'static str>) -> String {
    meant(name, keys).map(|key| format!("; did you mean {key}?")).unwrap_or_default()
}
