//! Limits of the server on connections.

use tenure_core::Finding;

use super::{Checked, Node, number};

/// Idle timeout in seconds. Renewals come every third of a lease, 10 s by default: with less than this each might need
/// a new connection.
const SHORT: u64 = 60;
/// A pub/sub buffer of fewer bytes holds few messages.
const TINY: u64 = 1 << 20;

/// Whether more connections can be opened.
pub(super) fn room(node: &Node<'_>) -> Checked {
    let facts = node.facts()?;
    let (now, most) = (number(facts, "connected_clients"), number(facts, "maxclients"));
    if most > 0 && now.saturating_mul(10) >= most * 9 {
        return Ok(Finding::warning(
            "clients",
            format!("{now} of at most {most} connections are open: new connections will soon be refused"),
            "raise maxclients (CONFIG SET maxclients), or find out which clients open them",
        ));
    }
    let now = if now == 1 { "1 connection".to_owned() } else { format!("{now} connections") };
    Ok(Finding::ok("clients", format!("{now}, of {most} at most")))
}

pub(super) async fn idle(node: &Node<'_>) -> Checked {
    let limit: u64 = node.config("timeout").await?.parse().unwrap_or(0);
    Ok(match limit {
        0 => Finding::ok("idle", "idle connections stay open"),
        1..SHORT => Finding::warning(
            "idle",
            format!(
                "connections are closed when idle for {limit} s: many calls will have to reconnect first"
            ),
            "CONFIG SET timeout 0, or 300",
        ),
        _ => Finding::ok("idle", format!("connections are closed when idle for {limit} s")),
    })
}

pub(super) async fn keep_alive(node: &Node<'_>) -> Checked {
    let period: u64 = node.config("tcp-keepalive").await?.parse().unwrap_or(0);
    Ok(match period {
        0 => Finding::warning(
            "keep-alive",
            "connections of machines that have crashed are never closed and keep counting as open",
            "CONFIG SET tcp-keepalive 300",
        ),
        _ => Finding::ok(
            "keep-alive",
            format!("clients that have crashed are detected by a probe every {period} s"),
        ),
    })
}

/// Whether subscribers are disconnected when messages arrive faster than they read.
pub(super) async fn messages(node: &Node<'_>) -> Checked {
    let limits = node.config("client-output-buffer-limit").await?;
    Ok(match pubsub_limit(&limits) {
        Some(limit @ 1..TINY) => Finding::warning(
            "messages",
            format!(
                "a subscriber with more than {limit} bytes of unread messages is disconnected: waiters may miss wake-ups"
            ),
            "CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\"",
        ),
        _ => Finding::ok("messages", "the buffer for unread messages is large enough"),
    })
}

/// The smaller of the two limits of `normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60`, if any.
fn pubsub_limit(limits: &str) -> Option<u64> {
    let mut words = limits.split_whitespace().skip_while(|w| *w != "pubsub").skip(1);
    let mut next = || words.next().and_then(|w| w.parse::<u64>().ok()).filter(|n| *n > 0);
    let (hard, soft) = (next(), next());
    [hard, soft].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_listeners_is_found() {
        let usual = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(pubsub_limit(usual), Some(8_388_608));
        assert_eq!(pubsub_limit("normal 0 0 0 pubsub 0 0 0"), None);
        assert_eq!(pubsub_limit("pubsub 100 0 0"), Some(100));
        assert_eq!(pubsub_limit(""), None);
    }
}
