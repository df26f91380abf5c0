//! Whether a cluster serves all slots.

use tenure_core::Finding;

use super::{Checked, Node, facts, number, text};

const CHECK: &str = "cluster";

/// `None` if the server is not part of a cluster.
pub(super) async fn cluster(node: &Node<'_>) -> Option<Checked> {
    let enabled = node.facts().is_ok_and(|facts| text(facts, "cluster_enabled") == "1");
    if node.redis.transport.is_cluster() {
        return Some(state(node).await);
    }
    let what = "the server is one node of a cluster and serves only some names";
    let advice = "use the address scheme redis+cluster://";
    enabled.then(|| Ok(Finding::error(CHECK, what, advice)))
}

async fn state(node: &Node<'_>) -> Checked {
    let reply = node.ask(&["CLUSTER", "INFO"]).await?;
    let facts = facts(reply.text().unwrap_or_default());
    let (state, served) = (text(&facts, "cluster_state"), number(&facts, "cluster_slots_ok"));
    if state != "ok" {
        return Ok(Finding::error(
            CHECK,
            format!("the cluster is in state {state}, with {served} of 16384 slots served"),
            "redis-cli --cluster check",
        ));
    }
    if served < 16_384 {
        return Ok(Finding::error(
            CHECK,
            format!("{served} of 16384 slots are served: the names in the others cannot be locked"),
            "redis-cli --cluster check",
        ));
    }
    let reply = node.ask(&["CLUSTER", "NODES"]).await?;
    let failing = failing(reply.text().unwrap_or_default());
    if !failing.is_empty() {
        return Ok(Finding::warning(
            CHECK,
            format!("all slots are served, but {} failed", failing.join(", ")),
            "restart the failed nodes, or remove them with CLUSTER FORGET",
        ));
    }
    if node.redis.transport.publish_command() == "PUBLISH" {
        return Ok(Finding::warning(
            CHECK,
            "the server has no sharded channels (Redis 7.0): each message goes to all nodes",
            "upgrade the servers, if there are many waiters",
        ));
    }
    Ok(Finding::ok(CHECK, "all slots are served, and no node failed"))
}

/// The addresses of failed nodes, from lines `ID HOST:PORT@BUS FLAGS …`.
fn failing(nodes: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in nodes.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(address), Some(flags)) = (words.next(), words.next()) else { continue };
        if flags.split(',').any(|flag| matches!(flag, "fail" | "fail?")) {
            found.push(address.split('@').next().unwrap_or(address));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_nodes_are_named() {
        let nodes = "a 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-16383\n\
                     b 127.0.0.1:7001@17001 slave,fail a 0 0 1 disconnected\n\
                     c 127.0.0.1:7002@17002,host master,fail? - 0 0 1 connected\n";
        assert_eq!(failing(nodes), ["127.0.0.1:7001", "127.0.0.1:7002"]);
    }
}
