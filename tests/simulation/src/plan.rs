//! What a seed decides before anything runs: who there is, what they do, and what goes wrong when.

use std::fmt;

use checker::{Class, Target};
use fastrand::Rng;

/// What a name is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Lock,
    Fair,
    Rwlock,
    Permits,
    Leader,
    Latch,
}

impl Use {
    const ALL: [Self; 6] = [Self::Lock, Self::Fair, Self::Rwlock, Self::Permits, Self::Leader, Self::Latch];

    /// The name that is used so.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Fair => "fair",
            Self::Rwlock => "rwlock",
            Self::Permits => "permits",
            Self::Leader => "leader",
            Self::Latch => "latch",
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A client process stands still.
    Pause(usize),
    /// A client process is killed, and another one takes its place.
    Kill(usize),
    /// The connections of a client process are gone.
    Cut(usize),
    /// The watches of a client process, or of all, are forgotten by the servers.
    Unwatch,
    /// A server stands still.
    Stop(usize),
    /// Nobody reaches a server.
    Part(usize),
    /// A server is not there for a while.
    Restart(usize),
    /// The same, and it loses its memory.
    Forget(usize),
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) at: u64,
    pub(crate) to: u64,
    pub(crate) wrong: Wrong,
}

/// What there is, and what happens to it. Times are milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    pub(crate) tasks: u32,
    pub(crate) uses: Vec<Use>,
    /// How often messages are late, lost or repeated: in this many of a thousand.
    pub(crate) noise: u32,
    /// The rates of the clocks, of the servers and of the clients.
    pub(crate) rates: Vec<f64>,
    /// For how many milliseconds a client passes a lock on; 0 for not at all.
    pub(crate) handover: u64,
    /// How long tasks begin something new.
    pub(crate) active: u64,
    pub(crate) faults: Vec<Planned>,
}

/// The largest deviation of a clock: of the 1 % between two clocks each has half.
const DEVIATION: f64 = 0.0045;

impl Plan {
    /// Draws it.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let nodes = [1, 1, 1, 1, 1, 1, 1, 1, 3, 5][rng.usize(..10)];
        let clients = rng.usize(2..4);
        let mut uses: Vec<Use> =
            (0..rng.usize(1..3)).map(|_| Use::ALL[rng.usize(..Use::ALL.len())]).collect();
        if nodes > 1 {
            uses = vec![Use::Lock];
        }
        uses.dedup();
        let active = rng.u64(800..2500);
        let is_calm = rng.u32(..4) == 0;
        let mut faults: Vec<Planned> = Vec::new();
        for _ in 0..if is_calm { 0 } else { rng.usize(..nodes + 3) } {
            let one = draw(rng, nodes, clients, active);
            // One at a time of the same server or process.
            if !faults.iter().any(|other| other.wrong.victim() == one.wrong.victim() && other.overlaps(&one))
            {
                faults.push(one);
            }
        }
        Self {
            nodes,
            clients,
            tasks: rng.u32(1..4),
            uses,
            noise: if is_calm { 0 } else { [0, 20, 60, 120][rng.usize(..4)] },
            rates: (0..nodes + clients).map(|_| 1.0 + DEVIATION * (rng.f64() * 2.0 - 1.0)).collect(),
            active,
            faults,
            handover: [0, 20, 200, 200][rng.usize(..4)],
        }
    }

    /// Whether nothing goes wrong.
    pub(crate) fn is_calm(&self) -> bool {
        self.noise == 0 && self.faults.is_empty()
    }

    /// The poll cap of the clients. Where no signal is lost it is so long that whoever is served was woken.
    pub(crate) fn poll(&self) -> u64 {
        if self.is_calm() { 30_000 } else { 300 }
    }

    /// Whether all that is stored may be lost.
    pub(crate) fn forgets(&self) -> bool {
        self.nodes == 1 && self.faults.iter().any(|planned| matches!(planned.wrong, Wrong::Forget(_)))
    }
}

fn draw(rng: &mut Rng, nodes: usize, clients: usize, active: u64) -> Planned {
    let at = rng.u64(50..active);
    let of_servers = if nodes > 1 { rng.u32(..2) * 6 } else { 0 };
    let wrong = match rng.u32(of_servers..11) {
        0..=2 => Wrong::Pause(rng.usize(..clients)),
        3 => Wrong::Kill(rng.usize(..clients)),
        4 => Wrong::Cut(rng.usize(..clients)),
        5 => Wrong::Unwatch,
        6 => Wrong::Stop(rng.usize(..nodes)),
        7 => Wrong::Part(rng.usize(..nodes)),
        8 | 9 => Wrong::Restart(rng.usize(..nodes)),
        _ => Wrong::Forget(rng.usize(..nodes)),
    };
    let longest = if matches!(wrong, Wrong::Pause(_)) { 1600 } else { 600 };
    Planned { at, to: at + rng.u64(5..longest), wrong }
}

impl Planned {
    fn overlaps(&self, other: &Self) -> bool {
        self.at <= other.to && other.at <= self.to
    }
}

impl Wrong {
    /// What it hits: a server or a process, and its number.
    fn victim(self) -> (bool, usize) {
        match self {
            Self::Pause(slot) | Self::Kill(slot) | Self::Cut(slot) => (false, slot),
            Self::Stop(node) | Self::Part(node) | Self::Restart(node) | Self::Forget(node) => (true, node),
            Self::Unwatch => (true, usize::MAX),
        }
    }

    /// The class of the fault, and what it hits. `processes` are the numbers of the clients.
    pub(crate) fn class(self, processes: &[u32]) -> (Class, Target) {
        let node = |node: usize| Target::Node(node as u32);
        match self {
            Self::Pause(client) => (Class::ClientPaused, Target::Process(processes[client])),
            Self::Kill(client) => (Class::ClientKilled, Target::Process(processes[client])),
            Self::Cut(client) => (Class::ConnectionCut, Target::Process(processes[client])),
            Self::Unwatch => (Class::HalfOpen, Target::Store),
            Self::Stop(at) => (Class::ServerPaused, node(at)),
            Self::Part(at) => (Class::ConnectionCut, node(at)),
            Self::Restart(at) => (Class::RestartWithData, node(at)),
            Self::Forget(at) => (Class::RestartEmpty, node(at)),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, clients, tasks, noise, .. } = self;
        let names: Vec<&str> = self.uses.iter().map(|of| of.name()).collect();
        write!(
            f,
            "{nodes} servers, {clients} clients of {tasks} tasks, {}, noise {noise}, passed on for {} ms",
            names.join(", "),
            self.handover
        )?;
        for Planned { at, to, wrong } in &self.faults {
            write!(f, "; {wrong:?} {at}-{to} ms")?;
        }
        Ok(())
    }
}
