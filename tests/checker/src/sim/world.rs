//! Virtual time: messages, timers and faults in the order of their times.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::client::{Client, NAMES, Timer};
use super::server::{Reply, Request, Server, Worker};
use super::{Bug, LEASE, LENGTH, MS, POLL, Protocol, Scenario};
use crate::event::{Event, Inspected, What};
use crate::fault::{Class, Phase, Target};
use crate::history::History;
use crate::run::{Run, Store, Timing};

/// When clients stop to begin anything.
const STOP: u64 = LENGTH / 3 * 2;
const PROCESSES: u32 = 3;
const WORKERS: u32 = 2;
/// The longest time that a message is late.
const LATE: u64 = LEASE / 2;

/// A history, and how many steps it took.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The history.
    pub history: History,
    /// How many messages, timers and faults had an effect.
    pub steps: usize,
}

#[derive(Debug)]
enum Job {
    ToServer { from: Worker, token: u64, request: Request },
    ToClient { to: Worker, token: u64, reply: Reply },
    Wake { to: Worker },
    Timer { of: Worker, epoch: u64, timer: Timer },
    Fault(Step),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Of one of those that live then.
    Pause {
        nth: u32,
        length: u64,
    },
    Resume {
        process: u32,
        id: u32,
    },
    Kill {
        nth: u32,
    },
    /// Kills the next one that is granted something.
    Arm,
    Stop {
        with_data: bool,
        length: u64,
    },
    Restart {
        id: u32,
        with_data: bool,
    },
    Disturb {
        length: u64,
    },
    Calm {
        id: u32,
    },
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug)]
enum Aim {
    Pause,
    Kill,
    Restart,
    Disturb,
    Nothing,
}

/// The faults that a mistake does not stand. Some show best when nothing else is wrong.
fn aim(bug: Bug) -> Option<Aim> {
    match bug {
        Bug::RenewalRevives | Bug::OneValueForAll => Some(Aim::Pause),
        Bug::WakingTheDead | Bug::NoTtl | Bug::TtlInTwoSteps => Some(Aim::Kill),
        Bug::CompareThenDelete => Some(Aim::Disturb),
        Bug::AcquireCountsTwice | Bug::QueueSkips => Some(Aim::Nothing),
        Bug::ReleaseWithoutOwner | Bug::FenceGoesBack | Bug::WakeUpLost => None,
    }
}

/// A resource that checks fences where there are some.
#[derive(Debug, Default)]
pub(super) struct Register {
    pub(super) seq: u64,
    pub(super) value: u64,
    /// The `seq` of the last write.
    pub(super) last: u64,
    pub(super) highest: u64,
}

pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) rng: Rng,
    pub(super) now: u64,
    pub(super) registers: BTreeMap<usize, Register>,
    /// The name that most clients want.
    pub(super) favourite: usize,
    events: Vec<Event>,
    jobs: BTreeMap<(u64, u64), Job>,
    numbers: u64,
    server: Server,
    server_is_up: bool,
    disturbed_until: u64,
    /// The workers that live; none while one of them is at work.
    clients: BTreeMap<Worker, Option<Client>>,
    paused: BTreeMap<u32, u64>,
    /// Whether the next one that is granted something is killed.
    is_armed: bool,
    /// When the last request of a worker arrives.
    lanes: BTreeMap<Worker, u64>,
    processes: u32,
    faults: u32,
}

/// Makes the history of this seed.
pub fn simulate(seed: u64, scenario: Scenario) -> Simulated {
    let mut rng = Rng::with_seed(seed);
    let mut world = World {
        scenario,
        favourite: match scenario.bug {
            Some(Bug::QueueSkips | Bug::WakingTheDead) => 1,
            Some(Bug::AcquireCountsTwice) => 0,
            _ => rng.usize(..NAMES.len()),
        },
        rng,
        now: 1_000_000 * MS,
        registers: BTreeMap::new(),
        events: Vec::new(),
        jobs: BTreeMap::new(),
        numbers: 0,
        server: Server::new(scenario),
        server_is_up: true,
        disturbed_until: 0,
        clients: BTreeMap::new(),
        paused: BTreeMap::new(),
        is_armed: false,
        lanes: BTreeMap::new(),
        processes: 0,
        faults: 0,
    };
    world.begin(seed);
    let (begin, mut steps) = (world.now, 0);
    while let Some(((at, _), job)) = world.jobs.pop_first() {
        if at > begin + LENGTH {
            break;
        }
        world.now = at;
        steps += usize::from(world.step(job));
    }
    world.now = begin + LENGTH;
    world.inspect();
    Simulated { history: History::new(world.events), steps }
}

impl World {
    fn begin(&mut self, seed: u64) {
        let store = match self.scenario.protocol {
            Protocol::Tenure => Store::Redis,
            Protocol::ByHand => Store::RedisPlain,
        };
        let timing = Timing { lease: LEASE, poll: POLL, restart_delay: 0, slack: 300 * MS };
        let plan = self.plan();
        self.log(0, What::Run(Run { store, nodes: 1, seed, plan, timing }));
        for _ in 0..PROCESSES {
            self.start_process();
        }
    }

    /// Chooses the faults, and says which.
    fn plan(&mut self) -> String {
        let mut plan = Vec::new();
        for _ in 0..self.rng.u32(4..9) {
            let at = self.rng.u64(LENGTH / 20..STOP);
            // Most faults are those that a mistake is about.
            let aimed = self.scenario.bug.and_then(aim).filter(|_| self.rng.u32(..10) < 7);
            let kind = match self.rng.u32(..10) {
                0..3 => Aim::Pause,
                3..6 => Aim::Kill,
                6 => Aim::Restart,
                _ => Aim::Disturb,
            };
            let nth = self.rng.u32(0..PROCESSES);
            let length = self.rng.u64(LEASE / 5..LEASE * 3 / 2);
            let ms = length / MS;
            let (step, words) = match aimed.unwrap_or(kind) {
                Aim::Pause => (Step::Pause { nth, length }, format!("pause a process for {ms} ms")),
                Aim::Kill if self.rng.bool() => (Step::Kill { nth }, "kill a process".to_owned()),
                Aim::Kill => (Step::Arm, "kill whoever is granted next, before it hears of it".to_owned()),
                Aim::Nothing => continue,
                Aim::Restart => {
                    let with_data = !self.scenario.forgets;
                    let data = if with_data { "with its data" } else { "without its data" };
                    (Step::Stop { with_data, length }, format!("restart {data} after {ms} ms"))
                }
                Aim::Disturb => (Step::Disturb { length }, format!("disturb the network for {ms} ms")),
            };
            plan.push((at, words));
            self.after(at, Job::Fault(step));
        }
        plan.sort();
        plan.into_iter()
            .map(|(at, words)| format!("{words} at {} ms", at / MS))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn start_process(&mut self) {
        self.processes += 1;
        let process = self.processes;
        self.log(process, What::Started { clients: vec![format!("c{process}")] });
        for worker in 0..WORKERS {
            let client = Client::new((process, worker), self);
            self.clients.insert((process, worker), Some(client));
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.events[0].at + STOP < self.now
    }

    pub(super) fn log(&mut self, process: u32, what: What) {
        self.events.push(Event { at: self.now, process, what });
    }

    fn after(&mut self, delay: u64, job: Job) {
        self.numbers += 1;
        self.jobs.insert((self.now + delay, self.numbers), job);
    }

    pub(super) fn timer(&mut self, of: Worker, delay: u64, epoch: u64, timer: Timer) {
        self.after(delay, Job::Timer { of, epoch, timer });
    }

    /// Sends a request, and returns the number that its reply has.
    pub(super) fn send(&mut self, from: Worker, request: Request) -> u64 {
        self.numbers += 1;
        let token = self.numbers;
        for mut delay in self.deliveries(true) {
            if self.scenario.protocol == Protocol::ByHand {
                // One connection: what is sent later does not arrive earlier.
                let last = self.lanes.entry(from).or_default();
                *last = (*last + 1).max(self.now + delay);
                delay = *last - self.now;
            }
            self.after(delay, Job::ToServer { from, token, request: request.clone() });
        }
        token
    }

    /// When a message arrives: once as a rule, now and then twice, and never or late in a network that is disturbed. Who
    /// locks by hand has nothing against requests that arrive twice; a connection does not do that.
    fn deliveries(&mut self, is_request: bool) -> Vec<u64> {
        let is_by_hand = self.scenario.protocol == Protocol::ByHand;
        let may_repeat = !(is_request && is_by_hand);
        let usual = MS / 5..if is_by_hand { MS * 8 } else { MS * 3 };
        let mut deliveries = vec![self.rng.u64(usual)];
        if may_repeat && self.rng.u32(..12) == 0 {
            deliveries.push(self.rng.u64(MS..MS * 10));
        }
        if self.now < self.disturbed_until {
            match self.rng.u32(..10) {
                0..3 => deliveries.clear(),
                3..6 => deliveries[0] = self.rng.u64(..LATE),
                6 if may_repeat => deliveries.push(self.rng.u64(..LATE)),
                _ => {}
            }
        }
        deliveries
    }

    /// Returns whether anything happened: not if a timer is of the past.
    fn step(&mut self, job: Job) -> bool {
        let worker = match &job {
            Job::ToClient { to, .. } | Job::Wake { to } => Some(*to),
            Job::Timer { of, .. } => Some(*of),
            _ => None,
        };
        // Who stands still finds it when it goes on.
        if let Some((process, _)) = worker
            && let Some(until) = self.paused.get(&process).copied()
        {
            self.after(until - self.now, job);
            return false;
        }
        let mut has_happened = true;
        match job {
            Job::ToServer { from, token, request } if self.server_is_up => self.serve(from, token, request),
            Job::ToServer { .. } => {}
            Job::ToClient { to, reply: Reply::Granted { .. } | Reply::Done(true), .. }
                if self.is_armed && self.clients.contains_key(&to) =>
            {
                self.is_armed = false;
                self.faults += 1;
                self.kill(self.faults, to.0);
            }
            Job::ToClient { to, token, reply } => self.with(to, |c, world| c.on_reply(world, token, reply)),
            Job::Wake { to } => self.with(to, Client::on_wake),
            Job::Timer { of, epoch, timer } => self.with(of, |client, world| {
                let is_due = client.epoch == epoch || matches!(timer, Timer::Undo(_) | Timer::Deadline(_));
                has_happened = is_due && client.on_timer(world, timer);
            }),
            Job::Fault(step) => self.fault(step),
        }
        has_happened
    }

    fn with(&mut self, worker: Worker, act: impl FnOnce(&mut Client, &mut Self)) {
        let Some(mut client) = self.clients.get_mut(&worker).and_then(Option::take) else { return };
        act(&mut client, self);
        self.clients.insert(worker, Some(client));
    }

    fn serve(&mut self, from: Worker, token: u64, request: Request) {
        let reply = self.server.handle(self.now, from, request);
        for delay in self.deliveries(false) {
            self.after(delay, Job::ToClient { to: from, token, reply: reply.clone() });
        }
        for ((process, _), of) in std::mem::take(&mut self.server.queued) {
            self.log(process, What::Queued { of });
        }
        // With this mistake one is woken, whether it is alive or not.
        let one = self.scenario.has(Bug::WakingTheDead);
        let woken = std::mem::take(&mut self.server.woken);
        for to in woken.into_iter().take(if one { 1 } else { usize::MAX }) {
            for delay in self.deliveries(false) {
                self.after(delay, Job::Wake { to });
            }
        }
    }

    fn log_fault(&mut self, id: u32, class: Class, target: Target, phases: [Phase; 2]) {
        for phase in phases {
            self.log(0, What::Fault { id, class, target, phase });
        }
    }

    fn fault(&mut self, step: Step) {
        const BEGIN: [Phase; 2] = [Phase::Begin, Phase::InEffect];
        const END: [Phase; 2] = [Phase::Healing, Phase::Healed];
        let class = |with_data| if with_data { Class::RestartWithData } else { Class::RestartEmpty };
        self.faults += 1;
        let id = self.faults;
        match step {
            Step::Pause { nth, length } => {
                let process = self.living(nth);
                if !self.paused.contains_key(&process) {
                    self.log_fault(id, Class::ClientPaused, Target::Process(process), BEGIN);
                    self.paused.insert(process, self.now + length);
                    self.after(length, Job::Fault(Step::Resume { process, id }));
                }
            }
            Step::Resume { process, id } => {
                self.paused.remove(&process);
                self.log_fault(id, Class::ClientPaused, Target::Process(process), END);
            }
            Step::Kill { nth } => {
                let process = self.living(nth);
                if !self.paused.contains_key(&process) {
                    self.kill(id, process);
                }
            }
            Step::Arm => self.is_armed = true,
            Step::Stop { with_data, length } => {
                if self.server_is_up {
                    self.log_fault(id, class(with_data), Target::Store, BEGIN);
                    self.server_is_up = false;
                    self.after(length, Job::Fault(Step::Restart { id, with_data }));
                }
            }
            Step::Restart { id, with_data } => {
                self.server.restart(with_data);
                self.server_is_up = true;
                self.log_fault(id, class(with_data), Target::Store, END);
            }
            Step::Disturb { length } => {
                if self.disturbed_until + LATE < self.now {
                    self.log_fault(id, Class::ConnectionDelayed, Target::Store, BEGIN);
                    self.disturbed_until = self.now + length;
                    // What was sent last may be late by so much, there and back.
                    self.after(length + 2 * LATE, Job::Fault(Step::Calm { id }));
                }
            }
            Step::Calm { id } => self.log_fault(id, Class::ConnectionDelayed, Target::Store, END),
        }
    }

    fn kill(&mut self, id: u32, process: u32) {
        self.log_fault(id, Class::ClientKilled, Target::Process(process), [Phase::Begin, Phase::Healed]);
        self.log(process, What::Killed);
        self.clients.retain(|(of, _), _| *of != process);
        self.start_process();
    }

    fn living(&self, nth: u32) -> u32 {
        let mut processes: Vec<u32> = self.clients.keys().map(|(process, _)| *process).collect();
        processes.dedup();
        processes[nth as usize % processes.len()]
    }

    fn inspect(&mut self) {
        for (at, name) in NAMES.iter().enumerate() {
            let (holders, waiters) = self.server.inspect(at, self.now);
            self.log(0, What::Inspected(Inspected { name: (*name).into(), holders, waiters }));
        }
    }
}
