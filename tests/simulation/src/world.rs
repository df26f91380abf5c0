//! The world: servers, client processes, and the network between them. Whatever happens next is the earliest event in one
//! queue; what happens at the same time has an order of its own. A process is run by itself until it sends something, or
//! until what is earliest in the queue is due, and never far ahead of the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use checker::{Event, Inspected, Phase, Target, Timing, What};
use fastrand::Rng;
use tenure_core::{HoldId, Name};

use crate::connection::{Failure, Sent};
use crate::journal::Journal;
use crate::message::{Reply, Request};
use crate::plan::{Plan, Wrong};
use crate::process::{LEASE, Process};
use crate::server::{Plant, Server};
use tenure_core::backend::Signal;

/// How far a process runs ahead while nothing is due.
const AHEAD: u64 = 60;
/// How long after the last task began something all of them must have ended.
const PATIENCE: u64 = 60_000;
/// How long what is left in the store may take to end: the queue positions of the dead are the longest.
const SETTLES: u64 = 1500;
/// What calls without an answer, backoffs and messages under way may add to a bound.
const SLACK: u64 = 1200;
/// The same where every message arrives.
const CALM_SLACK: u64 = 300;

pub(crate) const fn nanos(ms: u64) -> u64 {
    ms * 1_000_000
}

/// The times that promises are counted in.
pub(crate) fn timing(plan: &Plan) -> Timing {
    // Where nothing goes wrong nobody waits for the poll cap.
    let (poll, slack) = if plan.is_calm() { (0, CALM_SLACK) } else { (plan.poll(), SLACK) };
    let lease = LEASE.as_nanos() as u64;
    Timing { lease, poll: nanos(poll), restart_delay: nanos(RESTART_DELAY), slack: nanos(slack) }
}

/// How long a node of a quorum does not vote after it lost its memory.
const RESTART_DELAY: u64 = 1500;

/// Something that happens.
enum Happens {
    Arrives { from: u32, node: usize, call: u64, request: Request, answered: bool, epoch: (u64, u64) },
    Unwatched { from: u32, node: usize, call: u64 },
    Answered { to: u32, call: u64, answer: Result<Reply, Failure>, epoch: u64 },
    Signalled { to: u32, call: u64, signal: Signal },
    Begins(usize),
    Ends(usize),
}

/// A server, and the way to it.
struct Place {
    server: Server,
    /// Until when it stands still.
    stopped: u64,
    is_down: bool,
    /// How often it was restarted.
    epoch: u64,
}

/// A message from a process to a server may have been repeated until then: its release comes later.
type Lanes = BTreeMap<(u32, usize, HoldId), u64>;

pub(crate) struct World {
    plan: Plan,
    rng: Rng,
    now: u64,
    queue: BTreeMap<(u64, u64), Happens>,
    events: u64,
    places: Vec<Place>,
    processes: Vec<Process>,
    /// How often the connections of a process were cut, and whether they are.
    cuts: BTreeMap<u32, (u64, bool)>,
    lanes: Lanes,
    started: u32,
    /// What each fault hits.
    targets: Vec<Option<Target>>,
    noise: bool,
    journal: Arc<Journal>,
}

/// The fault that stands for the noise of the network.
const NOISE: u32 = 1000;

impl World {
    pub(crate) fn new(plan: &Plan, rng: Rng, plant: Option<Plant>) -> Self {
        let delay = if plan.nodes > 1 { RESTART_DELAY } else { 0 };
        let place = |node: usize| Place {
            server: Server::new(plan.rates[node], delay, plant),
            stopped: 0,
            is_down: false,
            epoch: 0,
        };
        let mut world = Self {
            places: (0..plan.nodes).map(place).collect(),
            rng,
            now: 0,
            queue: BTreeMap::new(),
            events: 0,
            processes: Vec::new(),
            cuts: BTreeMap::new(),
            lanes: BTreeMap::new(),
            started: 0,
            targets: vec![None; plan.faults.len()],
            noise: plan.noise > 0,
            journal: Arc::default(),
            plan: plan.clone(),
        };
        for slot in 0..plan.clients {
            let process = world.start(slot, 0);
            world.processes.push(process);
        }
        for (at, planned) in plan.faults.iter().enumerate() {
            world.put(planned.at, Happens::Begins(at));
            world.put(planned.to, Happens::Ends(at));
        }
        world
    }

    fn start(&mut self, slot: usize, at: u64) -> Process {
        self.started += 1;
        Process::start(&self.plan, slot, self.started, at, &mut self.rng, &self.journal)
    }

    fn put(&mut self, at: u64, what: Happens) {
        self.events += 1;
        self.queue.insert((at, self.events), what);
    }

    /// Lets all happen. Returns the history, and what did not end.
    pub(crate) fn run(mut self) -> (Vec<Event>, Vec<String>) {
        let mut wrong = Vec::new();
        if self.noise {
            self.write_noise(0, [Phase::Begin, Phase::InEffect]);
        }
        let last = self.plan.faults.iter().map(|planned| planned.to).max().unwrap_or(0);
        let calm = last.max(self.plan.active);
        let is_over = |world: &Self| world.now >= calm && world.processes.iter().all(Process::is_idle);
        self.run_until(calm, |_| false);
        if self.noise {
            self.noise = false;
            self.write_noise(calm, [Phase::Healing, Phase::Healed]);
        }
        if !self.run_until(calm + PATIENCE, is_over) {
            let stuck =
                self.processes.iter().filter(|process| !process.is_idle()).map(|process| process.number);
            wrong.push(format!("processes {:?} still wait", stuck.collect::<Vec<_>>()));
        }
        self.processes.iter_mut().for_each(Process::close);
        if !self.run_until(self.now + PATIENCE, |world| world.processes.iter().all(Process::is_closed)) {
            wrong.push("a client is not closed".into());
        }
        // Of those who are closed nothing goes on.
        self.processes.clear();
        let end = self.now + SETTLES + SLACK + LEASE.as_millis() as u64;
        self.run_until(end, |_| false);
        self.inspect(end);
        (self.journal.take(), wrong)
    }

    fn write_noise(&self, at: u64, phases: [Phase; 2]) {
        for phase in phases {
            let (class, target) = (checker::Class::ConnectionDelayed, Target::Store);
            self.journal.write(nanos(at), 0, What::Fault { id: NOISE, class, target, phase });
        }
    }

    /// Goes on until this time, or until `done`; returns whether it is.
    fn run_until(&mut self, end: u64, done: impl Fn(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            let head = self.queue.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let running = self.processes.iter().filter(|process| process.paused.is_none());
            let least = running.map(|process| process.clock).min().unwrap_or(u64::MAX);
            if head.min(least) >= end {
                self.now = self.now.max(end);
                return done(self);
            }
            if head <= least {
                if let Some(((at, _), what)) = self.queue.pop_first() {
                    self.now = self.now.max(at);
                    self.happen(what);
                }
                continue;
            }
            self.now = self.now.max(least);
            let first: Vec<usize> = (0..self.processes.len())
                .filter(|at| self.processes[*at].paused.is_none() && self.processes[*at].clock == least)
                .collect();
            let which = first[self.rng.usize(..first.len())];
            let until = head.min(least + self.rng.u64(1..=AHEAD)).min(end);
            self.processes[which].run(until);
            self.send(which);
        }
    }

    fn chance(&mut self, of: u32, n: u32) -> bool {
        self.noise && self.rng.u32(..1000) < self.plan.noise * n / of
    }

    fn delay(&mut self) -> u64 {
        if self.chance(8, 1) {
            return self.rng.u64(1..400);
        }
        if self.chance(1, 2) { self.rng.u64(1..40) } else { self.rng.u64(1..4) }
    }

    /// Gives what a process has sent to the network.
    fn send(&mut self, which: usize) {
        let (from, clock) = (self.processes[which].number, self.processes[which].clock);
        for sent in self.processes[which].port.take() {
            match sent {
                Sent::Unwatch { node, call } => self.put(clock + 1, Happens::Unwatched { from, node, call }),
                Sent::Call { node, call, request } => self.send_call(from, clock, node, call, request),
            }
        }
    }

    fn send_call(&mut self, from: u32, clock: u64, node: usize, call: u64, request: Request) {
        let (cut, is_cut) = self.cuts.get(&from).copied().unwrap_or_default();
        if is_cut || self.places[node].is_down {
            let answer = Err(Failure::Refused);
            return self.put(clock + 1, Happens::Answered { to: from, call, answer, epoch: cut });
        }
        let epoch = (cut, self.places[node].epoch);
        let (mut at, is_lost) = (clock + self.delay(), self.chance(4, 1));
        let again = self.chance(2, 1).then(|| self.rng.u64(1..250));
        // A request that is not sent by this connection any more cannot overtake one that is.
        if let Some((id, is_attempt)) = request.lane() {
            let lane = self.lanes.entry((from, node, id)).or_default();
            if is_attempt {
                *lane = (*lane).max(at + again.unwrap_or(0));
            } else {
                at = at.max(*lane);
            }
        }
        if let Some(later) = again {
            let request = request.clone();
            self.put(at + later, Happens::Arrives { from, node, call, request, answered: false, epoch });
        }
        if !is_lost {
            self.put(at, Happens::Arrives { from, node, call, request, answered: true, epoch });
        }
    }

    fn process(&mut self, number: u32) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.number == number)
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Arrives { from, node, call, request, answered, epoch } => {
                self.arrive(from, node, call, request, answered, epoch);
            }
            Happens::Unwatched { from, node, call } => self.places[node].server.unwatch(from, call),
            Happens::Answered { to, call, answer, epoch } => {
                let now = self.cuts.get(&to).copied().unwrap_or_default().0;
                let Some(process) = self.process(to) else { return };
                match process.paused {
                    Some(until) => self.put(until, Happens::Answered { to, call, answer, epoch }),
                    None if epoch == now => process.port.answer(call, answer),
                    None => {}
                }
            }
            Happens::Signalled { to, call, signal } => {
                let Some(process) = self.process(to) else { return };
                match process.paused {
                    Some(until) => self.put(until, Happens::Signalled { to, call, signal }),
                    None => process.port.signal(call, signal),
                }
            }
            Happens::Begins(at) => self.begin(at),
            Happens::Ends(at) => self.end(at),
        }
    }

    fn arrive(
        &mut self,
        from: u32,
        node: usize,
        call: u64,
        request: Request,
        answered: bool,
        epoch: (u64, u64),
    ) {
        let cut = self.cuts.get(&from).copied().unwrap_or_default().0;
        let place = &mut self.places[node];
        // What is under way when its connection or its server ends never arrives.
        if epoch != (cut, place.epoch) || place.is_down {
            return;
        }
        if place.stopped > self.now {
            let at = place.stopped;
            return self.put(at, Happens::Arrives { from, node, call, request, answered, epoch });
        }
        let (reply, woken) = place.server.execute(from, call, &request, self.now);
        for signalled in woken {
            let at = self.now + self.delay();
            // A signal is only a hint: it may be lost.
            if !self.chance(4, 1) {
                self.put(
                    at,
                    Happens::Signalled {
                        to: signalled.client,
                        call: signalled.call,
                        signal: signalled.signal,
                    },
                );
            }
        }
        if answered && !self.chance(4, 1) {
            let at = self.now + self.delay();
            self.put(at, Happens::Answered { to: from, call, answer: Ok(reply), epoch: cut });
        }
    }

    fn write_fault(&self, at: usize, phase: Phase) {
        let numbers: Vec<u32> = self.processes.iter().map(|process| process.number).collect();
        let (class, target) = self.plan.faults[at].wrong.class(&numbers);
        let target = self.targets[at].unwrap_or(target);
        self.journal.write(nanos(self.now), 0, What::Fault { id: at as u32, class, target, phase });
    }

    fn begin(&mut self, at: usize) {
        let planned = self.plan.faults[at];
        let numbers: Vec<u32> = self.processes.iter().map(|process| process.number).collect();
        self.targets[at] = Some(planned.wrong.class(&numbers).1);
        self.write_fault(at, Phase::Begin);
        match planned.wrong {
            Wrong::Pause(slot) => {
                let process = &mut self.processes[slot];
                process.paused = Some(process.paused.unwrap_or(0).max(planned.to));
            }
            Wrong::Kill(slot) => {
                let number = self.processes[slot].number;
                let next = self.start(slot, self.now);
                self.processes[slot] = next;
                self.journal.write(nanos(self.now), number, What::Killed);
                self.places.iter_mut().for_each(|place| place.server.cut(Some(number)));
            }
            Wrong::Cut(slot) => {
                let number = self.processes[slot].number;
                let cut = self.cuts.entry(number).or_default();
                *cut = (cut.0 + 1, true);
                for (node, place) in self.places.iter_mut().enumerate() {
                    place.server.cut(Some(number));
                    self.processes[slot].port.cut(node);
                }
            }
            Wrong::Unwatch => self.places.iter_mut().for_each(|place| place.server.cut(None)),
            Wrong::Stop(node) => {
                let place = &mut self.places[node];
                place.stopped = place.stopped.max(planned.to);
            }
            Wrong::Part(node) | Wrong::Restart(node) | Wrong::Forget(node) => {
                self.take_down(node, planned.wrong);
            }
        }
        self.write_fault(at, Phase::InEffect);
    }

    fn take_down(&mut self, node: usize, wrong: Wrong) {
        let (now, place) = (self.now, &mut self.places[node]);
        (place.is_down, place.epoch) = (true, place.epoch + 1);
        place.server.cut(None);
        if matches!(wrong, Wrong::Forget(_)) {
            place.server.forget(now);
        }
        self.processes.iter().for_each(|process| process.port.cut(node));
    }

    fn end(&mut self, at: usize) {
        let Planned { wrong, .. } = self.plan.faults[at];
        self.write_fault(at, Phase::Healing);
        match wrong {
            Wrong::Pause(slot) => {
                let now = self.now;
                let process = &mut self.processes[slot];
                if process.paused.is_some_and(|until| until <= now) {
                    process.resume(now);
                }
            }
            Wrong::Cut(_) => {
                if let Some(Target::Process(number)) = self.targets[at]
                    && let Some(cut) = self.cuts.get_mut(&number)
                {
                    cut.1 = false;
                }
            }
            Wrong::Restart(node) | Wrong::Forget(node) => {
                let place = &mut self.places[node];
                place.is_down = false;
                if matches!(wrong, Wrong::Forget(_)) {
                    place.server.forget(self.now);
                }
                self.processes.iter().for_each(|process| process.port.suspect(node));
            }
            Wrong::Part(node) => self.places[node].is_down = false,
            Wrong::Kill(_) | Wrong::Unwatch | Wrong::Stop(_) => {}
        }
        self.write_fault(at, Phase::Healed);
    }

    /// Writes down what is left in the servers.
    fn inspect(&self, at: u64) {
        let mut names: BTreeMap<Name, Inspected> = BTreeMap::new();
        for place in &self.places {
            for name in place.server.names() {
                let Some(seen) = place.server.inspect(name, at) else { continue };
                let shown = names.entry(name.clone()).or_default();
                shown.name = name.to_string();
                shown.holders.extend(seen.holders.iter().map(|holder| holder.id.to_string()));
                shown.waiters.extend(seen.waiters.iter().map(|waiter| waiter.id.to_string()));
            }
        }
        for shown in names.into_values() {
            self.journal.write(nanos(at), 0, What::Inspected(shown));
        }
    }
}

use crate::plan::Planned;
