//! What a client does: its calls, the answers to them, and what it does when there are none.

use crate::action::Action;
use crate::property::Property;
use crate::rules::Rule;
use crate::state::{Ask, Call, Client, Entered, Hold, Kind, Leaving, Message, State};
use crate::world::World;

impl State {
    /// A step of one client.
    pub(crate) fn step(&mut self, world: &World, action: Action) {
        match action {
            Action::TryAcquire(c) => {
                self.left.acquires -= 1;
                let client = self.client(c);
                client.begun += 1;
                let claim = client.begun;
                client.ask = Some(Ask { sent: true, age: 0, suspicion: false, signal: true, fence: 0 });
                self.send(Kind::Attempt, c, claim, 0);
            }
            Action::TryAgain(c) => {
                let client = self.client(c);
                let claim = client.begun;
                client.ask = Some(Ask { sent: true, age: 0, suspicion: false, signal: false, fence: 0 });
                self.send(Kind::Attempt, c, claim, 0);
            }
            Action::LeaveClaim(c) => {
                let claim = self.client(c).begun;
                self.stop_asking(c);
                if world.has(Rule::Undo) {
                    self.leave(world, c, claim, 0);
                }
            }
            Action::Renew(c) => self.call(c, Kind::Renew, Call::Renew),
            Action::Prove(c) => self.call(c, Kind::Prove, Call::Prove),
            Action::Reenter(c, who) => {
                self.left.reentries -= 1;
                if let Some(hold) = &mut self.client(c).hold {
                    hold.entering = who;
                    let (claim, turn) = (hold.claim, hold.turn);
                    self.send(Kind::Reentry, c, claim, turn);
                }
            }
            Action::LeaveInner(c) => {
                if let Some(hold) = &mut self.client(c).hold {
                    hold.entered = Entered::No;
                }
            }
            Action::LeaveHold(c) => self.leave_hold(world, c),
            Action::LetGo(c) if !world.has(Rule::LostIsReleased) => drop(self.end_hold(c)),
            Action::LetGo(c) => self.leave_hold(world, c),
            Action::Leave(c, claim) => {
                let turn = self.client(c).release(claim).turn;
                self.leave(world, c, claim, turn);
            }
            Action::Suspect(c) => self.suspect(world, c),
            Action::Die(c) => self.die(c),
            Action::LateDrop(c) => {
                if let Some(hold) = &mut self.client(c).hold {
                    hold.old_right = false;
                    let (claim, turn) = (hold.claim, hold.turn - 1);
                    self.leave(world, c, claim, turn);
                }
            }
            Action::Name(c) => {
                self.left.named -= 1;
                let client = self.client(c);
                client.named = client.hold.map(|hold| (hold.claim, hold.turn));
            }
            Action::ReleaseByName(c) => {
                if let Some((claim, turn)) = self.client(c).named.take() {
                    self.flight.add(Message { deaf: true, ..Message::new(Kind::Release, c, claim, turn) });
                }
            }
            _ => unreachable!("not a step of a client"),
        }
    }

    fn client(&mut self, c: u8) -> &mut Client {
        &mut self.clients[usize::from(c)]
    }

    fn send(&mut self, kind: Kind, client: u8, claim: u8, turn: u8) {
        self.flight.add(Message::new(kind, client, claim, turn));
    }

    fn call(&mut self, c: u8, kind: Kind, call: Call) {
        if let Some(hold) = &mut self.client(c).hold {
            hold.call = call;
            hold.age = 0;
            hold.doubt &= call != Call::Prove;
            let (claim, turn) = (hold.claim, hold.turn);
            self.send(kind, c, claim, turn);
        }
    }

    /// Nobody waits any more for the answers to these requests of a client.
    fn forget(&mut self, c: u8, is: impl Fn(&Message) -> bool) {
        self.flight.each(|m| m.deaf |= m.client == c && is(m));
        self.flight.tidy();
    }

    /// Ends an acquire that was not granted.
    pub(crate) fn stop_asking(&mut self, c: u8) {
        self.client(c).ask = None;
        self.forget(c, |m| m.kind == Kind::Attempt);
    }

    /// Sends a release, or leaves that for later if nothing more can be under way.
    fn leave(&mut self, world: &World, c: u8, claim: u8, turn: u8) {
        let room = self.flight.len() < world.in_flight;
        let release = self.client(c).release(claim);
        release.turn = turn;
        release.leaving = if room { Leaving::Sent } else { Leaving::Due };
        if room {
            self.send(Kind::Release, c, claim, turn);
        }
    }

    /// Takes the hold from a client.
    fn end_hold(&mut self, c: u8) -> Option<Hold> {
        let hold = self.client(c).hold.take();
        self.forget(c, |m| matches!(m.kind, Kind::Renew | Kind::Prove | Kind::Reentry));
        hold
    }

    fn leave_hold(&mut self, world: &World, c: u8) {
        if let Some(hold) = self.end_hold(c) {
            self.leave(world, c, hold.claim, hold.turn);
        }
    }

    fn suspect(&mut self, world: &World, c: u8) {
        let client = self.client(c);
        client.unaware = false;
        if let Some(hold) = &mut client.hold {
            hold.doubt |= world.has(Rule::Suspicion);
        }
        if let Some(ask) = &mut client.ask {
            ask.suspicion |= ask.sent && world.has(Rule::SuspicionInFlight);
            ask.signal = true;
        }
    }

    fn die(&mut self, c: u8) {
        self.left.deaths -= 1;
        self.stop_asking(c);
        self.end_hold(c);
        let client = self.client(c);
        client.dead = true;
        client.unaware = false;
        client.named = None;
        client.releases.iter_mut().for_each(|release| release.leaving = Leaving::No);
        self.forget(c, |_| true);
    }

    /// A client stops waiting for the answer to a message.
    pub(crate) fn unanswered(&mut self, i: usize) {
        self.left.unanswered -= 1;
        let mut message = self.flight.take(i);
        let client = self.client(message.client);
        match message.kind {
            Kind::Attempt => {
                if let Some(ask) = &mut client.ask {
                    (ask.sent, ask.age, ask.signal) = (false, 0, true);
                }
            }
            Kind::Release => {
                client.release(message.claim).leaving = Leaving::Due;
                // The attempt before it was on the connection that broke.
                let is_before = |m: &Message| {
                    (m.kind, m.client, m.claim) == (Kind::Attempt, message.client, message.claim)
                };
                self.flight.each(|m| m.stray |= is_before(m));
            }
            Kind::Reentry => {
                if let Some(hold) = &mut client.hold {
                    hold.entering = Entered::No;
                }
            }
            Kind::Renew | Kind::Prove => {
                if let Some(hold) = &mut client.hold {
                    hold.doubt |= hold.call == Call::Prove;
                    (hold.call, hold.age) = (Call::None, 0);
                }
            }
        }
        if message.answer.is_none() {
            (message.deaf, message.stray) = (true, true);
            self.flight.add(message);
        }
    }

    /// A request arrives at the store.
    pub(crate) fn arrive(&mut self, world: &World, i: usize) {
        let request = self.flight.take(i);
        let yes = self.execute(world, request);
        match request.kind {
            _ if request.deaf => {}
            Kind::Release => self.left(world, request, yes),
            Kind::Attempt if !yes => self.busy(request.client),
            _ => self.flight.add(Message { answer: Some(yes), ..request }),
        }
    }

    /// The answer that others hold. It comes at once: a late one is as good as a late second attempt.
    fn busy(&mut self, c: u8) {
        if let Some(ask) = &mut self.client(c).ask {
            (ask.sent, ask.age) = (false, 0);
        }
    }

    /// The answer to a release. It comes at once: one that is late changes nothing, and one that is lost is as good as a
    /// release that is late.
    fn left(&mut self, world: &World, request: Message, freed: bool) {
        let attempt = |m: Message| {
            (m.kind, m.client, m.claim) == (Kind::Attempt, request.client, request.claim)
                && m.answer.is_none()
                && m.stray
                && !m.copy
        };
        let may_arrive = world.has(Rule::UndoUntilCertain) && self.flight.any(attempt);
        let release = self.client(request.client).release(request.claim);
        release.freed |= freed;
        release.leaving = if freed || !may_arrive { Leaving::No } else { Leaving::Due };
    }

    /// An answer arrives at its client.
    pub(crate) fn answer(&mut self, world: &World, i: usize) {
        let answer = self.flight.take(i);
        let (c, yes) = (answer.client, answer.answer == Some(true));
        match answer.kind {
            Kind::Attempt => self.admit(world, c),
            Kind::Reentry => self.entered(world, c, yes),
            _ => self.renewed(world, answer, yes),
        }
    }

    /// Makes a hold of a grant, unless it has ended.
    fn admit(&mut self, world: &World, c: u8) {
        let client = self.client(c);
        let (claim, before) = (client.begun, client.hold);
        let Some(ask) = client.ask.take() else { return };
        let age = if world.has(Rule::FromSending) { ask.age } else { 0 };
        let valid = world.validity(world.lease).saturating_sub(age);
        if valid == 0 {
            self.leave(world, c, claim, 0);
            return;
        }
        if before.is_some() {
            // Only one that is over, or that the store has forgotten, can be in the way.
            if client.live().is_some() && self.store.forgot.is_none() {
                self.broken = Some(Property::Exclusion);
            }
            self.leave_hold(world, c);
        }
        self.client(c).hold = Some(Hold {
            claim,
            valid,
            turn: 0,
            fence: ask.fence,
            call: Call::None,
            age: 0,
            doubt: ask.suspicion,
            given_in_doubt: false,
            entered: Entered::No,
            entering: Entered::No,
            old_right: false,
        });
    }

    /// The answer to a re-entry.
    fn entered(&mut self, world: &World, c: u8, yes: bool) {
        let Some(hold) = &mut self.client(c).hold else { return };
        let who = std::mem::replace(&mut hold.entering, Entered::No);
        if !yes {
            self.leave_hold(world, c);
        } else if hold.valid > 0 {
            hold.entered = who;
        }
    }

    /// The answer to a renewal or a verification.
    fn renewed(&mut self, world: &World, answer: Message, yes: bool) {
        let c = answer.client;
        let Some(hold) = &mut self.client(c).hold else { return };
        let (call, age) = (hold.call, hold.age);
        (hold.call, hold.age) = (Call::None, 0);
        if !yes {
            // It is about the hold, whoever asked.
            if world.has(Rule::CurrentGuard) || hold.turn == answer.turn {
                self.leave_hold(world, c);
            } else if hold.valid > 0 {
                self.broken = Some(Property::GoneIsLost);
            }
            return;
        }
        if call == Call::Prove {
            return;
        }
        let was_lost = hold.valid == 0;
        if was_lost && world.has(Rule::LostStaysLost) {
            self.leave_hold(world, c);
            return;
        }
        let age = if world.has(Rule::FromSending) { age } else { 0 };
        hold.valid = hold.valid.max(world.validity(world.lease).saturating_sub(age));
        if was_lost && hold.valid > 0 {
            self.broken = Some(Property::StaysLost);
        }
    }
}
