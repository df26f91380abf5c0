//! The events of a history joined into what they are about: entries, processes, faults.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::event::{Access, Acquire, Answer, Call, Event, Inspected, Kind, Wait, What};
use crate::fault::{Class, Fault, Phase, Target};
use crate::history::History;
use crate::spans::Spans;

/// A call of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId {
    /// The process.
    pub process: u32,
    /// The number of the call within it.
    pub op: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.process, self.op)
    }
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Busy,
    TimedOut,
    /// Certainly not executed, or refused.
    Failed,
    /// It may or may not have been executed.
    Unknown,
    /// It never returned.
    Pending,
}

/// How an entry that was granted ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not before its process.
    Open,
    Released {
        called: u64,
        answered: u64,
    },
    /// A release was called and not confirmed.
    Leaving {
        called: u64,
    },
    Lost {
        seen: u64,
    },
    Dropped {
        at: u64,
    },
    /// Released by its id, from anywhere.
    Freed {
        answered: u64,
    },
    /// Held until `until` by the clock of the client.
    Detached {
        at: u64,
        until: u64,
    },
}

/// One acquire, and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: OpId,
    pub(crate) worker: u32,
    pub(crate) name: usize,
    pub(crate) kind: Kind,
    pub(crate) owner: usize,
    /// Whether the owner was named, and may have other entries.
    pub(crate) owner_is_named: bool,
    pub(crate) wait: Wait,
    pub(crate) lease: Option<u64>,
    pub(crate) least: Option<u64>,
    pub(crate) called: u64,
    pub(crate) answered: Option<u64>,
    pub(crate) queued: Option<u64>,
    pub(crate) outcome: Outcome,
    pub(crate) fence: Option<u64>,
    pub(crate) hold: Option<&'a str>,
    /// The last moment for which the guard said that it was held.
    pub(crate) held: Option<u64>,
    /// The first moment at which the guard had said that it was not.
    pub(crate) not_held: Option<u64>,
    pub(crate) ending: Ending,
}

impl Entry<'_> {
    /// From when to when the guard certainly said that it was held, or would have.
    pub(crate) fn certain(&self) -> Option<(u64, u64)> {
        let from = self.answered.filter(|_| self.outcome == Outcome::Granted)?;
        let released = match self.ending {
            Ending::Released { called, .. } => Some(called),
            Ending::Detached { until, .. } => Some(until),
            _ => None,
        };
        let to = self.held.max(released)?;
        (from <= to).then_some((from, to))
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.outcome == Outcome::Granted
    }
}

/// A process of clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process<'a> {
    pub(crate) clients: Vec<&'a str>,
    pub(crate) exiting: Option<u64>,
    pub(crate) killed: Option<u64>,
    /// When it may have stood still.
    pub(crate) paused: Spans,
}

impl Process<'_> {
    /// From when on nothing of it runs.
    pub(crate) fn end(&self) -> Option<u64> {
        [self.exiting, self.killed].into_iter().flatten().min()
    }
}

/// A call that is no acquire.
#[derive(Clone, Debug)]
pub(crate) struct Other<'a> {
    pub(crate) id: OpId,
    pub(crate) call: &'a Call,
    pub(crate) called: u64,
    pub(crate) answer: Option<(u64, &'a Answer)>,
}

/// An event with its time.
pub(crate) type At<'a, T> = (u64, u32, &'a T);

#[derive(Debug, Default)]
pub(crate) struct Joined<'a> {
    pub(crate) names: Vec<&'a str>,
    pub(crate) entries: Vec<Entry<'a>>,
    /// The entries of each name, by the time of their calls.
    pub(crate) of_name: Vec<Vec<usize>>,
    pub(crate) others: Vec<Other<'a>>,
    /// Those that are about a name.
    pub(crate) others_of: BTreeMap<&'a str, Vec<usize>>,
    pub(crate) processes: HashMap<u32, Process<'a>>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) accesses: Vec<At<'a, Access>>,
    pub(crate) observed: Vec<(u64, u32, u32, &'a str, u64)>,
    pub(crate) inspected: Vec<At<'a, Inspected>>,
    pub(crate) panics: Vec<At<'a, String>>,
    pub(crate) by_id: HashMap<OpId, usize>,
    /// Where the log contradicts itself.
    pub(crate) contradictions: Vec<(u64, OpId, &'static str)>,
    pub(crate) end: u64,
    interned: HashMap<&'a str, usize>,
    owners: HashMap<(u32, &'a str), usize>,
    pending: HashMap<OpId, usize>,
}

impl<'a> Joined<'a> {
    pub(crate) fn new(history: &'a History) -> Self {
        let mut joined = Self { end: history.events().last().map_or(0, |last| last.at), ..Self::default() };
        for event in history.events() {
            joined.add(event);
        }
        joined.find_ends_by_id();
        joined.find_pauses();
        joined
    }

    fn add(&mut self, event: &'a Event) {
        let Event { at, process, what } = event;
        let (at, process) = (*at, *process);
        match what {
            What::Run(_) => {}
            What::Started { clients } => {
                let known = self.processes.entry(process).or_default();
                known.clients.extend(clients.iter().map(String::as_str));
            }
            What::Exiting => self.processes.entry(process).or_default().exiting = Some(at),
            What::Killed => self.processes.entry(process).or_default().killed = Some(at),
            What::Call { op, worker, call } => self.call(at, OpId { process, op: *op }, *worker, call),
            What::Answer { op, answer } => self.answer(at, OpId { process, op: *op }, answer),
            What::Held { of } => {
                self.granted(at, process, *of, |entry| entry.held = entry.held.max(Some(at)));
            }
            What::NotHeld { of, .. } => self.granted(at, process, *of, |entry| {
                entry.not_held.get_or_insert(at);
                if entry.ending == Ending::Open {
                    entry.ending = Ending::Lost { seen: at };
                }
            }),
            What::Dropped { of } => self.granted(at, process, *of, |entry| {
                if entry.ending == Ending::Open {
                    entry.ending = Ending::Dropped { at };
                }
            }),
            What::Detached { of, remaining } => self.granted(at, process, *of, |entry| {
                if entry.ending == Ending::Open && *remaining > 0 {
                    entry.ending = Ending::Detached { at, until: at + remaining };
                }
            }),
            What::Queued { of } => {
                let id = OpId { process, op: *of };
                match self.by_id.get(&id) {
                    Some(entry) => self.entries[*entry].queued = Some(at),
                    None => self.contradictions.push((at, id, "a waiter that never called")),
                }
            }
            What::Access(access) => self.accesses.push((at, process, access)),
            What::Observed { observer, name, term } => {
                self.observed.push((at, process, *observer, name, *term));
            }
            What::Fault { id, class, target, phase } => self.fault(at, *id, *class, *target, *phase),
            What::Panicked { message } => self.panics.push((at, process, message)),
            What::Inspected(inspected) => self.inspected.push((at, process, inspected)),
        }
    }

    /// The number of a name that was acquired.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        self.interned.get(name).copied()
    }

    /// The other calls on a name, in the order of their calls.
    pub(crate) fn others_on(&self, name: &str) -> impl Iterator<Item = &Other<'a>> {
        self.others_of.get(name).into_iter().flatten().map(|at| &self.others[*at])
    }

    fn name(&mut self, name: &'a str) -> usize {
        *self.interned.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.of_name.push(Vec::new());
            self.names.len() - 1
        })
    }

    fn call(&mut self, called: u64, id: OpId, worker: u32, call: &'a Call) {
        if self.pending.contains_key(&id) || self.by_id.contains_key(&id) {
            self.contradictions.push((called, id, "a call with the number of another one"));
        }
        let Call::Acquire(Acquire { name, kind, owner, wait, lease, least }) = call else {
            self.pending.insert(id, self.others.len());
            if let Some(name) = call.name() {
                self.others_of.entry(name).or_default().push(self.others.len());
            }
            self.others.push(Other { id, call, called, answer: None });
            return;
        };
        let at = self.entries.len();
        let name = self.name(name);
        self.of_name[name].push(at);
        self.by_id.insert(id, at);
        // Numbers of unnamed owners follow those of named ones: they never meet.
        let named = owner.as_deref().map(|owner| {
            let next = self.owners.len();
            *self.owners.entry((id.process, owner)).or_insert(next)
        });
        self.entries.push(Entry {
            id,
            worker,
            name,
            kind: *kind,
            owner: named.unwrap_or(usize::MAX - at),
            owner_is_named: named.is_some(),
            wait: *wait,
            lease: *lease,
            least: *least,
            called,
            answered: None,
            queued: None,
            outcome: Outcome::Pending,
            fence: None,
            hold: None,
            held: None,
            not_held: None,
            ending: Ending::Open,
        });
    }

    fn answer(&mut self, at: u64, id: OpId, answer: &'a Answer) {
        if let Some(entry) = self.by_id.get(&id) {
            let entry = &mut self.entries[*entry];
            if entry.answered.is_some() {
                self.contradictions.push((at, id, "a second answer"));
                return;
            }
            entry.answered = Some(at);
            entry.outcome = match answer {
                Answer::Granted(granted) => {
                    entry.fence = granted.fence;
                    entry.hold = granted.hold.as_deref();
                    // Asked for after `at` was read: held then, so held at `at`.
                    entry.held = granted.remaining.filter(|left| *left > 0).map(|_| at);
                    Outcome::Granted
                }
                Answer::Busy => Outcome::Busy,
                Answer::TimedOut => Outcome::TimedOut,
                Answer::Unavailable { .. } | Answer::Refused { .. } => Outcome::Failed,
                Answer::Unknown { .. } => Outcome::Unknown,
                _ => {
                    self.contradictions.push((at, id, "an acquire with the answer of another call"));
                    Outcome::Unknown
                }
            };
            return;
        }
        let Some(other) = self.pending.get(&id).copied() else {
            self.contradictions.push((at, id, "an answer without a call"));
            return;
        };
        let other = &mut self.others[other];
        other.answer = Some((at, answer));
        let called = other.called;
        if let Call::Release { of } = other.call {
            self.granted(at, id.process, *of, |entry| {
                entry.ending = match answer {
                    Answer::Released => Ending::Released { called, answered: at },
                    Answer::Lost { .. } => {
                        let seen = *entry.not_held.get_or_insert(at);
                        Ending::Lost { seen }
                    }
                    _ => Ending::Leaving { called },
                };
            });
        }
    }

    fn granted(&mut self, at: u64, process: u32, op: u64, change: impl FnOnce(&mut Entry<'a>)) {
        let id = OpId { process, op };
        match self.by_id.get(&id).map(|entry| &mut self.entries[*entry]) {
            Some(entry) if entry.is_granted() => change(entry),
            _ => self.contradictions.push((at, id, "a guard that was never granted")),
        }
    }

    fn fault(&mut self, at: u64, id: u32, class: Class, target: Target, phase: Phase) {
        // The last ones are the most likely.
        let known = self.faults.iter().rposition(|fault| fault.id == id);
        let place = known.unwrap_or_else(|| {
            self.faults.push(Fault { id, class, target, possible: (at, u64::MAX), certain: None });
            self.faults.len() - 1
        });
        let fault = &mut self.faults[place];
        match phase {
            Phase::Begin => fault.possible.0 = at,
            Phase::InEffect => fault.certain = Some((at, u64::MAX)),
            Phase::Healing => fault.certain = fault.certain.map(|(from, _)| (from, at)),
            Phase::Healed => {
                fault.possible.1 = at;
                fault.certain = fault.certain.map(|(from, to)| (from, to.min(at)));
            }
        }
    }

    /// The entry that was granted last of each hold: one that is passed on has one after the other, with growing fences.
    pub(crate) fn last_of_each_hold(&self) -> HashMap<&'a str, usize> {
        let mut holds = HashMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let Some(hold) = entry.hold else { continue };
            let last = holds.entry(hold).or_insert(at);
            let order = |entry: &Entry<'_>| (entry.answered, entry.fence);
            if order(&self.entries[*last]) <= order(entry) {
                *last = at;
            }
        }
        holds
    }

    /// Whether its hold was granted to another task of its client before, and passed on.
    pub(crate) fn was_passed_on(&self, entry: &Entry<'a>) -> bool {
        let before = |other: &Entry<'a>| other.hold == entry.hold && other.fence < entry.fence;
        entry.hold.is_some() && self.entries.iter().any(before)
    }

    /// A release that was called and never answered, and holds that were released by their ids.
    fn find_ends_by_id(&mut self) {
        let holds = self.last_of_each_hold();
        for other in &self.others {
            let (called, answer) = (other.called, other.answer);
            match other.call {
                Call::Release { of } if answer.is_none() => {
                    let id = OpId { process: other.id.process, op: *of };
                    if let Some(entry) = self.by_id.get(&id).map(|at| &mut self.entries[*at])
                        && entry.ending == Ending::Open
                    {
                        entry.ending = Ending::Leaving { called };
                    }
                }
                // Nothing is certain once it is called, and nothing is left once it has answered.
                Call::ReleaseBy { hold } => {
                    let Some(entry) = holds.get(hold.as_str()).map(|at| &mut self.entries[*at]) else {
                        continue;
                    };
                    if let Ending::Detached { until, .. } = entry.ending {
                        entry.held = entry.held.max(Some(until));
                    }
                    entry.held = entry.held.map(|held| held.min(called));
                    entry.ending = match (answer, entry.ending) {
                        (_, Ending::Released { .. }) => entry.ending,
                        (Some((answered, Answer::Done { value: Some(1) })), _) => Ending::Freed { answered },
                        (_, Ending::Detached { at, until }) => {
                            Ending::Detached { at, until: until.min(called).max(at) }
                        }
                        (_, other) => other,
                    };
                }
                _ => {}
            }
        }
        // A hold that was detached may end with its client.
        for entry in &mut self.entries {
            if let Ending::Detached { at, until } = entry.ending
                && let Some(exiting) = self.processes.get(&entry.id.process).and_then(|p| p.exiting)
            {
                entry.ending = Ending::Detached { at, until: until.min(exiting.max(at)) };
            }
        }
    }

    fn find_pauses(&mut self) {
        let mut pauses: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for fault in &self.faults {
            if let (Class::ClientPaused | Class::RuntimeBlocked, Target::Process(process)) =
                (fault.class, fault.target)
            {
                pauses.entry(process).or_default().push(fault.possible);
            }
        }
        for (process, spans) in pauses {
            self.processes.entry(process).or_default().paused = Spans::union(spans);
        }
    }
}
