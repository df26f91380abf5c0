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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::conversation::Conversation;
    use crate::corpus;
    use crate::liar::Stage;
    use crate::memory;

    /// A client that believes nothing of what is recorded would hang up after the first answer.
    #[test]
    fn what_is_recorded_is_believed() {
        let _alone = memory::alone();
        let stage = Stage::new();
        let mut all_left = Vec::new();
        for (target, run) in [
            ("redis-server", to_redis as fn(&str, std::net::SocketAddr, Duration)),
            ("zookeeper-server", to_zookeeper),
        ] {
            for (name, input) in corpus::load(target) {
                let Conversation { work, says } = Conversation::parse(&input);
                let (all, server) = (says.len(), stage.start(says));
                let client = std::thread::spawn(move || {
                    run(&work, server.at, Duration::from_secs(20));
                    server.left()
                });
                all_left.push((format!("{target} {name}"), all, client));
            }
        }
        for (name, all, client) in all_left {
            let left = client.join().unwrap();
            assert!(left <= all / 2, "{name}: {left} of {all} answers were not asked for");
        }
    }
}
