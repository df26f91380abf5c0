//! The server's version and role.

use tenure_core::Finding;

use super::{Checked, Node, number, text};

/// Only for display: features are probed, not derived from the version.
pub(super) fn version(node: &Node<'_>) -> Checked {
    let facts = node.facts()?;
    let (name, version) = match text(facts, "valkey_version") {
        "" => ("Redis", text(facts, "redis_version")),
        valkey => ("Valkey", valkey),
    };
    let days = number(facts, "uptime_in_days");
    let age = match number(facts, "uptime_in_seconds") {
        s if days > 0 => format!("{days} d and {} h", s % 86_400 / 3600),
        s if s >= 3600 => format!("{} h", s / 3600),
        s if s >= 60 => format!("{} min", s / 60),
        s => format!("{s} s"),
    };
    Ok(Finding::ok("server", format!("{name} {version}, up for {age}")))
}

/// Only a master grants locks.
pub(super) fn role(node: &Node<'_>) -> Checked {
    let facts = node.facts()?;
    if text(facts, "role") != "slave" {
        return Ok(Finding::ok("role", "the server is a master"));
    }
    let (host, port) = (text(facts, "master_host"), text(facts, "master_port"));
    Ok(Finding::error(
        "role",
        format!("the server is a replica of {host}:{port}, and grants no locks"),
        "use the master's address, or let sentinels find it: redis+sentinel://",
    ))
}
