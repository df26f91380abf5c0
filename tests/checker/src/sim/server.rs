//! The simulated store: holds with leases, queues, fences; and plain keys for locks that are written by hand.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bug, LEASE, POLL, Scenario};
use crate::event::Kind;

/// A worker: its process, and its number there.
pub(super) type Worker = (u32, u32);

#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Acquires; `holds` above 1 enters again. One that waits gets a place in the queue.
    Try {
        id: String,
        name: usize,
        kind: Kind,
        holds: u32,
        waits: bool,
        op: u64,
    },
    Renew {
        id: String,
        name: usize,
        kind: Kind,
    },
    Release {
        id: String,
        name: usize,
        left: u32,
    },
    SetNx {
        name: usize,
        value: String,
        ttl: Option<u64>,
    },
    Expire {
        name: usize,
        ttl: u64,
    },
    Get {
        name: usize,
    },
    Delete {
        name: usize,
    },
    CompareAndDelete {
        name: usize,
        value: String,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Granted {
        fence: u64,
    },
    /// Held by others, for this long at most.
    Busy {
        left: u64,
    },
    Held,
    Freed,
    Gone,
    Value(Option<String>),
    Done(bool),
}

#[derive(Clone, Debug)]
struct Hold {
    id: String,
    kind: Kind,
    fence: u64,
    count: u32,
    until: u64,
}

#[derive(Clone, Debug)]
struct Waiter {
    id: String,
    worker: Worker,
    kind: Kind,
    seen: u64,
}

#[derive(Clone, Debug, Default)]
struct Name {
    holds: Vec<Hold>,
    queue: Vec<Waiter>,
    last_fence: u64,
    /// A key of the plain layout: its value, and the end of its TTL.
    key: Option<(String, Option<u64>)>,
}

#[derive(Debug)]
pub(super) struct Server {
    scenario: Scenario,
    names: BTreeMap<usize, Name>,
    dead: BTreeSet<String>,
    /// Whom to wake, since it was last asked.
    pub(super) woken: Vec<Worker>,
    /// Acquires that have a place in the queue, since it was last asked.
    pub(super) queued: Vec<(Worker, u64)>,
}

fn exclude(one: Kind, other: Kind) -> bool {
    !(one.is_shared() && other.is_shared())
}

fn permits(kind: Kind) -> u32 {
    if let Kind::Permits { n, .. } = kind { n } else { 0 }
}

fn is_ordered(kind: Kind) -> bool {
    matches!(kind, Kind::Fair | Kind::Read | Kind::Write)
}

impl Server {
    pub(super) fn new(scenario: Scenario) -> Self {
        let (names, dead) = (BTreeMap::new(), BTreeSet::new());
        Self { scenario, names, dead, woken: Vec::new(), queued: Vec::new() }
    }

    /// Comes back, with or without what it had. Queues are in memory.
    pub(super) fn restart(&mut self, with_data: bool) {
        if !with_data {
            self.names.clear();
        }
        for name in self.names.values_mut() {
            name.queue.clear();
        }
    }

    /// What it shows of a name: holders and waiters.
    pub(super) fn inspect(&mut self, name: usize, now: u64) -> (Vec<String>, Vec<String>) {
        let name = self.name(name, now);
        let holds = name.holds.iter().map(|hold| hold.id.clone());
        (holds.collect(), name.queue.iter().map(|waiter| waiter.id.clone()).collect())
    }

    /// A name without what is over.
    fn name(&mut self, name: usize, now: u64) -> &mut Name {
        let keeps_dead = self.scenario.has(Bug::WakingTheDead);
        let name = self.names.entry(name).or_default();
        name.holds.retain(|hold| hold.until > now);
        name.queue.retain(|waiter| keeps_dead || waiter.seen + 3 * POLL > now);
        if name.key.as_ref().is_some_and(|(_, end)| end.is_some_and(|end| end <= now)) {
            name.key = None;
        }
        name
    }

    pub(super) fn handle(&mut self, now: u64, from: Worker, request: Request) -> Reply {
        match request {
            Request::Try { id, name, kind, holds, waits, op } => {
                self.attempt(now, from, id, name, kind, holds, waits, op)
            }
            Request::Renew { id, name, kind } => self.renew(now, id, name, kind),
            Request::Release { id, name, left } => self.release(now, id, name, left),
            Request::SetNx { name, value, ttl } => {
                let key = &mut self.name(name, now).key;
                let is_own = key.as_ref().is_none_or(|(known, _)| *known == value);
                if is_own {
                    *key = Some((value, ttl.map(|ttl| now + ttl)));
                }
                Reply::Done(is_own)
            }
            Request::Expire { name, ttl } => {
                let key = &mut self.name(name, now).key;
                if let Some((_, end)) = key {
                    *end = Some(now + ttl);
                }
                Reply::Done(key.is_some())
            }
            Request::Get { name } => Reply::Value(self.name(name, now).key.clone().map(|(value, _)| value)),
            Request::Delete { name } => Reply::Done(self.name(name, now).key.take().is_some()),
            Request::CompareAndDelete { name, value } => {
                let key = &mut self.name(name, now).key;
                Reply::Done(key.take_if(|(known, _)| *known == value).is_some())
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn attempt(
        &mut self,
        now: u64,
        from: Worker,
        id: String,
        at: usize,
        kind: Kind,
        holds: u32,
        waits: bool,
        op: u64,
    ) -> Reply {
        let scenario = self.scenario;
        if self.dead.contains(&id) {
            return Reply::Gone;
        }
        let name = self.name(at, now);
        if let Some(hold) = name.holds.iter_mut().find(|hold| hold.id == id) {
            hold.until = hold.until.max(now + LEASE);
            hold.count = if scenario.has(Bug::AcquireCountsTwice) { hold.count + 1 } else { holds };
            return Reply::Granted { fence: hold.fence };
        }
        if holds > 1 {
            return Reply::Gone;
        }
        let place = name.queue.iter().position(|waiter| waiter.id == id).unwrap_or(name.queue.len());
        let is_behind = is_ordered(kind)
            && !(scenario.has(Bug::QueueSkips) && kind == Kind::Fair)
            && name.queue[..place].iter().any(|ahead| exclude(ahead.kind, kind));
        let used: u32 = name.holds.iter().map(|hold| permits(hold.kind)).sum();
        let is_full = matches!(kind, Kind::Permits { n, limit } if used + n > limit);
        if is_behind || is_full || name.holds.iter().any(|hold| exclude(hold.kind, kind)) {
            if waits && place == name.queue.len() {
                name.queue.push(Waiter { id, worker: from, kind, seen: now });
                self.queued.push((from, op));
            } else if waits {
                name.queue[place].seen = now;
            }
            let left = self.name(at, now).holds.iter().map(|hold| hold.until - now).min();
            return Reply::Busy { left: left.unwrap_or(POLL) };
        }
        if place < name.queue.len() {
            name.queue.remove(place);
        }
        // The wall clock in microseconds, which is the virtual one here.
        let fence = match scenario.has(Bug::FenceGoesBack) && name.holds.is_empty() {
            true => 1,
            false => (now / 1_000).max(name.last_fence + 1),
        };
        name.last_fence = fence;
        name.holds.push(Hold { id, kind, fence, count: holds, until: now + LEASE });
        // Readers behind it may come in, too.
        self.wake(at, now);
        Reply::Granted { fence }
    }

    fn renew(&mut self, now: u64, id: String, at: usize, kind: Kind) -> Reply {
        let revives = self.scenario.has(Bug::RenewalRevives) && !self.dead.contains(&id);
        let name = self.name(at, now);
        if let Some(hold) = name.holds.iter_mut().find(|hold| hold.id == id) {
            hold.until = hold.until.max(now + LEASE);
        } else if revives {
            let fence = name.last_fence;
            name.holds.push(Hold { id, kind, fence, count: 1, until: now + LEASE });
        } else {
            return Reply::Gone;
        }
        Reply::Held
    }

    fn release(&mut self, now: u64, id: String, at: usize, left: u32) -> Reply {
        let scenario = self.scenario;
        let name = self.name(at, now);
        if scenario.has(Bug::ReleaseWithoutOwner) && left == 0 && !name.holds.is_empty() {
            name.holds.clear();
            self.wake(at, now);
            return Reply::Freed;
        }
        let place = name.holds.iter().position(|hold| hold.id == id);
        if let Some(place) = place {
            let hold = &mut name.holds[place];
            if scenario.has(Bug::AcquireCountsTwice) {
                hold.count -= 1;
            } else {
                hold.count = left;
                hold.until = hold.until.max(if left > 0 { now + LEASE } else { 0 });
            }
            if hold.count > 0 {
                return Reply::Freed;
            }
            name.holds.remove(place);
        }
        if left == 0 {
            name.queue.retain(|waiter| waiter.id != id);
            self.dead.insert(id);
            self.wake(at, now);
        }
        if place.is_some() { Reply::Freed } else { Reply::Gone }
    }

    /// Wakes those who may get in now: the first of an ordered queue and the readers beside it, or all of another one.
    fn wake(&mut self, at: usize, now: u64) {
        if self.scenario.has(Bug::WakeUpLost) {
            return;
        }
        let queue = &self.name(at, now).queue;
        let first = queue.first().map(|first| first.kind);
        let together = queue.iter().enumerate().take_while(|(place, waiter)| {
            *place == 0 || !is_ordered(waiter.kind) || first.is_some_and(|first| !exclude(first, waiter.kind))
        });
        let woken: Vec<Worker> = together.map(|(_, waiter)| waiter.worker).collect();
        self.woken.extend(woken);
    }
}
