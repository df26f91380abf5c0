//! What the store does with a request: the scripts `lock_acquire`, `renew` and `lock_release` of the Redis store, for one
//! name.

use crate::property::Property;
use crate::rules::Rule;
use crate::state::{Kind, Message, State, Stored, Wall};
use crate::world::World;

impl State {
    /// Executes a request. Returns whether it found what it names, or was granted.
    pub(crate) fn execute(&mut self, world: &World, request: Message) -> bool {
        match request.kind {
            Kind::Attempt => self.try_acquire(world, request),
            Kind::Reentry => self.extend(world, request, world.short, false),
            Kind::Renew => self.extend(world, request, world.lease, !world.has(Rule::RenewalCreatesNothing)),
            Kind::Prove => self.extend(world, request, 0, false),
            Kind::Release => self.release(world, request),
        }
    }

    /// The id on the wire. Without dead ids it is that of the owner.
    fn id(world: &World, claim: u8) -> u8 {
        if world.has(Rule::DeadId) { claim } else { 1 }
    }

    fn is_of(world: &World, stored: &Stored, request: Message) -> bool {
        stored.client == request.client && Self::id(world, stored.claim) == Self::id(world, request.claim)
    }

    fn try_acquire(&mut self, world: &World, request: Message) -> bool {
        if self.extend(world, request, world.lease, true) {
            let stored = self.store.hold.as_mut().expect("it was extended or created");
            stored.claim = request.claim;
            stored.unknown &= request.deaf;
            let fence = stored.fence;
            let ask = self.clients[usize::from(request.client)].ask.as_mut();
            if let Some(ask) = ask.filter(|_| !request.deaf) {
                ask.fence = fence;
            }
            return true;
        }
        false
    }

    /// Extends the hold of a request, or creates it if the name is free. Returns whether the store has it now.
    fn extend(&mut self, world: &World, request: Message, lease: u8, creates: bool) -> bool {
        let (client, claim) = (request.client, request.claim);
        match &mut self.store.hold {
            Some(stored) if Self::is_of(world, stored, request) => {
                stored.ttl = if world.has(Rule::NeverShorten) { stored.ttl.max(lease) } else { lease };
                if stored.ttl == 0 {
                    self.store.hold = None;
                }
            }
            None if creates => {
                let fence = self.draw(world);
                let freed = self.clients[usize::from(client)].release(claim).freed;
                let unknown = request.copy || (request.stray && freed && !world.is_strict);
                self.store.hold = Some(Stored { client, claim, ttl: lease, fence, unknown });
            }
            _ => return false,
        }
        self.store.has_again |= self.store.forgot == Some((client, claim));
        true
    }

    /// Draws the fence of a grant: the wall clock, or the last one + 1 if that is larger.
    fn draw(&mut self, world: &World) -> u8 {
        let store = &mut self.store;
        let reserved = if world.has(Rule::RangeStored) { world.range - 1 } else { 0 };
        let clock = match store.wall {
            _ if !world.has(Rule::FenceFromClock) => 0,
            Wall::Later => store.ceiling + 1,
            Wall::Still => store.last - reserved,
            Wall::Back => 1,
        };
        let next = if world.has(Rule::FenceAboveLast) { store.last + 1 } else { 0 };
        let fence = clock.max(next);
        if store.wall == Wall::Later {
            store.wall = Wall::Still;
        }
        store.last = fence + reserved;
        store.ceiling = store.ceiling.max(store.last);
        self.give(fence);
        fence
    }

    /// Gives a fence to a guard, or to an attempt that may become one.
    pub(crate) fn give(&mut self, fence: u8) {
        let store = &mut self.store;
        if fence <= store.top && !store.unfenced {
            self.broken = Some(Property::Fence);
        }
        store.top = store.top.max(fence);
        store.ceiling = store.ceiling.max(fence);
    }

    fn release(&mut self, world: &World, request: Message) -> bool {
        let Some(stored) = self.store.hold else { return false };
        let is_own = Self::is_of(world, &stored, request);
        if !is_own && world.has(Rule::OwnerCheck) {
            return false;
        }
        let client = &self.clients[usize::from(stored.client)];
        let live = client.live().filter(|hold| hold.claim == stored.claim);
        if stored.client != request.client {
            self.broken = Some(Property::OwnerUnlocks);
        } else if live.is_some_and(|hold| (hold.claim, hold.turn) != (request.claim, request.turn)) {
            self.broken = Some(Property::NotFreed);
        }
        self.store.hold = None;
        if world.has(Rule::Publishes) || request.turn == 0 {
            self.publish();
        }
        true
    }

    /// Wakes all gates.
    pub(crate) fn publish(&mut self) {
        self.clients.iter_mut().filter_map(|client| client.ask.as_mut()).for_each(|ask| ask.signal = true);
    }

    /// Lets a tick pass.
    pub(crate) fn pass_tick(&mut self, world: &World) {
        if self.store.wall == Wall::Still {
            self.store.wall = Wall::Later;
        }
        let Some(stored) = &mut self.store.hold else { return };
        if !world.has(Rule::Lease) {
            return;
        }
        stored.ttl -= 1;
        if stored.ttl == 0 {
            self.store.hold = None;
            // Gates sleep no longer than the lease in their way.
            self.publish();
        }
    }

    /// Restarts the store.
    pub(crate) fn restart(&mut self, keeps: bool) {
        if !keeps {
            self.store.unfenced |= self.store.wall == Wall::Back && self.store.top > 0;
            self.store.forgot = self.store.hold.map(|stored| (stored.client, stored.claim));
            self.store.hold = None;
            self.store.last = 0;
        }
        if self.store.wall == Wall::Still {
            self.store.wall = Wall::Later;
        }
        self.clients.iter_mut().for_each(|client| client.unaware = !client.dead);
    }
}
