//! The server's clock: fences come from it, and permits shared with Redisson expire by it.

use std::time::{Duration, Instant};

use tenure_core::{Finding, wall_micros};

use super::{Checked, Node, Stuck};
use crate::transport::Value;

/// A larger difference from our clock is reported.
const APART: Duration = Duration::from_secs(1);
/// A larger step cannot be due to network delay.
const STEP: Duration = Duration::from_millis(100);

/// A reading of the server's clock, with ours before and after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    server: u64,
    wall: (u64, u64),
    own: (Instant, Instant),
}

pub(super) async fn read(node: &Node<'_>) -> Result<Reading, Stuck> {
    let (wall, own) = (wall_micros(), Instant::now());
    let reply = node.ask(&["TIME"]).await?;
    let (wall, own) = ((wall, wall_micros()), (own, Instant::now()));
    let part = |at: usize| reply.array().and_then(|p| p.get(at)).and_then(Value::text)?.parse::<u64>().ok();
    let server = part(0).unwrap_or(0) * 1_000_000 + part(1).unwrap_or(0);
    Ok(Reading { server, wall, own })
}

pub(super) fn clock(first: Result<Reading, Stuck>, last: Result<Reading, Stuck>) -> Checked {
    let (first, last) = (first?, last?);
    let micros = Duration::from_micros;
    let (passed, least) = (last.server.saturating_sub(first.server), last.own.0.duration_since(first.own.1));
    let most = last.own.1.duration_since(first.own.0);
    let jump = micros(passed).saturating_sub(most).max(least.saturating_sub(micros(passed)));
    let back = last.server < first.server;
    if jump > STEP || back {
        let jump = if back { micros(first.server - last.server) + least } else { jump };
        return Ok(Finding::warning(
            "clock",
            format!("the server's clock stepped by {} during the check", seconds(jump)),
            "let NTP slew the clock instead of stepping it: leases expire by it, and fences are derived from it",
        ));
    }
    // A lower bound, whenever the server's clock was read between our two readings.
    let ahead = micros(last.server.saturating_sub(last.wall.1));
    let behind = micros(last.wall.0.saturating_sub(last.server));
    let (apart, word) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    if apart > APART {
        return Ok(Finding::warning(
            "clock",
            format!("the server's clock is {} {word} this machine's", seconds(apart)),
            "run NTP on both: after a failover fences may not grow, and permits shared with JVMs expire too early or too late",
        ));
    }
    Ok(Finding::ok("clock", "the server's clock and this machine's differ by less than a second"))
}

fn seconds(d: Duration) -> String {
    match d.as_secs() {
        0..10 => format!("{:.1} s", d.as_secs_f64()),
        10..600 => format!("{:.0} s", d.as_secs_f64()),
        s @ 600..36_000 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(server_ms: u64, wall_ms: u64, own_ms: u64) -> Result<Reading, Stuck> {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let at = |ms| *START.get_or_init(Instant::now) + Duration::from_millis(ms);
        let wall = (wall_ms * 1000, (wall_ms + 2) * 1000);
        Ok(Reading { server: server_ms * 1000, wall, own: (at(own_ms), at(own_ms + 2)) })
    }

    fn says(first: (u64, u64, u64), last: (u64, u64, u64)) -> String {
        let read = |r: (u64, u64, u64)| reading(r.0, r.1, r.2);
        clock(read(first), read(last)).ok().unwrap().to_string()
    }

    #[test]
    fn steps_and_distance_are_told_and_the_network_is_not_blamed() {
        assert!(says((50_001, 50_000, 0), (50_011, 50_010, 10)).starts_with("ok"));
        assert!(says((50_900, 50_000, 0), (50_910, 50_010, 10)).starts_with("ok"), "less than a second");
        let ahead = says((53_001, 50_000, 0), (53_011, 50_010, 10));
        assert!(ahead.contains("3.0 s ahead of this machine's"), "{ahead}");
        let behind = says((10_001, 50_000, 0), (10_011, 50_010, 10));
        assert!(behind.contains("40 s behind this machine's"), "{behind}");
        let forward = says((50_001, 50_000, 0), (52_011, 50_010, 10));
        assert!(forward.contains("stepped by 2.0 s"), "{forward}");
        let back = says((50_001, 50_000, 0), (45_001, 50_010, 10));
        assert!(back.contains("stepped by 5.0 s"), "{back}");
        let late = says((50_001, 50_000, 0), (50_002, 50_900, 900));
        assert!(late.contains("stepped by 0.9 s"), "it stood still: {late}");
    }
}
