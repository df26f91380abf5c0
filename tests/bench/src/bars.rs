//! All bars, in one table, and how they are judged.

use serde_json::{Value, json};

use crate::samples::Samples;
use crate::sides::{
    BARE_HASH, BARE_SET, BARE_ZOOKEEPER, CURATOR, ETCD, FAIR, MEMORY as MEMORY_STORE, MUTEX, PERMITS, PLAIN,
    PLAIN_REMOTE, PYTHON, READ, REDISSON, REDISSON_PERMITS, REDSYNC, RSLOCK, SILENT, SQLITE, Side, TENURE,
    TENURE_REMOTE, TRANSACTIONS, UNWATCHED, WRITE, ZOOKEEPER, ZOOKEEPER_REMOTE,
};
use crate::stats::{Spread, median};

/// Ours in a workload, by a measure, against a peer of the same rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) workload: &'static str,
    pub(crate) measure: &'static str,
    pub(crate) ours: Side,
    pub(crate) against: Against,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Against {
    /// The value itself is judged.
    Nobody,
    One(Side),
    /// In each round, whoever of these did best.
    Best(&'static [Side]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

use Against::{Best, Nobody, One};
use Bound::{AtLeast, AtMost};

pub(crate) const RATE: &str = "pairs/s";
pub(crate) const P50: &str = "wait p50, ms";
pub(crate) const P99: &str = "wait p99, ms";
/// The median of the tasks: among all waits, those of a task that starves hardly count.
pub(crate) const P99_OF_A_TASK: &str = "p99 of a task, ms";
pub(crate) const POOREST: &str = "poorest/richest";
pub(crate) const COMMANDS: &str = "commands a pair";
pub(crate) const LONGEST: &str = "longest hand-over, ms";
pub(crate) const START: &str = "start, ms";
/// 1 where a cost is linear.
pub(crate) const GROWTH: &str = "power of n";
pub(crate) const HANDOVER: &str = "hand-over p50, ms";
/// Of hand-overs from one process to another.
pub(crate) const BETWEEN: &str = "hand-over between processes p50, ms";
/// Of a waiting process.
pub(crate) const CONNECTIONS: &str = "connections";
pub(crate) const IDLE_COMMANDS: &str = "commands/s while waiting";
pub(crate) const WAITER_CPU: &str = "% of a core while waiting";
pub(crate) const WAITER_MEMORY: &str = "bytes a waiter";
/// Beyond its name.
pub(crate) const MEMORY: &str = "bytes a lock";
pub(crate) const SERVER_MEMORY: &str = "bytes a lock, server";
pub(crate) const CLIENT_CPU: &str = "% of a core";
pub(crate) const SERVER_CPU: &str = "% of a core, server";
pub(crate) const HELD_COMMANDS: &str = "commands a lock and period";
pub(crate) const RENEWAL: &str = "commands inside the call, a renewal";

/// Those who may hand on to whoever comes first, however long others have waited.
const ALL: &[Side] = &[RSLOCK, REDSYNC, PYTHON, REDISSON];
/// Those who wake the next waiter.
const QUEUED: &[Side] = &[PYTHON, REDISSON];

const fn bar(
    workload: &'static str,
    measure: &'static str,
    ours: Side,
    against: Against,
    bound: Bound,
) -> Bar {
    Bar { workload, measure, ours, against, bound }
}

pub(crate) const BARS: &[Bar] = &[
    bar("W1", RATE, TENURE, One(BARE_HASH), AtLeast(0.95)),
    bar("W1", RATE, TENURE, One(RSLOCK), AtLeast(1.0)),
    bar("W1", RATE, PLAIN, One(BARE_SET), AtLeast(0.95)),
    bar("W1", RATE, PLAIN, One(REDSYNC), AtLeast(1.0)),
    bar("W2", RATE, TENURE, One(BARE_HASH), AtLeast(1.0)),
    bar("W2", RATE, PLAIN, One(RSLOCK), AtLeast(1.2)),
    bar("W2", RATE, TENURE, One(REDISSON), AtLeast(10.0)),
    bar("W3", RATE, TENURE, Best(ALL), AtLeast(20.0)),
    bar("W3", RATE, TENURE_REMOTE, Best(QUEUED), AtLeast(1.0)),
    bar("W3", RATE, PLAIN_REMOTE, Best(QUEUED), AtLeast(1.0)),
    bar("W3", P99, TENURE, Best(ALL), AtMost(1.0)),
    bar("W3", P99_OF_A_TASK, TENURE, Best(ALL), AtMost(1.0)),
    bar("W3b", RATE, TENURE, Best(ALL), AtLeast(1.0)),
    bar("W3b", RATE, PLAIN, Best(ALL), AtLeast(1.0)),
    bar("W3b", P99, TENURE, Best(ALL), AtMost(1.0)),
    bar("W3b", P99_OF_A_TASK, TENURE, Best(ALL), AtMost(1.0)),
    bar("W3b", POOREST, TENURE, Nobody, AtLeast(0.5)),
    bar("W3b", POOREST, TENURE_REMOTE, Nobody, AtLeast(0.5)),
    bar("W4 pair", COMMANDS, TENURE, Nobody, AtMost(9.0)),
    bar("W4 pair", COMMANDS, PLAIN, Nobody, AtMost(5.0)),
    bar("W4 contended", COMMANDS, TENURE, Nobody, AtMost(15.0)),
    bar("W4 contended", COMMANDS, TENURE_REMOTE, Nobody, AtMost(15.0)),
    bar("W5 10 waiters", HANDOVER, TENURE, Best(QUEUED), AtMost(0.6)),
    bar("W5 10 waiters", HANDOVER, TENURE_REMOTE, Best(QUEUED), AtMost(0.6)),
    bar("W5 1000 waiters", CONNECTIONS, TENURE, Nobody, AtMost(3.0)),
    bar("W5 1000 waiters", IDLE_COMMANDS, TENURE, Nobody, AtMost(1.0)),
    bar("W5 1000 waiters", WAITER_MEMORY, TENURE, Nobody, AtMost(2048.0)),
    bar("W5 1000 waiters", HANDOVER, TENURE, Best(QUEUED), AtMost(0.6)),
    bar("W5 10000 waiters", CONNECTIONS, TENURE, Nobody, AtMost(3.0)),
    bar("W5 10000 waiters", IDLE_COMMANDS, TENURE, Nobody, AtMost(1.0)),
    bar("W5 10000 waiters", WAITER_MEMORY, TENURE, Nobody, AtMost(2048.0)),
    bar("W5b 1000 fair waiters", CONNECTIONS, TENURE, Nobody, AtMost(3.0)),
    bar("W5b 1000 fair waiters", IDLE_COMMANDS, TENURE, Nobody, AtMost(50.0)),
    bar("W5b 1000 fair waiters", HANDOVER, TENURE, One(REDISSON), AtMost(0.6)),
    bar("W6 10000 held", MEMORY, TENURE, Nobody, AtMost(1536.0)),
    bar("W6 10000 held after 5000 pairs", MEMORY, TENURE, Nobody, AtMost(1536.0)),
    bar("W6 100000 held", MEMORY, TENURE, Nobody, AtMost(1536.0)),
    bar("W6 100000 held", CLIENT_CPU, TENURE, Nobody, AtMost(5.0)),
    bar("W6 100000 held", SERVER_CPU, TENURE, Nobody, AtMost(7.0)),
    bar("W8 one task", RATE, ZOOKEEPER, One(CURATOR), AtLeast(1.3)),
    bar("W8 one task", RATE, ZOOKEEPER, One(BARE_ZOOKEEPER), AtLeast(0.9)),
    bar("W8 64 tasks", RATE, ZOOKEEPER, One(CURATOR), AtLeast(1.5)),
    bar("W8 64 tasks", RATE, ZOOKEEPER, One(BARE_ZOOKEEPER), AtLeast(0.9)),
    bar("W8 one name", RATE, ZOOKEEPER, One(CURATOR), AtLeast(1.8)),
    bar("W8 one name", RATE, ZOOKEEPER_REMOTE, Best(&[CURATOR, ETCD]), AtLeast(1.0)),
    bar("W9", RATE, READ, One(TENURE), AtLeast(0.8)),
    bar("W9", RATE, FAIR, One(TENURE), AtLeast(0.8)),
    bar("W9", RATE, WRITE, One(TENURE), AtLeast(0.8)),
    bar("W9", RATE, PERMITS, One(REDISSON_PERMITS), AtLeast(3.0)),
    bar("W10 growth of client memory, KB, names", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of server memory, KB, names", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of CPU of a period, ms, names", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of commands of a period, names", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of CPU until all had it, ms, waiters", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of commands until all had it, waiters", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of commands of a turn of all, holders", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("W10 growth of commands of an acquisition, processes", GROWTH, TENURE, Nobody, AtMost(1.05)),
    bar("embedded memory", RATE, MEMORY_STORE, One(MUTEX), AtLeast(0.025)),
    bar("embedded sqlite", RATE, SQLITE, One(TRANSACTIONS), AtLeast(0.7)),
    bar("embedded hand-over", LONGEST, SQLITE, Nobody, AtMost(20.0)),
    bar("embedded waiting", WAITER_CPU, SQLITE, Nobody, AtMost(1.0)),
    bar("telemetry", RATE, UNWATCHED, One(SILENT), AtLeast(0.98)),
    // And what the client writes about itself now and then.
    bar("W4 renewal", RENEWAL, TENURE, Nobody, AtMost(2.05)),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Met,
    NotMet,
    /// The bar lies within the interval.
    Undecided,
    /// A side of it did not take part.
    NotMeasured,
}

impl Verdict {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::Undecided => "undecided",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A bar, judged.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) bar: Bar,
    pub(crate) ours: f64,
    /// The peer that was best in most rounds, and its median.
    pub(crate) peer: Option<(&'static str, f64)>,
    /// Of the ratios of the rounds, or of the values.
    pub(crate) spread: Spread,
    pub(crate) verdict: Verdict,
}

impl Bar {
    /// `None` if its workload was not asked for.
    pub(crate) fn judge(&self, samples: &Samples) -> Option<Judged> {
        samples.of(self.workload)?;
        let get = |side: Side| samples.get(self.workload, self.measure, side.name);
        let nothing = Judged {
            bar: *self,
            ours: 0.0,
            peer: None,
            spread: Spread::of(&[]),
            verdict: Verdict::NotMeasured,
        };
        let Some(ours) = get(self.ours) else { return Some(nothing) };
        let peers: Vec<(Side, &[f64])> =
            self.against.sides().iter().filter_map(|side| Some((*side, get(*side)?))).collect();
        let best = |round: usize| {
            let all = peers.iter().filter_map(|(_, values)| values.get(round).copied());
            match self.bound {
                AtLeast(_) => all.fold(f64::MIN, f64::max),
                AtMost(_) => all.fold(f64::MAX, f64::min),
            }
        };
        let ratios: Vec<f64> = match self.against {
            Nobody => ours.to_vec(),
            One(_) | Best(_) if peers.is_empty() => return Some(nothing),
            One(_) | Best(_) => ours.iter().enumerate().map(|(round, ours)| ours / best(round)).collect(),
        };
        let medians = peers.iter().map(|(side, values)| (side.name, median(values)));
        let peer = match self.bound {
            AtLeast(_) => medians.max_by(|a, b| a.1.total_cmp(&b.1)),
            AtMost(_) => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
        };
        let spread = Spread::of(&ratios);
        let verdict = self.bound.verdict(spread);
        Some(Judged { ours: median(ours), peer, spread, verdict, ..nothing })
    }
}

impl Against {
    pub(crate) fn sides(&self) -> &[Side] {
        match self {
            Nobody => &[],
            One(side) => std::slice::from_ref(side),
            Best(sides) => sides,
        }
    }
}

impl Bound {
    fn verdict(self, spread: Spread) -> Verdict {
        let (met, missed) = match self {
            AtLeast(bar) => (spread.low >= bar, spread.high < bar),
            AtMost(bar) => (spread.high <= bar, spread.low > bar),
        };
        match (met, missed) {
            (true, _) => Verdict::Met,
            (_, true) => Verdict::NotMet,
            _ => Verdict::Undecided,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            AtLeast(bar) => format!("≥ {bar}"),
            AtMost(bar) => format!("≤ {bar}"),
        }
    }
}

impl Judged {
    pub(crate) fn json(&self) -> Value {
        let Bar { workload, measure, ours, against, bound } = self.bar;
        let names: Vec<&str> = against.sides().iter().map(|side| side.name).collect();
        json!({
            "workload": workload, "measure": measure, "side": ours.name, "against": names, "bar": bound.text(),
            "ours": self.ours, "peer": self.peer.map(|(name, value)| json!({ "name": name, "value": value })),
            "median": self.spread.median, "low": self.spread.low, "high": self.spread.high,
            "verdict": self.verdict.text(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(bar: Bar, ours: &[f64], peers: &[(Side, &[f64])]) -> Judged {
        let mut samples = Samples::default();
        for (side, values) in peers.iter().chain([&(TENURE, ours)]) {
            values.iter().for_each(|value| samples.push(bar.workload, bar.measure, side.name, *value));
        }
        bar.judge(&samples).unwrap()
    }

    #[test]
    fn a_bar_within_the_interval_is_undecided() {
        let rate = bar("W1", RATE, TENURE, One(RSLOCK), AtLeast(1.0));
        let peer: &[f64] = &[10.0; 6];
        let verdict = |ours: [f64; 6]| judged(rate, &ours, &[(RSLOCK, peer)]).verdict;
        assert_eq!(verdict([10.0, 11.0, 12.0, 11.0, 11.0, 11.0]), Verdict::Met);
        assert_eq!(verdict([9.0, 11.0, 12.0, 11.0, 11.0, 11.0]), Verdict::Undecided);
        assert_eq!(verdict([9.0, 8.0, 9.0, 9.9, 9.0, 9.0]), Verdict::NotMet);
        let absent = judged(rate, &[1.0], &[]);
        assert_eq!(absent.verdict, Verdict::NotMeasured);
        assert!(rate.judge(&Samples::default()).is_none());
    }

    #[test]
    fn the_best_of_each_round_counts() {
        let p99 = bar("W3", P99, TENURE, Best(ALL), AtMost(1.0));
        let judged = judged(p99, &[2.0, 2.0], &[(RSLOCK, &[1.0, 8.0]), (REDSYNC, &[8.0, 4.0])]);
        assert_eq!((judged.spread.low, judged.spread.high), (0.5, 2.0));
        assert_eq!(judged.peer, Some((RSLOCK.name, 1.0)));
    }
}
