//! What can happen next: the steps of clients, store, network and clocks, under the names of the functions in
//! `tenure-core`.

use crate::property::Property;
use crate::rules::Rule;
use crate::state::{Call, Entered, Kind, Leaving, State, Wall};
use crate::world::World;

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Time passes for all. What has come to its end expires.
    Tick,
    /// Time passes for all but this client.
    SlowTick(u8),
    /// A client begins an acquire: `first`.
    TryAcquire(u8),
    /// It tries again with the same id, because there was no answer, or as its gate does.
    TryAgain(u8),
    /// It gives up its acquire: `leave_claim`.
    LeaveClaim(u8),
    /// Its keeper renews its hold: `Due::Renew`.
    Renew(u8),
    /// Its keeper verifies its hold: `Due::Prove`.
    Prove(u8),
    /// An owner enters its hold again: `reenter`.
    Reenter(u8, Entered),
    /// The guard of a re-entry is dropped: `Leave::Inner`.
    LeaveInner(u8),
    /// The last guard is dropped: `leave_hold`.
    LeaveHold(u8),
    /// Its keeper finds that its hold is over: `let_go`.
    LetGo(u8),
    /// Its worker sends a release again: `leave`.
    Leave(u8, u8),
    /// It learns that the store has restarted: `suspect_all`.
    Suspect(u8),
    /// It dies.
    Die(u8),
    /// The store executes a request.
    Execute(usize),
    /// An answer arrives.
    Answer(usize),
    /// The client stops waiting for an answer, since the connection broke or the time is over.
    Unanswered(usize),
    /// The network copies a request.
    Repeat(usize),
    /// The store restarts, with its memory or without.
    Restart(bool),
    /// The wall clock of the store is set back.
    SetBack,
    /// A guard that is dropped passes its hold on to a waiter of its client.
    PassOn(u8),
    /// The guard that passed its hold on releases it nevertheless.
    LateDrop(u8),
    /// The id of a hold is given to somebody outside.
    Name(u8),
    /// Somebody outside releases a hold by its id, because the guard that it was named after is gone.
    ReleaseByName(u8),
}

impl Action {
    /// Whether it is a fault.
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::SlowTick(_)
                | Self::Die(_)
                | Self::Unanswered(_)
                | Self::Repeat(_)
                | Self::Restart(_)
                | Self::SetBack
        )
    }

    /// Whether it is part of how things end: no fault, no new acquire, nothing given up.
    pub(crate) fn is_progress(self) -> bool {
        !self.is_fault() && !matches!(self, Self::TryAcquire(_) | Self::LeaveClaim(_))
    }
}

impl World {
    /// Collects what can happen in a state.
    pub fn actions(&self, state: &State, into: &mut Vec<Action>) {
        into.clear();
        for client in 0..self.clients {
            self.of_client(state, client, into);
        }
        let left = state.left.of_faults();
        for (i, message) in state.flight.iter() {
            if message.answer.is_some() {
                into.push(Action::Answer(i));
            } else if !self.is_behind(state, i) {
                into.push(Action::Execute(i));
            }
            if left.unanswered > 0 && !message.deaf {
                into.push(Action::Unanswered(i));
            }
            let room = state.flight.len() < self.in_flight;
            if left.repeats > 0 && message.answer.is_none() && !message.copy && room {
                into.push(Action::Repeat(i));
            }
        }
        let is_used = state.store.hold.is_some() || state.clients.iter().any(|client| client.begun > 0);
        if left.restarts > 0 && is_used {
            into.extend([Action::Restart(true), Action::Restart(false)]);
        }
        if left.set_back > 0 && state.store.top > 0 {
            into.push(Action::SetBack);
        }
        into.push(Action::Tick);
        let counts = |c: &u8| {
            let client = &state.clients[usize::from(*c)];
            left.slow > 0 && (client.hold.is_some() || client.ask.is_some_and(|ask| ask.sent))
        };
        into.extend((0..self.clients).filter(counts).map(Action::SlowTick));
    }

    fn of_client(&self, state: &State, c: u8, into: &mut Vec<Action>) {
        let client = &state.clients[usize::from(c)];
        if client.dead {
            return;
        }
        let room = state.flight.len() < self.in_flight;
        if client.ask.is_none()
            && client.begun < self.acquires
            && state.left.acquires > 0
            && (client.hold.is_none() || self.hand_over)
            && room
        {
            into.push(Action::TryAcquire(c));
        }
        if let Some(ask) = client.ask {
            if !ask.sent && room {
                into.push(Action::TryAgain(c));
            }
            into.push(Action::LeaveClaim(c));
        }
        for claim in 1..=client.begun {
            if client.releases[usize::from(claim) - 1].leaving == Leaving::Due && room {
                into.push(Action::Leave(c, claim));
            }
        }
        if client.unaware {
            into.push(Action::Suspect(c));
        }
        if state.left.of_faults().deaths > 0 && client.begun > 0 {
            into.push(Action::Die(c));
        }
        if let Some((claim, turn)) = client.named {
            let is_live = client.live().is_some_and(|hold| (hold.claim, hold.turn) == (claim, turn));
            if !is_live && room {
                into.push(Action::ReleaseByName(c));
            }
        }
        let Some(hold) = &client.hold else { return };
        if hold.old_right && room {
            into.push(Action::LateDrop(c));
        }
        if hold.valid == 0 {
            into.push(Action::LetGo(c));
            return;
        }
        if hold.call == Call::None && room {
            if hold.doubt {
                into.push(Action::Prove(c));
            } else if hold.valid < self.validity(self.lease) {
                into.push(Action::Renew(c));
            }
        }
        match hold.entered {
            Entered::No => into.push(Action::LeaveHold(c)),
            _ => into.push(Action::LeaveInner(c)),
        }
        let none = hold.entered == Entered::No && hold.entering == Entered::No;
        if state.left.reentries > 0 && none && room {
            into.push(Action::Reenter(c, Entered::Own));
            if hold.turn > 0 && !self.has(Rule::LeavesTable) {
                into.push(Action::Reenter(c, Entered::Older));
            }
        }
        if state.left.named > 0 && client.named.is_none() {
            into.push(Action::Name(c));
        }
        if client.ask.is_some() && self.may_pass_on(state, c) {
            into.push(Action::PassOn(c));
        }
    }

    /// Whether the rules let a hold be passed on.
    fn may_pass_on(&self, state: &State, c: u8) -> bool {
        let client = &state.clients[usize::from(c)];
        let Some(hold) = client.hold else { return false };
        let unless = |rule, is: bool| is || !self.has(rule);
        self.hand_over
            && hold.turn < 3
            && unless(Rule::NoOpenEntry, hold.entering == Entered::No)
            && unless(Rule::NoOpenRenewal, hold.call != Call::Renew)
            && unless(Rule::NoSuspicion, !hold.doubt && hold.call != Call::Prove)
            && unless(Rule::NotNamed, client.named.is_none_or(|(claim, _)| claim != hold.claim))
            && unless(Rule::OnlyOne, hold.entered == Entered::No)
            && unless(Rule::EnoughLeft, hold.valid >= self.validity(self.next_lease))
            && unless(Rule::InsideRange, hold.turn + 1 < self.range)
            && unless(Rule::Turns, hold.turn < self.turns)
    }

    /// Whether a request has to wait for one before it on the same connection: a release for the attempt of its claim.
    fn is_behind(&self, state: &State, i: usize) -> bool {
        let request = state.flight.at(i);
        request.kind == Kind::Release
            && !request.stray
            && self.has(Rule::SameLane)
            && state.flight.any(|m| {
                (m.kind, m.client, m.claim) == (Kind::Attempt, request.client, request.claim)
                    && m.answer.is_none()
                    && !m.stray
            })
    }

    /// Returns the state after a step.
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = *state;
        if action.is_fault() {
            next.left.faults -= 1;
        }
        match action {
            Action::Tick => next.tick(self, None),
            Action::SlowTick(c) => {
                next.left.slow -= 1;
                next.tick(self, Some(c));
            }
            Action::Execute(i) => next.arrive(self, i),
            Action::Answer(i) => next.answer(self, i),
            Action::Unanswered(i) => next.unanswered(i),
            Action::Repeat(i) => {
                next.left.repeats -= 1;
                let mut copy = next.flight.at(i);
                (copy.deaf, copy.stray, copy.copy) = (true, true, true);
                next.flight.add(copy);
            }
            Action::Restart(keeps) => {
                next.left.restarts -= 1;
                next.restart(keeps);
            }
            Action::SetBack => {
                next.left.set_back -= 1;
                next.store.wall = Wall::Back;
                next.store.unfenced |= next.store.last == 0;
            }
            Action::PassOn(c) => next.pass_on(self, c),
            _ => next.step(self, action),
        }
        next
    }
}

impl State {
    /// Lets a tick pass, except for the clock of one client.
    fn tick(&mut self, world: &World, slow: Option<u8>) {
        self.pass_tick(world);
        for (c, client) in self.clients.iter_mut().enumerate() {
            if slow.is_some_and(|slow| usize::from(slow) == c) {
                continue;
            }
            // What is older than the longest validity is as good as that old.
            let most = world.validity(world.lease);
            if let Some(ask) = &mut client.ask {
                ask.age = if ask.sent { (ask.age + 1).min(most) } else { 0 };
            }
            if let Some(hold) = &mut client.hold {
                hold.valid = hold.valid.saturating_sub(1);
                hold.age = if hold.call == Call::None { 0 } else { (hold.age + 1).min(most) };
            }
        }
    }

    /// A guard is dropped, and a waiter of the client gets the hold: the same id, a new guard, the next fence.
    fn pass_on(&mut self, world: &World, c: u8) {
        let client = &mut self.clients[usize::from(c)];
        let Some(hold) = &mut client.hold else { return };
        let is_doubted = hold.doubt || hold.call == Call::Prove;
        hold.turn += 1;
        hold.fence += 1;
        hold.given_in_doubt |= is_doubted;
        hold.old_right = !world.has(Rule::OneRight);
        if hold.entered == Entered::Own {
            hold.entered = Entered::Older;
        }
        if hold.entering == Entered::Own {
            hold.entering = Entered::Older;
        }
        if !world.has(Rule::FromLastProof) {
            hold.valid = world.validity(world.lease);
        }
        let (fence, claim) = (hold.fence, hold.claim);
        let (turn, valid) = (hold.turn, hold.valid);
        // A hold that the store has forgotten keeps its place among the fences, below those granted since.
        if self.store.forgot != Some((c, claim)) || world.is_strict {
            self.give(fence);
        }
        if valid < world.validity(world.next_lease) {
            self.broken = Some(Property::LongEnough);
        }
        if turn > world.turns {
            self.broken = Some(Property::InTurn);
        }
        if world.has(Rule::WaiterUndone) {
            self.step(world, Action::LeaveClaim(c));
        } else {
            self.stop_asking(c);
        }
    }
}
