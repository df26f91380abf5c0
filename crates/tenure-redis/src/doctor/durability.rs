//! ErrorContext is lost in a restart or a failover.

use tenure_core::Finding;

use super::{Checked, Node, number, text};

pub(super) async fn persistence(node: &Node<'_>) -> Checked {
    const CHECK: &str = "persistence";
    if let Ok(facts) = node.facts() {
        let failed = |name: &str| text(facts, name) == "err";
        if failed("aof_last_write_status") || failed("rdb_last_bgsave_status") {
            return Ok(Finding::error(
                CHECK,
                "the last write to disk failed, and the server may refuse all writes (MISCONF)",
                "check the server's log and its disk",
            ));
        }
    }
    let snapshots = !node.config("save").await?.is_empty();
    if node.config("appendonly").await? != "yes" {
        let advice =
            "CONFIG SET appendonly yes; or, after a crash, wait for one lease before restarting the server";
        let what = if snapshots {
            "snapshots only: a restart loses the locks acquired since the last snapshot"
        } else {
            "nothing is written to disk: a restart loses all locks, and others can acquire them while they are held"
        };
        return Ok(Finding::warning(CHECK, what, advice));
    }
    Ok(match node.config("appendfsync").await?.as_str() {
        "always" => Finding::ok(CHECK, "each write is on disk before the reply is sent"),
        "no" => Finding::warning(
            CHECK,
            "the operating system decides when writes reach the disk: a power failure loses the locks of the last half minute",
            "CONFIG SET appendfsync everysec, or always",
        ),
        _ => Finding::ok(
            CHECK,
            "writes reach the disk within a second; only a power failure loses the last ones",
        ),
    })
}

/// A larger replication lag, in seconds, is reported: replicas report once a second.
const LAG: u64 = 5;

pub(super) async fn replicas(node: &Node<'_>) -> Checked {
    const CHECK: &str = "replicas";
    let facts = node.facts()?;
    let connected = number(facts, "connected_slaves");
    if connected == 0 {
        return Ok(if node.redis.info.scheme == "redis" {
            Finding::ok(CHECK, "no replica is connected, so nothing takes over if the server fails")
        } else {
            Finding::warning(
                CHECK,
                "no replica is connected: if the server fails, nothing takes over",
                "add a replica",
            )
        });
    }
    let all = (0..connected).filter_map(|n| facts.get(&format!("slave{n}")));
    if let Some(late) = all.filter_map(|line| late(line)).next() {
        return Ok(Finding::warning(CHECK, late, "check the log of that replica"));
    }
    let count = if connected == 1 { "1 replica".to_owned() } else { format!("{connected} replicas") };
    let needed: u64 = node.config("min-replicas-to-write").await?.parse().unwrap_or(0);
    let lag: u64 = node.config("min-replicas-max-lag").await?.parse().unwrap_or(0);
    if needed == 0 || lag == 0 {
        return Ok(Finding::warning(
            CHECK,
            format!(
                "{count}, none of them required for a write: a partitioned master continues to grant locks that the new \
                 master grants, too"
            ),
            "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag 10 or less; durability=replicas:1 in the address",
        ));
    }
    if connected < needed {
        return Ok(Finding::error(
            CHECK,
            format!("{count}, but {needed} are required for a write: no lock is granted (NOREPLICAS)"),
            "start the others, or lower min-replicas-to-write (CONFIG SET)",
        ));
    }
    Ok(Finding::ok(
        CHECK,
        format!("{count}; with fewer than {needed} connected, no lock is granted after {lag} s"),
    ))
}

/// Describes what is wrong with a replica, given `ip=127.0.0.1,port=7001,state=online,offset=28,lag=0`.
fn late(line: &str) -> Option<String> {
    let part = |name: &str| line.split(',').find_map(|part| part.split_once('=').filter(|(n, _)| *n == name));
    let value = |name: &str| part(name).map_or("", |(_, value)| value);
    let who = format!("the replica {}:{}", value("ip"), value("port"));
    match (value("state"), value("lag").parse::<u64>().ok()) {
        ("online", Some(lag)) if lag > LAG => Some(format!("{who} is {lag} s behind")),
        ("online", _) => None,
        (state, _) => Some(format!("{who} is not in sync with its master ({state})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_behind_is_named() {
        assert_eq!(late("ip=127.0.0.1,port=1,state=online,offset=28,lag=1"), None);
        let late_one = late("ip=10.0.0.7,port=1,state=online,offset=28,lag=9");
        assert_eq!(late_one.as_deref(), Some("the replica 10.0.0.7:1 is 9 s behind"));
        assert!(late("ip=::1,port=1,state=wait_bgsave,offset=0,lag=0").unwrap().contains("wait_bgsave"));
    }
}
