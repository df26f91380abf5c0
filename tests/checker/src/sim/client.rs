//! A simulated worker: acquires, renews, looks at its guard, writes to a resource and releases, one hold at a time.

use super::server::{Reply, Request, Worker};
use super::world::World;
use super::{Bug, CALL_TIMEOUT, DRIFT, LEASE, MS, POLL, Protocol};
use crate::event::{Access, Acquire, Action, Answer, Call, Granted, Kind, Wait, What};

/// The names, each of one kind.
pub(super) const NAMES: [&str; 4] = ["lock", "fair", "rw", "permits"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Start,
    Resend,
    Poll,
    /// Of this acquire.
    Deadline(u64),
    Look,
    /// Of this release in the background.
    Undo(u64),
}

#[derive(Debug)]
pub(super) struct Client {
    at: Worker,
    state: State,
    /// Which timers are meant for the current state.
    pub(super) epoch: u64,
    next: u64,
    undone: Vec<Undo>,
}

#[derive(Debug)]
enum State {
    Idle,
    Acquiring(Acquiring),
    Holding(Holding),
    Leaving(Leaving),
}

#[derive(Debug)]
struct Acquiring {
    op: u64,
    name: usize,
    kind: Kind,
    wait: Wait,
    is_named: bool,
    id: String,
    /// What was sent, and when.
    sent: Vec<(u64, u64)>,
    is_answered: bool,
    /// The lock is set, its TTL is not.
    needs_ttl: bool,
}

#[derive(Debug)]
struct Holding {
    op: u64,
    name: usize,
    kind: Kind,
    id: String,
    fence: Option<u64>,
    until: u64,
    leave_at: u64,
    renew_at: u64,
    sent: Vec<(u64, u64)>,
    /// An entry of its owner into it: the call, and whether it was granted.
    inner: Option<(u64, bool)>,
    is_named: bool,
    /// The write that its next write is based on.
    read: Option<u64>,
}

#[derive(Debug)]
struct Leaving {
    op: u64,
    name: usize,
    id: String,
    began: u64,
    sent: Vec<u64>,
    compared: bool,
}

/// A release in the background, which is repeated for a lease.
#[derive(Debug)]
struct Undo {
    number: u64,
    name: usize,
    id: String,
    until: u64,
    sent: Vec<u64>,
    compared: bool,
}

impl Client {
    pub(super) fn new(at: Worker, world: &mut World) -> Self {
        let delay = world.rng.u64(0..100 * MS);
        world.timer(at, delay, 0, Timer::Start);
        Self { at, state: State::Idle, epoch: 0, next: 0, undone: Vec::new() }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        u64::from(self.at.1) * 100_000 + self.next
    }

    fn id(&mut self) -> String {
        let number = self.number();
        format!("c{}:{number}", self.at.0)
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }

    fn later(&self, world: &mut World, delay: u64, timer: Timer) {
        world.timer(self.at, delay, self.epoch, timer);
    }

    fn rest(&mut self, world: &mut World) {
        self.enter(State::Idle);
        let delay = world.rng.u64(5 * MS..120 * MS);
        self.later(world, delay, Timer::Start);
    }

    fn log(&self, world: &mut World, what: What) {
        world.log(self.at.0, what);
    }

    fn call(&mut self, world: &mut World, call: Call) -> u64 {
        let op = self.number();
        self.log(world, What::Call { op, worker: self.at.1, call });
        op
    }

    fn answer(&self, world: &mut World, op: u64, answer: Answer) {
        self.log(world, What::Answer { op, answer });
    }

    /// Returns whether there was something to do.
    pub(super) fn on_timer(&mut self, world: &mut World, timer: Timer) -> bool {
        match (timer, &mut self.state) {
            (Timer::Undo(number), _) => self.repeat_undo(world, number),
            (Timer::Start, State::Idle) if !world.is_stopping() => self.start(world),
            (Timer::Resend, State::Acquiring(acquiring)) if !acquiring.is_answered => {
                if acquiring.wait == Wait::Try && acquiring.sent.len() >= 4 {
                    self.give_up(world, Answer::Unknown { error: "no answer".into() });
                } else {
                    self.attempt(world);
                }
            }
            (Timer::Poll, State::Acquiring(_)) => self.attempt(world),
            (Timer::Deadline(op), State::Acquiring(acquiring)) if acquiring.op == op => {
                let is_busy = acquiring.is_answered && !acquiring.needs_ttl;
                let unknown = Answer::Unknown { error: "no answer in time".into() };
                self.give_up(world, if is_busy { Answer::TimedOut } else { unknown });
            }
            (Timer::Look, State::Holding(_)) => self.look(world),
            (Timer::Resend, State::Leaving(leaving)) => {
                if world.now > leaving.began + LEASE {
                    let op = leaving.op;
                    self.answer(world, op, Answer::Unknown { error: "no answer".into() });
                    self.rest(world);
                } else {
                    self.send_release(world);
                }
            }
            _ => return false,
        }
        true
    }

    fn start(&mut self, world: &mut World) {
        let is_by_hand = world.scenario.protocol == Protocol::ByHand;
        let names = if is_by_hand { 2 } else { NAMES.len() };
        // Most want one of them, so that there is something to wait for.
        let name = if world.rng.u32(..4) > 0 { world.favourite % names } else { world.rng.usize(..names) };
        let kind = match name {
            _ if is_by_hand => Kind::Lock,
            0 => Kind::Lock,
            1 => Kind::Fair,
            2 if world.rng.u32(..10) < 7 => Kind::Read,
            2 => Kind::Write,
            _ => Kind::Permits { n: world.rng.u32(1..3), limit: 3 },
        };
        let wait = match world.rng.u32(..10) {
            0..3 => Wait::Try,
            3..7 => Wait::For(world.rng.u64(250 * MS..1500 * MS)),
            _ => Wait::Forever,
        };
        let is_named = !is_by_hand && name < 2 && world.rng.u32(..10) < 3;
        let owner = is_named.then(|| format!("w{}", self.at.1));
        let acquire = Acquire { name: NAMES[name].into(), kind, owner, wait, lease: None, least: None };
        let op = self.call(world, Call::Acquire(acquire));
        let id = self.id();
        let (sent, is_answered, needs_ttl) = (Vec::new(), false, false);
        self.enter(State::Acquiring(Acquiring {
            op,
            name,
            kind,
            wait,
            is_named,
            id,
            sent,
            is_answered,
            needs_ttl,
        }));
        if let Wait::For(limit) = wait {
            self.later(world, limit, Timer::Deadline(op));
        }
        self.attempt(world);
    }

    fn value(world: &World, id: &str) -> String {
        if world.scenario.has(Bug::OneValueForAll) { "locked".into() } else { id.to_owned() }
    }

    fn attempt(&mut self, world: &mut World) {
        let State::Acquiring(acquiring) = &mut self.state else { return };
        let Acquiring { op, name, kind, wait, ref id, needs_ttl, .. } = *acquiring;
        let request = match world.scenario.protocol {
            Protocol::Tenure => {
                Request::Try { id: id.clone(), name, kind, holds: 1, waits: wait != Wait::Try, op }
            }
            Protocol::ByHand if needs_ttl => Request::Expire { name, ttl: LEASE },
            Protocol::ByHand => {
                let has_ttl = !world.scenario.has(Bug::NoTtl) && !world.scenario.has(Bug::TtlInTwoSteps);
                let ttl = has_ttl.then_some(LEASE);
                Request::SetNx { name, value: Self::value(world, id), ttl }
            }
        };
        acquiring.is_answered = false;
        // What was to follow the attempt before is to follow this one.
        self.epoch += 1;
        let token = world.send(self.at, request);
        acquiring.sent.push((token, world.now));
        self.later(world, CALL_TIMEOUT, Timer::Resend);
    }

    /// Ends an acquire that was not granted. What was sent may still arrive.
    fn give_up(&mut self, world: &mut World, answer: Answer) {
        let State::Acquiring(acquiring) = &self.state else { return };
        let (op, name, id) = (acquiring.op, acquiring.name, acquiring.id.clone());
        self.answer(world, op, answer);
        // By hand, who has one value for all or three steps would delete the lock of somebody else.
        if world.scenario.protocol == Protocol::Tenure || world.scenario.bug.is_none() {
            self.undo(world, name, id);
        }
        self.rest(world);
    }

    pub(super) fn on_wake(&mut self, world: &mut World) {
        if matches!(&self.state, State::Acquiring(acquiring) if acquiring.is_answered) {
            self.attempt(world);
        }
    }

    pub(super) fn on_reply(&mut self, world: &mut World, token: u64, reply: Reply) {
        if self.undone_reply(world, token, &reply) {
            return;
        }
        match &mut self.state {
            State::Acquiring(acquiring) => {
                if let Some((_, sent)) = acquiring.sent.iter().copied().find(|(known, _)| *known == token) {
                    self.acquire_reply(world, sent, reply);
                }
            }
            State::Holding(holding) => {
                if let Some((_, sent)) = holding.sent.iter().copied().find(|(known, _)| *known == token) {
                    self.hold_reply(world, sent, reply);
                }
            }
            State::Leaving(leaving) if leaving.sent.contains(&token) => self.leave_reply(world, reply),
            _ => {}
        }
    }

    fn acquire_reply(&mut self, world: &mut World, sent: u64, reply: Reply) {
        let State::Acquiring(acquiring) = &mut self.state else { return };
        let is_repeated = std::mem::replace(&mut acquiring.is_answered, true);
        let two_steps = world.scenario.has(Bug::TtlInTwoSteps);
        match reply {
            Reply::Granted { fence } => self.granted(world, sent, Some(fence)),
            Reply::Done(true) if two_steps && !acquiring.needs_ttl => {
                acquiring.needs_ttl = true;
                acquiring.sent.clear();
                self.attempt(world);
            }
            Reply::Done(true) => self.granted(world, sent, None),
            _ if acquiring.wait == Wait::Try => self.give_up(world, Answer::Busy),
            _ if is_repeated => {}
            Reply::Busy { left } => {
                if !world.scenario.has(Bug::WakeUpLost) {
                    self.later(world, POLL.min(left + MS), Timer::Poll);
                }
            }
            _ => {
                acquiring.needs_ttl = false;
                self.later(world, POLL, Timer::Poll);
            }
        }
    }

    fn granted(&mut self, world: &mut World, sent: u64, fence: Option<u64>) {
        let fresh = self.id();
        let State::Acquiring(acquiring) = &mut self.state else { return };
        let until = if world.scenario.has(Bug::NoTtl) { u64::MAX } else { sent + LEASE - DRIFT };
        let (op, name, kind) = (acquiring.op, acquiring.name, acquiring.kind);
        if until <= world.now {
            // The answer came too late: it is undone, and asked for anew.
            let id = std::mem::replace(&mut acquiring.id, fresh);
            acquiring.sent.clear();
            acquiring.needs_ttl = false;
            let is_try = acquiring.wait == Wait::Try;
            self.undo(world, name, id);
            return if is_try {
                self.give_up(world, Answer::Unknown { error: "answered too late".into() });
            } else {
                self.attempt(world);
            };
        }
        let (id, is_named) = (acquiring.id.clone(), acquiring.is_named);
        let remaining = until.min(world.now + LEASE) - world.now;
        let granted = Granted { fence, hold: Some(id.clone()), remaining: Some(remaining) };
        self.answer(world, op, Answer::Granted(granted));
        // Without renewals, or with wrong ones, it matters to stay until shortly before the end.
        let long = match world.scenario.bug {
            Some(Bug::RenewalRevives | Bug::CompareThenDelete) => 3,
            _ => 8,
        };
        let is_long = world.rng.u32(..long) == 0;
        let stays = if is_long { LEASE / 3..LEASE } else { 5 * MS..50 * MS };
        let leave_at = world.now + world.rng.u64(stays);
        let renew_at = world.now + LEASE / 3;
        let (sent, inner, read) = (Vec::new(), None, None);
        self.enter(State::Holding(Holding {
            op,
            name,
            kind,
            id,
            fence,
            until,
            leave_at,
            renew_at,
            sent,
            inner,
            is_named,
            read,
        }));
        self.later(world, MS, Timer::Look);
    }

    /// Looks at the guard, and does the next thing with it.
    fn look(&mut self, world: &mut World) {
        let State::Holding(holding) = &mut self.state else { return };
        let (now, op) = (world.now, holding.op);
        let inner = holding.inner.filter(|(_, granted)| *granted).map(|(inner, _)| inner);
        let guards = || [Some(op), inner].into_iter().flatten();
        if now >= holding.until {
            if world.rng.u32(..3) == 0 {
                Self::access(world, self.at.0, holding); // an effect that was on its way
            }
            for of in guards() {
                self.log(world, What::NotHeld { of, reason: Some("its lease ended".into()) });
            }
            if !world.scenario.has(Bug::RenewalRevives) {
                return self.lost(world);
            }
        } else {
            for of in guards() {
                world.log(self.at.0, What::Held { of });
            }
            Self::access(world, self.at.0, holding);
            if now >= holding.leave_at {
                return self.leave(world);
            }
        }
        if world.scenario.protocol == Protocol::Tenure {
            self.renew(world);
            self.reenter(world);
        }
        let delay = world.rng.u64(LEASE / 50..LEASE / 10);
        self.later(world, delay, Timer::Look);
    }

    fn renew(&mut self, world: &mut World) {
        let State::Holding(holding) = &mut self.state else { return };
        if world.now >= holding.renew_at {
            let (id, name, kind) = (holding.id.clone(), holding.name, holding.kind);
            let token = world.send(self.at, Request::Renew { id, name, kind });
            holding.sent.push((token, world.now));
            holding.renew_at = world.now + LEASE / 3;
        }
    }

    /// Enters the hold again, now and then.
    fn reenter(&mut self, world: &mut World) {
        let State::Holding(holding) = &self.state else { return };
        if !holding.is_named || holding.inner.is_some() || world.rng.bool() {
            return;
        }
        let (id, name, kind) = (holding.id.clone(), holding.name, holding.kind);
        let owner = Some(format!("w{}", self.at.1));
        let (wait, lease, least) = (Wait::Try, None, None);
        let acquire = Acquire { name: NAMES[name].into(), kind, owner, wait, lease, least };
        let op = self.call(world, Call::Acquire(acquire));
        let token = world.send(self.at, Request::Try { id, name, kind, holds: 2, waits: false, op });
        if let State::Holding(holding) = &mut self.state {
            holding.inner = Some((op, false));
            holding.sent.push((token, world.now));
        }
    }

    /// Reads the resource of the name, or writes what was computed from it.
    fn access(world: &mut World, process: u32, holding: &mut Holding) {
        if holding.kind.is_shared() {
            return;
        }
        let register = world.registers.entry(holding.name).or_default();
        let accepted = holding.fence.is_none_or(|fence| fence >= register.highest);
        register.seq += 1;
        if accepted {
            register.highest = register.highest.max(holding.fence.unwrap_or(0));
        }
        let action = match holding.read.take() {
            None => Action::Read { value: register.value },
            Some(based_on) => Action::Write { value: register.value + 1, based_on },
        };
        match action {
            Action::Read { .. } => holding.read = accepted.then_some(register.last),
            Action::Write { value, .. } if accepted => {
                (register.value, register.last) = (value, register.seq);
            }
            Action::Write { .. } => {}
        }
        let (seq, of, fence) = (register.seq, Some(holding.op), holding.fence);
        let register = NAMES[holding.name].to_owned();
        world.log(process, What::Access(Access { register, seq, of, fence, accepted, action }));
    }

    fn hold_reply(&mut self, world: &mut World, sent: u64, reply: Reply) {
        let revives = world.scenario.has(Bug::RenewalRevives);
        let State::Holding(holding) = &mut self.state else { return };
        match reply {
            Reply::Held if world.now < holding.until || revives => {
                holding.until = holding.until.max(sent + LEASE - DRIFT);
            }
            Reply::Granted { fence } => {
                let Some((inner, granted @ false)) = &mut holding.inner else { return };
                *granted = true;
                let hold = Some(holding.id.clone());
                let op = *inner;
                let remaining = Some(holding.until.saturating_sub(world.now));
                let granted = Granted { fence: Some(fence), hold, remaining };
                self.answer(world, op, Answer::Granted(granted));
            }
            Reply::Gone => {
                let (op, inner) = (holding.op, holding.inner);
                self.log(world, What::NotHeld { of: op, reason: Some("the store no longer has it".into()) });
                if let Some((inner, true)) = inner {
                    self.log(world, What::NotHeld { of: inner, reason: None });
                }
                self.lost(world);
            }
            _ => {}
        }
    }

    /// A lost hold is released in the background nevertheless.
    fn lost(&mut self, world: &mut World) {
        let State::Holding(holding) = &self.state else { return };
        let (name, id) = (holding.name, holding.id.clone());
        if let Some((inner, false)) = holding.inner {
            self.answer(world, inner, Answer::Unavailable { error: "lost".into() });
        }
        self.undo(world, name, id);
        self.rest(world);
    }

    fn leave(&mut self, world: &mut World) {
        let State::Holding(holding) = &mut self.state else { return };
        let (of, name, id) = (holding.op, holding.name, holding.id.clone());
        match holding.inner.take() {
            // Not answered yet: stay a moment longer.
            Some((inner, false)) => {
                holding.inner = Some((inner, false));
                return self.later(world, CALL_TIMEOUT, Timer::Look);
            }
            // The count in the store is informational, so its answer is not waited for.
            Some((inner, true)) => {
                let op = self.call(world, Call::Release { of: inner });
                world.send(self.at, Request::Release { id: id.clone(), name, left: 1 });
                self.answer(world, op, Answer::Released);
                return self.later(world, MS, Timer::Look);
            }
            None => {}
        }
        if world.rng.u32(..10) == 0 {
            self.log(world, What::Dropped { of });
            self.undo(world, name, id);
            return self.rest(world);
        }
        let op = self.call(world, Call::Release { of });
        let (began, sent, compared) = (world.now, Vec::new(), false);
        self.enter(State::Leaving(Leaving { op, name, id, began, sent, compared }));
        self.send_release(world);
    }

    fn send_release(&mut self, world: &mut World) {
        let State::Leaving(leaving) = &mut self.state else { return };
        let request = release(world, leaving.name, &leaving.id, leaving.compared);
        let token = world.send(self.at, request);
        leaving.sent.push(token);
        self.later(world, CALL_TIMEOUT, Timer::Resend);
    }

    fn leave_reply(&mut self, world: &mut World, reply: Reply) {
        let State::Leaving(leaving) = &mut self.state else { return };
        let op = leaving.op;
        let is_first = leaving.sent.len() == 1 + usize::from(leaving.compared);
        let answer = match reply {
            Reply::Value(value) if value.as_deref() == Some(&leaving.id) => {
                leaving.compared = true;
                return self.send_release(world);
            }
            Reply::Freed | Reply::Done(true) => Answer::Released,
            _ if is_first => Answer::Lost { reason: "the store no longer has it".into() },
            _ => Answer::Released,
        };
        self.answer(world, op, answer);
        self.rest(world);
    }

    fn undo(&mut self, world: &mut World, name: usize, id: String) {
        let number = self.number();
        let (until, sent, compared) = (world.now + LEASE, Vec::new(), false);
        self.undone.push(Undo { number, name, id, until, sent, compared });
        self.repeat_undo(world, number);
    }

    fn repeat_undo(&mut self, world: &mut World, number: u64) {
        let at = self.at;
        self.undone.retain(|undo| world.now <= undo.until);
        let Some(undo) = self.undone.iter_mut().find(|undo| undo.number == number) else { return };
        let request = release(world, undo.name, &undo.id, undo.compared);
        undo.sent.push(world.send(at, request));
        world.timer(at, CALL_TIMEOUT, self.epoch, Timer::Undo(number));
    }

    /// Whether it was the reply to a release in the background.
    fn undone_reply(&mut self, world: &mut World, token: u64, reply: &Reply) -> bool {
        let Some(at) = self.undone.iter().position(|undo| undo.sent.contains(&token)) else { return false };
        let undo = &mut self.undone[at];
        if matches!(reply, Reply::Value(value) if value.as_deref() == Some(&undo.id)) {
            undo.compared = true;
            let number = undo.number;
            self.repeat_undo(world, number);
        } else {
            self.undone.swap_remove(at);
        }
        true
    }
}

/// The request that releases a hold, in the protocol and with the mistake of the scenario.
fn release(world: &World, name: usize, id: &str, compared: bool) -> Request {
    let scenario = world.scenario;
    match scenario.protocol {
        Protocol::Tenure => Request::Release { id: id.to_owned(), name, left: 0 },
        Protocol::ByHand if scenario.has(Bug::OneValueForAll) || compared => Request::Delete { name },
        Protocol::ByHand if scenario.has(Bug::CompareThenDelete) => Request::Get { name },
        Protocol::ByHand => Request::CompareAndDelete { name, value: id.to_owned() },
    }
}
