//! The targets. To add one: its file, its line in [`named`] and [`NAMES`], a test in `tests/it`, and a folder with a few
//! inputs in the corpus.

mod address;
mod config;
mod duration;
mod jute;
mod ledger;
mod redis_server;
mod resp;
mod rows;
mod work;
mod zookeeper_server;

use crate::Target;

pub(crate) use ledger::ledgers;
pub(crate) use redis_server::to_redis;
pub(crate) use work::WORKS;
pub(crate) use zookeeper_server::to_zookeeper;

/// The names of all targets.
pub const NAMES: &[&str] =
    &["resp", "jute", "address", "config", "duration", "ledger", "rows", "redis-server", "zookeeper-server"];

/// The target of this name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> Box<dyn Target> {
    match name {
        "resp" => Box::new(resp::Resp),
        "jute" => Box::new(jute::Jute),
        "address" => Box::new(address::Address),
        "config" => Box::new(config::Config),
        "duration" => Box::new(duration::Duration),
        "ledger" => Box::new(ledger::Ledger),
        "rows" => Box::new(rows::Rows::new()),
        "redis-server" => Box::new(redis_server::RedisServer::new()),
        "zookeeper-server" => Box::new(zookeeper_server::ZooKeeperServer::new()),
        _ => panic!("there is no target {name}"),
    }
}
