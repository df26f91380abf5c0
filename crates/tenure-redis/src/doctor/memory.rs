//! Whether keys can be evicted, or writes refused for lack of memory.

use tenure_core::Finding;

use super::{Checked, Node, number, text};

const CHECK: &str = "eviction";

pub(super) fn eviction(node: &Node<'_>) -> Checked {
    let facts = node.facts()?;
    let (limit, used) = (number(facts, "maxmemory"), number(facts, "used_memory"));
    let policy = text(facts, "maxmemory_policy");
    if limit == 0 {
        return Ok(Finding::ok(CHECK, "no memory limit is set, so nothing is evicted"));
    }
    let (limit_text, share) = (size(limit), used.saturating_mul(100) / limit);
    if policy != "noeviction" {
        let which =
            if policy.starts_with("volatile") { "keys with a TTL, as every lock has" } else { "any key" };
        return Ok(Finding::warning(
            CHECK,
            format!(
                "at {limit_text} it evicts {which} ({policy}): locks and fences may vanish while they are held"
            ),
            "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks",
        ));
    }
    if share >= 90 {
        return Ok(Finding::warning(
            CHECK,
            format!("{share} % of {limit_text} are in use: when memory is full, no lock is granted"),
            "raise maxmemory (CONFIG SET maxmemory), or delete keys that are not needed",
        ));
    }
    Ok(Finding::ok(CHECK, format!("nothing is evicted; {share} % of {limit_text} are in use")))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} kB", bytes / 1024),
        1_048_576..10_737_418_240 => format!("{} MB", bytes / 1_048_576),
        _ => format!("{} GB", bytes / 1_073_741_824),
    }
}
