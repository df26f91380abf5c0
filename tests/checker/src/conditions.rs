//! Under which conditions each moment of a history is judged: what was promised then, given the faults that were active.

use std::collections::{BTreeMap, HashMap};

use crate::event::Call;
use crate::expect::Expectations;
use crate::fault::Target;
use crate::joined::{Ending, Entry, Joined, Outcome};
use crate::promise::{Liveness, Safety};
use crate::spans::Spans;

#[derive(Debug)]
pub(crate) struct Conditions {
    /// The times in which any fault may be active.
    pub(crate) faulty: Spans,
    /// The times in which a second holder may get in.
    can_break: Spans,
    /// The same for a name that was taken by force.
    forced: HashMap<String, Spans>,
    /// When fences may have begun anew.
    fences_lost: Vec<(u64, u64)>,
    /// Whether exclusion is promised all the time.
    pub(crate) is_strict: bool,
    /// The times in which nothing can be granted, to anybody and to the clients of a process.
    pub(crate) unavailable: Out,
    /// Those in which nothing can be answered at all.
    pub(crate) silent: Out,
    /// How long a free name may stand, and when: after a fault until its traces are gone.
    bounds: BTreeMap<u64, Spans>,
    calm_bound: u64,
    sessions: bool,
    lease: u64,
    slack: u64,
}

/// Times in which the store does not work, for all and for single processes.
#[derive(Debug, Default)]
pub(crate) struct Out {
    all: Spans,
    of: HashMap<u32, Spans>,
}

impl Out {
    /// Whether all of this time is among them, for this process.
    pub(crate) fn covers(&self, process: u32, from: u64, to: u64) -> bool {
        self.all.covers(from, to) || self.of.get(&process).is_some_and(|own| own.covers(from, to))
    }
}

impl Conditions {
    pub(crate) fn new(joined: &Joined<'_>, expected: &Expectations) -> Self {
        let timing = &expected.timing;
        let longest = joined.entries.iter().filter_map(|e| e.lease).max().unwrap_or(0).max(timing.lease);
        // A hold that the store forgot is believed in until its renewal, so for a lease.
        let after = |(from, to): (u64, u64)| (from, to.saturating_add(longest).saturating_add(timing.slack));
        let mut bounds: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let (mut broken, mut unfenced) = (Vec::new(), Vec::new());
        for fault in &joined.faults {
            let cell = expected.cell(fault.class);
            let bound = cell.liveness.bound(timing);
            let (from, to) = after(fault.possible);
            bounds.entry(bound).or_default().push((from, to.saturating_add(bound)));
            if cell.safety != Safety::Exclusion {
                broken.push(after(fault.possible));
            }
            if cell.safety == Safety::Nothing {
                unfenced.push(fault.possible);
            }
        }
        for class in crate::Class::ALL {
            let cell = expected.cell(class);
            if cell.safety_of_most == cell.safety {
                continue;
            }
            let hit = joined.faults.iter().filter(|fault| fault.class == class);
            let spans: Vec<_> =
                hit.flat_map(|fault| on_nodes(fault.target, expected.nodes, after(fault.possible))).collect();
            for span in Spans::of_at_least(expected.majority() as usize, &spans).iter() {
                broken.push(span);
                if cell.safety_of_most == Safety::Nothing {
                    unfenced.push(span);
                }
            }
        }
        let forced = forced(joined, longest.saturating_add(timing.slack));
        Self {
            faulty: Spans::union(joined.faults.iter().map(|fault| fault.possible).collect()),
            is_strict: broken.is_empty() && forced.is_empty(),
            can_break: Spans::union(broken),
            forced,
            fences_lost: unfenced,
            unavailable: out(joined, expected, false),
            silent: out(joined, expected, true),
            bounds: bounds.into_iter().map(|(bound, spans)| (bound, Spans::union(spans))).collect(),
            calm_bound: Liveness::CALM.bound(timing),
            sessions: expected.store.has_sessions(),
            lease: timing.lease,
            slack: timing.slack,
        }
    }

    /// Whether exclusion is not promised for a hold of `name` that begins then.
    pub(crate) fn excuses(&self, name: &str, at: u64) -> bool {
        self.can_break.touches(at, at) || self.forced.get(name).is_some_and(|spans| spans.touches(at, at))
    }

    /// Whether fences may have begun anew between these times.
    pub(crate) fn may_lose_fences(&self, from: u64, to: u64) -> bool {
        self.fences_lost.iter().any(|(begin, end)| *begin <= to && from <= *end)
    }

    /// The longest time for which a name may stand that is free from `from` on.
    pub(crate) fn bound(&self, from: u64) -> u64 {
        let after_faults = self.bounds.iter().rev().find(|(_, spans)| spans.touches(from, from));
        after_faults.map_or(self.calm_bound, |(bound, _)| self.calm_bound.max(*bound)) + self.slack
    }

    fn is_calm(&self, from: u64, to: u64) -> bool {
        !self.faulty.touches(from, to)
    }

    /// From when to when the store may have to keep others out because of this entry. What is not confirmed ends with
    /// its lease; what waits and runs is not inside.
    pub(crate) fn occupied(&self, joined: &Joined<'_>, entry: &Entry<'_>) -> Option<(u64, u64)> {
        let process = joined.processes.get(&entry.id.process);
        let gone = process.and_then(|process| process.end());
        let lease = match entry.lease {
            Some(own) if !entry.owner_is_named && !self.sessions => own,
            own => own.unwrap_or(0).max(self.lease),
        };
        let from = match (entry.outcome, entry.answered) {
            (Outcome::Pending, _) | (_, None) => return gone.map(|gone| (gone, gone + lease)),
            (Outcome::Granted, Some(answered)) => answered,
            (Outcome::Unknown, Some(answered)) => return Some((answered, answered + lease)),
            // Not executed, says the answer. Under a fault what was sent before may still arrive, and is undone then.
            (_, Some(answered)) if self.is_calm(entry.called, answered) => return None,
            (_, Some(answered)) => return Some((answered, answered + lease)),
        };
        // The release of a guard that is dropped may be cut off by a fault, or by the end of its process.
        let is_cut_off =
            |at: u64| !self.is_calm(at, at + self.slack) || gone.is_some_and(|gone| gone <= at + self.slack);
        let to = match entry.ending {
            Ending::Released { answered, .. } | Ending::Freed { answered } => answered,
            Ending::Leaving { called } => called + lease,
            Ending::Lost { seen } => seen + lease,
            Ending::Dropped { at } if is_cut_off(at) => at + lease,
            Ending::Dropped { at } => at,
            Ending::Detached { at, until } => until.max(at + lease),
            Ending::Open => {
                let by_lease = entry.lease.filter(|_| !entry.owner_is_named).map(|lease| from + lease);
                match (gone, by_lease) {
                    (Some(gone), Some(end)) if !self.sessions => end.min(gone + lease),
                    (Some(gone), _) => gone + lease,
                    (None, Some(end)) => end + if self.sessions { self.slack } else { 0 },
                    (None, None) => u64::MAX,
                }
            }
        };
        // "At least a minimum, at most a lease longer."
        let least = entry.least.map_or(0, |least| from + least + lease);
        Some((from, to.max(least)))
    }
}

/// A span for each node that `target` stands for.
fn on_nodes(target: Target, nodes: u32, span: (u64, u64)) -> Vec<(u32, (u64, u64))> {
    match target {
        Target::Store => (0..nodes).map(|node| (node, span)).collect(),
        Target::Node(node) => vec![(node, span)],
        Target::Process(_) => Vec::new(),
    }
}

/// The times in which a name may have two holders because it was taken from the first by force.
fn forced(joined: &Joined<'_>, after: u64) -> HashMap<String, Spans> {
    let mut found: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    for other in &joined.others {
        if let Call::Force { name } = other.call {
            let end = other.answer.map_or(u64::MAX, |(at, _)| at.saturating_add(after));
            found.entry(name.clone()).or_default().push((other.called, end));
        }
    }
    found.into_iter().map(|(name, spans)| (name, Spans::union(spans))).collect()
}

/// The times in which the store certainly cannot grant, or not even answer.
fn out(joined: &Joined<'_>, expected: &Expectations, silent: bool) -> Out {
    // So many nodes away leave no majority. In an ensemble whoever is left answers reads until it has noticed, so a name
    // that was held is truly busy.
    let enough = match silent && expected.store.has_sessions() {
        true => expected.nodes as usize,
        false => (expected.nodes - expected.majority() + 1) as usize,
    };
    let (mut of_nodes, mut of_all) = (Vec::new(), Vec::new());
    let mut of: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for fault in &joined.faults {
        let cell = expected.cell(fault.class);
        let (Some(certain), true) = (fault.certain, !silent || fault.class.is_silence()) else { continue };
        match fault.target {
            _ if !cell.unavailable_of_most => {}
            Target::Process(process) => of.entry(process).or_default().push(certain),
            _ if cell.unavailable => of_all.push(certain),
            target => of_nodes.extend(on_nodes(target, expected.nodes, certain)),
        }
    }
    of_all.extend(Spans::of_at_least(enough, &of_nodes).iter());
    let of = of.into_iter().map(|(process, spans)| (process, Spans::union(spans))).collect();
    Out { all: Spans::union(of_all), of }
}
