//! All configuration keys: the types of store that support them, and the types of their values.

use crate::config::suggest;

/// A type of store, as the key `type` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoreType {
    Memory,
    Sqlite,
    Redis,
    RedisSentinel,
    RedisCluster,
    Redlock,
    ZooKeeper,
}

use StoreType::*;

impl StoreType {
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
pub(crate) enum Scope {
    /// Where the store is, and the login: the part of an address before its `?`.
    Location,
    /// How to talk to the store, and how locks are stored there.
    Store,
    /// The client, for every type of store.
    Client,
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValueType {
    Text,
    /// Text that is not shown.
    Secret,
    /// Addresses separated by commas.
    Nodes,
    /// Pairs of addresses, `ANNOUNCED=REACHED`, separated by commas; in a file also a table.
    Pairs,
    /// The path of a file.
    Path,
    Number,
    Bool,
    Duration,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) value_type: ValueType,
    /// The types of store that support it.
    pub(crate) stores: &'static [StoreType],
}

const fn key(name: &'static str, scope: Scope, value_type: ValueType, stores: &'static [StoreType]) -> Key {
    Key { name, scope, value_type, stores }
}

const SERVERS: &[StoreType] = &[Redis, RedisSentinel, RedisCluster, Redlock, ZooKeeper];
const ANY_REDIS: &[StoreType] = &[Redis, RedisSentinel, RedisCluster, Redlock];
/// RedLock too: its nodes may be masters behind sentinels.
const SENTINELS: &[StoreType] = &[RedisSentinel, Redlock];

/// The key for an address, which sets other keys.
pub(crate) const URL: &str = "url";

/// All keys, in display order.
pub(crate) const KEYS: &[Key] = &[
    key("type", Scope::Location, ValueType::Text, StoreType::ALL),
    key("nodes", Scope::Location, ValueType::Nodes, SERVERS),
    key("path", Scope::Location, ValueType::Path, &[Sqlite]),
    key("socket", Scope::Location, ValueType::Path, &[Redis]),
    key("master", Scope::Location, ValueType::Text, &[RedisSentinel]),
    key("chroot", Scope::Location, ValueType::Text, &[ZooKeeper]),
    key("user", Scope::Location, ValueType::Text, SERVERS),
    key("password", Scope::Location, ValueType::Secret, SERVERS),
    key("password_file", Scope::Store, ValueType::Path, SERVERS),
    key("tls", Scope::Location, ValueType::Bool, SERVERS),
    key("nat", Scope::Store, ValueType::Pairs, ANY_REDIS),
    key("db", Scope::Store, ValueType::Number, ANY_REDIS),
    key("sentinel_user", Scope::Store, ValueType::Text, SENTINELS),
    key("sentinel_password", Scope::Store, ValueType::Secret, SENTINELS),
    key("sentinel_password_file", Scope::Store, ValueType::Path, SENTINELS),
    key("ca", Scope::Store, ValueType::Path, SERVERS),
    key("cert", Scope::Store, ValueType::Path, SERVERS),
    key("key", Scope::Store, ValueType::Path, SERVERS),
    key("prefix", Scope::Store, ValueType::Text, SERVERS),
    key("timeout", Scope::Store, ValueType::Duration, SERVERS),
    key("client_name", Scope::Store, ValueType::Text, ANY_REDIS),
    key("layout", Scope::Store, ValueType::Text, ANY_REDIS),
    key("fence", Scope::Store, ValueType::Text, ANY_REDIS),
    key("redisson_watchdog", Scope::Store, ValueType::Duration, ANY_REDIS),
    key("permit_slack", Scope::Store, ValueType::Duration, ANY_REDIS),
    key("tries", Scope::Store, ValueType::Number, &[Redlock]),
    key("retry_delay", Scope::Store, ValueType::Text, &[Redlock]),
    key("node_timeout", Scope::Store, ValueType::Duration, &[Redlock]),
    key("drift", Scope::Store, ValueType::Text, &[Redlock]),
    key("max_lease", Scope::Store, ValueType::Duration, &[Redlock]),
    key("restart_delay", Scope::Store, ValueType::Duration, &[Redlock]),
    key("session", Scope::Store, ValueType::Duration, &[ZooKeeper]),
    key("tick", Scope::Store, ValueType::Duration, &[ZooKeeper]),
    key("acl", Scope::Store, ValueType::Text, &[ZooKeeper]),
    key("network_fs", Scope::Store, ValueType::Text, &[Sqlite]),
    key("mode", Scope::Store, ValueType::Text, &[Sqlite]),
    key("lease", Scope::Client, ValueType::Duration, StoreType::ALL),
    key("poll", Scope::Client, ValueType::Duration, StoreType::ALL),
    key("call_timeout", Scope::Client, ValueType::Duration, StoreType::ALL),
    key("outage", Scope::Client, ValueType::Duration, StoreType::ALL),
    key("close_timeout", Scope::Client, ValueType::Duration, StoreType::ALL),
    key("durability", Scope::Client, ValueType::Text, StoreType::ALL),
    key("warn_held", Scope::Client, ValueType::Duration, StoreType::ALL),
    key("local_handover", Scope::Client, ValueType::Text, StoreType::ALL),
    key("deadlocks", Scope::Client, ValueType::Text, StoreType::ALL),
];

impl Key {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|k| k.name == name)
    }

    /// The keys that a type of store supports; all if the type is not known yet.
    pub(crate) fn of(store: Option<StoreType>) -> impl Iterator<Item = &'static Self> {
        KEYS.iter().filter(move |key| store.is_none_or(|store| key.stores.contains(&store)))
    }

    /// The types of store that support it, as a phrase for errors.
    pub(crate) fn supported_by(&self) -> String {
        match self.stores {
            [only] => format!("only supported by {}", only.name()),
            many => {
                let names: Vec<&str> = many.iter().map(|t| t.name()).collect();
                format!("only supported by {}", names.join(", "))
            }
        }
    }
}

/// Names that other programs use for some of the keys.
const SYNONYMS: &[(&str, &str)] = &[
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
    ("natMapper", "nat"),
    ("nat_mapper", "nat"),
    ("namespace", "chroot"),
    ("namespace", "prefix"),
];

/// Suggests one of `keys` for an unknown one.
pub(crate) fn suggest(name: &str, keys: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let keys: Vec<&str> = keys.collect();
    let synonym = SYNONYMS.iter().find(|(theirs, ours)| *theirs == name && keys.contains(ours));
    synonym.map(|(_, ours)| *ours).or_else(|| suggest::closest(name, keys))
}

/// A "did you mean" suffix for errors, or an empty string.
pub(crate) fn did_you_mean(name: &str, keys: impl Iterator<Item = &'static str>) -> String {
    suggest(name, keys).map(|key| format!("; did you mean {key}?")).unwrap_or_default()
}
