//! What happens when, drawn from the seed: three sequences that run side by side, of faults of workers, of their
//! connections, and of servers. Each goes round all its faults in a random order, so that none is left out for long.

use std::fmt;
use std::time::Duration;

use checker::{Class, Store};
use testbed::{Cut, Way};

use crate::deploy::Deployment;
use crate::fault::{Fault, How};

/// A fault, and when it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    /// Since the beginning of the phase.
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// The faults of one phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// One after the other in each, all at the same time.
    pub(crate) lanes: Vec<Vec<Planned>>,
}

/// What is drawn from.
pub(crate) struct Deck {
    pub(crate) store: Store,
    pub(crate) nodes: u32,
    pub(crate) slots: usize,
    /// Whether clocks of servers may go back, or servers may forget: not both.
    pub(crate) back: bool,
    /// Leaves out what may rightly break exclusion.
    pub(crate) strict: bool,
    /// Leaves out all others, unless it is empty.
    pub(crate) only: Vec<Class>,
}

type Draw = fn(&Deck, &mut fastrand::Rng) -> Fault;

fn slot(deck: &Deck, rng: &mut fastrand::Rng) -> usize {
    rng.usize(0..deck.slots)
}

/// Half of them shorter than a lease, half of them longer.
fn time(deck: &Deck, rng: &mut fastrand::Rng) -> Duration {
    Deployment::lease(deck.store).mul_f64(if rng.bool() {
        0.1 + 0.8 * rng.f64()
    } else {
        1.1 + 0.9 * rng.f64()
    })
}

fn few(deck: &Deck, rng: &mut fastrand::Rng) -> Vec<usize> {
    pick(deck.nodes as usize / 2, deck, rng)
}

fn most(deck: &Deck, rng: &mut fastrand::Rng) -> Vec<usize> {
    pick(deck.nodes as usize / 2 + 1, deck, rng)
}

fn pick(count: usize, deck: &Deck, rng: &mut fastrand::Rng) -> Vec<usize> {
    let mut nodes = rng.choose_multiple(0..deck.nodes as usize, count);
    nodes.sort_unstable();
    nodes
}

fn all(deck: &Deck) -> Vec<usize> {
    (0..deck.nodes as usize).collect()
}

const PAUSE: Draw = |deck, rng| Fault::Pause { slot: slot(deck, rng), time: time(deck, rng) };
const KILL: Draw = |deck, rng| Fault::Kill { slot: slot(deck, rng) };
const BLOCK: Draw = |deck, rng| Fault::Block { slot: slot(deck, rng), time: time(deck, rng) };

const CONNECTIONS: [Draw; 7] = [
    |deck, rng| Fault::Cut { slot: slot(deck, rng), time: time(deck, rng) },
    |deck, rng| Fault::Stall { slot: slot(deck, rng), time: time(deck, rng) },
    |deck, rng| Fault::CutOnce { slot: slot(deck, rng), cut: Cut::BeforeRequest },
    |deck, rng| Fault::CutOnce { slot: slot(deck, rng), cut: Cut::AfterRequest },
    |deck, rng| {
        let by = Duration::from_millis(rng.u64(20..400));
        Fault::Delay { slot: slot(deck, rng), time: time(deck, rng), by }
    },
    |deck, rng| {
        let way = if rng.bool() { Way::ToServer } else { Way::ToClient };
        Fault::OneWay { slot: slot(deck, rng), time: time(deck, rng), way }
    },
    |deck, rng| Fault::HalfOpen { slot: slot(deck, rng), time: time(deck, rng) },
];

const STOP: Draw = |deck, rng| Fault::Stop { nodes: all(deck), time: time(deck, rng) };
const RESTART: Draw =
    |deck, rng| Fault::Restart { nodes: all(deck), time: time(deck, rng) / 4, empty: false };
const STOP_FEW: Draw = |deck, rng| Fault::Stop { nodes: few(deck, rng), time: time(deck, rng) };
const STOP_MOST: Draw = |deck, rng| Fault::Stop { nodes: most(deck, rng), time: time(deck, rng) };
const RESTART_FEW: Draw =
    |deck, rng| Fault::Restart { nodes: few(deck, rng), time: time(deck, rng) / 2, empty: false };
const RESTART_MOST: Draw =
    |deck, rng| Fault::Restart { nodes: most(deck, rng), time: time(deck, rng) / 2, empty: false };
const EMPTY_ONE: Draw =
    |deck, rng| Fault::Restart { nodes: pick(1, deck, rng), time: time(deck, rng) / 4, empty: true };
const EMPTY_MOST: Draw =
    |deck, rng| Fault::Restart { nodes: most(deck, rng), time: time(deck, rng) / 4, empty: true };
const FLUSH: Draw = |_, _| Fault::Flush;
const DISCONNECT: Draw = |_, _| Fault::Disconnect;
const HUSH: Draw = |deck, rng| Fault::Hush { time: time(deck, rng) / 2 };
const ASKED: Draw = |_, _| Fault::FailOver { how: How::Asked, time: Duration::ZERO };
const KILLED: Draw = |deck, rng| Fault::FailOver { how: How::Killed, time: time(deck, rng) };
const STOPPED: Draw = |deck, rng| Fault::FailOver { how: How::Stopped, time: time(deck, rng) };
const BLACKOUT: Draw = |_, _| Fault::Blackout;
const RESHARD: Draw = |deck, rng| Fault::Reshard { time: time(deck, rng) / 2 };
const EVICT: Draw = |deck, rng| Fault::Evict { nodes: pick(1, deck, rng), time: time(deck, rng) / 4 };
const FULL: Draw = |deck, rng| Fault::Full { nodes: all(deck), time: time(deck, rng) };
const FULL_FEW: Draw = |deck, rng| Fault::Full { nodes: few(deck, rng), time: time(deck, rng) };
const FULL_MOST: Draw = |deck, rng| Fault::Full { nodes: most(deck, rng), time: time(deck, rng) };
const ROTATE: Draw = |_, _| Fault::Rotate;
/// By no more than half a lease: what was taken before a step back lasts so much longer.
const STEP: Draw = |_, rng| Fault::Step { node: 0, by: rng.i64(-500..500) };
/// Only forward: two minutes back would keep the dead for two minutes.
const STEP_ONE: Draw = |deck, rng| Fault::Step { node: pick(1, deck, rng)[0], by: 120_000 };
const STEP_ALL: Draw = |_, rng| Fault::Step { node: 0, by: rng.i64(-3_600_000..3_600_000) };
const STEP_WORKER: Draw =
    |deck, rng| Fault::StepWorker { slot: slot(deck, rng), by: rng.i64(-3_600_000..3_600_000) };

/// What the servers of a store can suffer, and whether exclusion is kept then.
fn of_servers(store: Store, back: bool) -> Vec<(Draw, bool)> {
    let kept = |draws: &[Draw]| draws.iter().map(|draw| (*draw, true)).collect::<Vec<_>>();
    let broken = |draws: &[Draw]| draws.iter().map(|draw| (*draw, false)).collect::<Vec<_>>();
    let kept_by_clients = kept(&[FLUSH, DISCONNECT, HUSH]);
    match store {
        Store::Memory | Store::Sqlite => Vec::new(),
        Store::Redis | Store::RedisPlain => {
            let kept = kept(&[STOP, RESTART, FULL, ROTATE]);
            // Fences are larger than the last one, or than the clock: if both are lost, they may go back.
            let forgets = if back { broken(&[STEP]) } else { broken(&[EMPTY_ONE, EVICT]) };
            [kept, kept_by_clients, forgets].concat()
        }
        Store::RedisSentinel => [kept_by_clients, broken(&[ASKED, KILLED, STOPPED, BLACKOUT])].concat(),
        Store::RedisCluster => {
            [kept_by_clients, kept(&[RESHARD]), broken(&[ASKED, KILLED, STOPPED, BLACKOUT])].concat()
        }
        Store::Redlock => {
            let restarts = [RESTART_FEW, RESTART_MOST, EMPTY_ONE, EMPTY_MOST];
            let others = [STOP_FEW, STOP_MOST, FULL_FEW, FULL_MOST, ROTATE];
            [kept_by_clients, kept(&restarts), kept(&others), broken(&[EVICT, STEP_ONE])].concat()
        }
        Store::Zookeeper => {
            let restarts = [RESTART_FEW, RESTART_MOST, RESTART, EMPTY_ONE];
            [kept(&restarts), kept(&[STOP_FEW, STOP_MOST, KILLED, STOPPED, STEP_ALL])].concat()
        }
    }
}

impl Deck {
    /// Draws the faults of a phase of this length.
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng, length: Duration) -> Plan {
        let workers = match self.store {
            Store::Memory => vec![PAUSE, BLOCK, STEP_WORKER],
            _ => vec![PAUSE, KILL, BLOCK, STEP_WORKER],
        };
        let connections = match self.store {
            Store::Redis | Store::RedisPlain | Store::Redlock | Store::Zookeeper => CONNECTIONS.to_vec(),
            _ => Vec::new(),
        };
        let servers = of_servers(self.store, self.back);
        let servers =
            servers.into_iter().filter(|(_, kept)| *kept || !self.strict).map(|(draw, _)| draw).collect();
        let mut lanes = [workers, connections, servers];
        for lane in &mut lanes {
            lane.retain(|draw| self.only.is_empty() || self.only.contains(&draw(self, rng).class()));
        }
        let lanes = lanes.into_iter().filter(|deck| !deck.is_empty());
        Plan { lanes: lanes.map(|deck| self.lane(deck, rng, length)).collect() }
    }

    fn lane(&self, mut deck: Vec<Draw>, rng: &mut fastrand::Rng, length: Duration) -> Vec<Planned> {
        let mut planned = Vec::new();
        let mut at = Duration::ZERO;
        loop {
            rng.shuffle(&mut deck);
            for draw in &deck {
                at += Duration::from_millis(rng.u64(100..1000));
                let fault = draw(self, rng);
                let lasts = fault.lasts();
                if at + lasts > length && !planned.is_empty() || at > length {
                    return planned;
                }
                planned.push(Planned { at, fault });
                at += lasts;
            }
        }
    }
}

impl Fault {
    /// About how long it takes until it is healed.
    fn lasts(&self) -> Duration {
        match self {
            Self::Pause { time, .. }
            | Self::Block { time, .. }
            | Self::Cut { time, .. }
            | Self::Stall { time, .. }
            | Self::Delay { time, .. }
            | Self::OneWay { time, .. }
            | Self::HalfOpen { time, .. }
            | Self::Stop { time, .. }
            | Self::Restart { time, .. }
            | Self::Evict { time, .. }
            | Self::Full { time, .. }
            | Self::Reshard { time }
            | Self::Hush { time } => *time,
            Self::FailOver { time, .. } => *time + Duration::from_secs(3),
            Self::Blackout => Duration::from_secs(3),
            Self::Kill { .. }
            | Self::CutOnce { .. }
            | Self::Flush
            | Self::Disconnect
            | Self::Rotate
            | Self::Step { .. }
            | Self::StepWorker { .. } => Duration::from_millis(200),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<&Planned> = self.lanes.iter().flatten().collect();
        all.sort_by_key(|planned| planned.at);
        for (n, Planned { at, fault }) in all.into_iter().enumerate() {
            write!(f, "{}{:.1} s: {fault}", if n == 0 { "" } else { "; " }, at.as_secs_f64())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn deck(store: Store) -> Deck {
        let nodes = if matches!(store, Store::Redlock | Store::Zookeeper) { 3 } else { 1 };
        Deck { store, nodes, slots: 3, back: true, strict: false, only: Vec::new() }
    }

    #[test]
    fn a_seed_is_a_plan() {
        for store in Store::ALL {
            let draw = |seed| deck(store).draw(&mut fastrand::Rng::with_seed(seed), Duration::from_secs(20));
            assert_eq!(draw(7), draw(7), "{store}");
            assert_ne!(draw(7), draw(8), "{store}");
        }
    }

    #[test]
    fn every_fault_of_a_plan_is_promised_something() {
        for store in Store::ALL {
            let plan = deck(store).draw(&mut fastrand::Rng::with_seed(1), Duration::from_secs(300));
            let classes: BTreeSet<_> =
                plan.lanes.iter().flatten().map(|planned| planned.fault.class()).collect();
            assert!(!classes.is_empty());
            for class in classes {
                assert!(checker::Cell::of(store, class).is_some(), "{store}: {class}");
            }
        }
    }

    #[test]
    fn faults_of_one_lane_follow_each_other() {
        let plan = deck(Store::Redis).draw(&mut fastrand::Rng::with_seed(3), Duration::from_secs(60));
        assert_eq!(plan.lanes.len(), 3);
        for lane in plan.lanes {
            assert!(lane.windows(2).all(|pair| pair[0].at + pair[0].fault.lasts() < pair[1].at));
        }
    }
}
