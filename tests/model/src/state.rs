//! One state of a model: what the store, each client and the network have at a moment.

use crate::property::Property;
use crate::world::World;

/// The most clients of a world.
pub(crate) const CLIENTS: usize = 3;
/// The most acquires of a client.
pub(crate) const CLAIMS: usize = 3;
/// The most messages under way.
pub(crate) const FLIGHT: usize = 6;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// `try_acquire` with a count of 1.
    Attempt,
    /// `try_acquire` with a count of 2.
    Reentry,
    /// `renew`.
    Renew,
    /// `renew` with a lease of zero.
    Prove,
    /// `release`.
    Release,
}

/// A request, or its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Message {
    /// What is asked for.
    pub(crate) kind: Kind,
    /// The client that asked.
    pub(crate) client: u8,
    /// The number of the acquire that it is about, which is its id on the wire.
    pub(crate) claim: u8,
    /// Which guard of the hold sent it: 0 for the one that acquired it, 1 for the one that it was passed on to.
    pub(crate) turn: u8,
    /// The answer; `None` while it is a request.
    pub(crate) answer: Option<bool>,
    /// Nobody waits for the answer.
    pub(crate) deaf: bool,
    /// Its connection broke, or it is a copy: it is in no order with others.
    pub(crate) stray: bool,
    /// It is a copy that the network made.
    pub(crate) copy: bool,
}

/// The messages under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    list: [Option<Message>; FLIGHT],
}

impl Flight {
    const EMPTY: Self = Self { list: [None; FLIGHT] };

    /// Returns the messages with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Message)> + '_ {
        self.list.iter().enumerate().filter_map(|(i, m)| m.map(|m| (i, m)))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns the message at a place.
    pub(crate) fn at(&self, i: usize) -> Message {
        self.list[i].expect("actions name messages that are there")
    }

    /// Adds a message.
    pub(crate) fn add(&mut self, message: Message) {
        let free = self.list.iter_mut().find(|m| m.is_none()).expect("a world has no more than fit");
        *free = Some(message);
    }

    /// Takes a message out.
    pub(crate) fn take(&mut self, i: usize) -> Message {
        self.list[i].take().expect("actions name messages that are there")
    }

    /// Changes messages.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut Message)) {
        self.list.iter_mut().flatten().for_each(change);
    }

    /// Takes out all answers that nobody waits for.
    pub(crate) fn tidy(&mut self) {
        for m in &mut self.list {
            m.take_if(|m| m.deaf && m.answer.is_some());
        }
    }

    /// Whether there is such a message.
    pub(crate) fn any(&self, is: impl Fn(Message) -> bool) -> bool {
        self.iter().any(|(_, m)| is(m))
    }
}

/// What the store keeps of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Whose it is.
    pub(crate) client: u8,
    /// Of which acquire.
    pub(crate) claim: u8,
    /// What is left of its lease.
    pub(crate) ttl: u8,
    /// Its fence.
    pub(crate) fence: u8,
    /// Nobody can know of it: a copy of an attempt created it, or one of a broken connection after its release.
    pub(crate) unknown: bool,
}

/// The wall clock of the store, as far as fences are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wall {
    /// It is later than all fences.
    Later,
    /// It has not moved since the last fence was taken from it.
    Still,
    /// It was set back before all fences.
    Back,
}

/// The store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    /// The hold of the one name.
    pub(crate) hold: Option<Stored>,
    /// The last fence that it has recorded, 0 if it has none.
    pub(crate) last: u8,
    /// Its wall clock.
    pub(crate) wall: Wall,
    /// The largest fence that any guard was given.
    pub(crate) top: u8,
    /// The largest fence that was ever reserved.
    pub(crate) ceiling: u8,
    /// It lost the record while its wall clock was set back: fences may go back from then on.
    pub(crate) unfenced: bool,
    /// The hold that it forgot, by client and acquire.
    pub(crate) forgot: Option<(u8, u8)>,
    /// It has that hold again: a late attempt created it anew.
    pub(crate) has_again: bool,
}

/// The side of a client of an acquire that was not granted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Whether an attempt is under way, or it waits at the gate.
    pub(crate) sent: bool,
    /// The ticks since the attempt was sent, at most the validity.
    pub(crate) age: u8,
    /// There was a suspicion since the attempt was sent.
    pub(crate) suspicion: bool,
    /// The gate has a reason to try at once.
    pub(crate) signal: bool,
    /// The fence that the store gave it.
    pub(crate) fence: u8,
}

/// Which owner has a second entry into a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered {
    /// Nobody.
    No,
    /// The owner of the guard.
    Own,
    /// The owner who had the hold before it was passed on.
    Older,
}

/// An open call about a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// There is none.
    None,
    /// A renewal.
    Renew,
    /// A verification after a suspicion.
    Prove,
}

/// The side of a client of a hold, until its last guard is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// Of which acquire.
    pub(crate) claim: u8,
    /// For how long it is held by the clock of the client: at 0 it is lost.
    pub(crate) valid: u8,
    /// How often it was passed on.
    pub(crate) turn: u8,
    /// The fence of its guard.
    pub(crate) fence: u8,
    /// The open call about it.
    pub(crate) call: Call,
    /// The ticks since that was sent.
    pub(crate) age: u8,
    /// It has to be verified.
    pub(crate) doubt: bool,
    /// Its guard got it while it had to be verified.
    pub(crate) given_in_doubt: bool,
    /// Who has a second entry.
    pub(crate) entered: Entered,
    /// Who waits for the answer to a re-entry.
    pub(crate) entering: Entered,
    /// The guard before this one kept a right to release it.
    pub(crate) old_right: bool,
}

/// How far the release of a claim is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    /// There is none under way.
    No,
    /// It was sent.
    Sent,
    /// It must be sent again.
    Due,
}

/// The release of one claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    /// How far it is.
    pub(crate) leaving: Leaving,
    /// The guard that it is for.
    pub(crate) turn: u8,
    /// The store has confirmed that it freed it.
    pub(crate) freed: bool,
}

/// One client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// How many acquires it has begun.
    pub(crate) begun: u8,
    /// It died.
    pub(crate) dead: bool,
    /// The store restarted, and the client has not noticed.
    pub(crate) unaware: bool,
    /// Its acquire that is not granted yet, which is the last one that it has begun.
    pub(crate) ask: Option<Ask>,
    /// Its hold.
    pub(crate) hold: Option<Hold>,
    /// Its releases, by acquire.
    pub(crate) releases: [Release; CLAIMS],
    /// The acquire and the turn of a hold whose id somebody outside knows.
    pub(crate) named: Option<(u8, u8)>,
}

impl Client {
    /// Returns the release of an acquire.
    pub(crate) fn release(&mut self, claim: u8) -> &mut Release {
        &mut self.releases[usize::from(claim) - 1]
    }

    /// Returns the hold if its guard says that it is held.
    pub(crate) fn live(&self) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.valid > 0)
    }
}

/// How often what a world bounds may still happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// See [`World`] for these.
    pub(crate) faults: u8,
    pub(crate) unanswered: u8,
    pub(crate) repeats: u8,
    pub(crate) slow: u8,
    pub(crate) restarts: u8,
    pub(crate) set_back: u8,
    pub(crate) deaths: u8,
    pub(crate) acquires: u8,
    pub(crate) reentries: u8,
    pub(crate) named: u8,
}

impl Left {
    /// Nothing is left of any fault if nothing is left of all together.
    pub(crate) fn of_faults(self) -> Self {
        if self.faults > 0 {
            return self;
        }
        Self { unanswered: 0, repeats: 0, slow: 0, restarts: 0, set_back: 0, deaths: 0, ..self }
    }
}

/// One state of a model.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The store.
    pub(crate) store: Store,
    /// The clients.
    pub(crate) clients: [Client; CLIENTS],
    /// The network.
    pub(crate) flight: Flight,
    /// What may still go wrong.
    pub(crate) left: Left,
    /// What the step to this state has broken.
    pub(crate) broken: Option<Property>,
}

/// A state in as few words as possible, with clients in any order and fences only as they compare.
pub type Key = [u64; 6];

impl State {
    /// The state in which nobody has done anything.
    pub fn first(world: &World) -> Self {
        let release = Release { leaving: Leaving::No, turn: 0, freed: false };
        let client = Client {
            begun: 0,
            dead: false,
            unaware: false,
            ask: None,
            hold: None,
            releases: [release; CLAIMS],
            named: None,
        };
        let store = Store {
            hold: None,
            last: 0,
            wall: Wall::Later,
            top: 0,
            ceiling: 0,
            unfenced: false,
            forgot: None,
            has_again: false,
        };
        let left = Left {
            faults: world.faults,
            acquires: world.in_all,
            unanswered: world.unanswered,
            repeats: world.repeats,
            slow: world.slow,
            restarts: world.restarts,
            set_back: world.set_back,
            deaths: world.deaths,
            reentries: world.reentries,
            named: world.named,
        };
        Self { store, clients: [client; CLIENTS], flight: Flight::EMPTY, left, broken: None }
    }

    /// Two states with the same key behave alike.
    pub fn key(&self, world: &World) -> Key {
        const ORDERS: [[u8; CLIENTS]; 6] = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let clients = self.clients.map(|client| client.packed(|fence| self.kept(world, fence)));
        let orders = if world.clients < 3 { &ORDERS[..2] } else { &ORDERS[..] };
        // Sorted by what they do; of those that do the same, either may be first.
        let sorted = orders.iter().filter(|order| {
            order[..usize::from(world.clients)]
                .windows(2)
                .all(|two| clients[usize::from(two[0])] <= clients[usize::from(two[1])])
        });
        sorted.map(|order| self.packed(world, order, &clients)).min().expect("one of them is sorted")
    }

    /// Only fences that a hand-over may pass on matter beside those of the store, and all only by their distances.
    fn kept(&self, world: &World, fence: u8) -> u64 {
        if world.hand_over { self.shown(fence) } else { 0 }
    }

    fn shown(&self, fence: u8) -> u64 {
        match fence {
            0 => 0,
            _ => u64::from((fence + 16).saturating_sub(self.store.top).clamp(1, 31)),
        }
    }

    /// Packs the state, with the clients in this order.
    fn packed(&self, world: &World, order: &[u8; CLIENTS], clients: &[u64; CLIENTS]) -> Key {
        let mut bits = Bits::default();
        let store = &self.store;
        let place = |client: u8| order.iter().position(|c| *c == client).map_or(0, |at| at as u64 + 1);
        match store.hold {
            None => bits.add(0, 2),
            Some(hold) => {
                bits.add(place(hold.client), 2);
                bits.add(u64::from(hold.claim), 2);
                bits.add(u64::from(hold.ttl), 3);
                bits.add(self.kept(world, hold.fence), 5);
                bits.add(u64::from(hold.unknown), 1);
            }
        }
        bits.add(if store.unfenced { 0 } else { self.shown(store.last) }, 5);
        bits.add(if store.unfenced { 0 } else { self.shown(store.ceiling) }, 5);
        bits.add(u64::from(store.top > 0), 1);
        bits.add(store.wall as u64, 2);
        bits.add(u64::from(store.unfenced), 1);
        let (client, claim) =
            store.forgot.map_or((0, 0), |(client, claim)| (place(client), u64::from(claim)));
        bits.add(client, 2);
        bits.add(claim, 2);
        bits.add(u64::from(store.has_again), 1);
        let left = self.left.of_faults();
        for n in [left.faults, left.unanswered, left.repeats, left.restarts] {
            bits.add(u64::from(n), 2);
        }
        for n in [left.slow, left.set_back, left.deaths, left.reentries, left.named] {
            bits.add(u64::from(n), 1);
        }
        bits.add(self.broken.map_or(0, |property| property as u64 + 1), 4);
        for client in &order[..usize::from(world.clients)] {
            bits.add(clients[usize::from(*client)], 62);
        }
        let mut flight = [0; FLIGHT];
        for (to, (_, message)) in flight.iter_mut().zip(self.flight.iter()) {
            *to = message.packed(place(message.client));
        }
        flight.sort_unstable();
        for message in flight {
            bits.add(message, 15);
        }
        bits.words
    }
}

impl Message {
    /// A request, on a connection that works.
    pub(crate) fn new(kind: Kind, client: u8, claim: u8, turn: u8) -> Self {
        Self { kind, client, claim, turn, answer: None, deaf: false, stray: false, copy: false }
    }

    fn packed(&self, client: u64) -> u64 {
        let answer = self.answer.map_or(1, |yes| 2 + u64::from(yes));
        let flags = u64::from(self.deaf) << 2 | u64::from(self.stray) << 1 | u64::from(self.copy);
        answer << 13
            | (self.kind as u64) << 10
            | client << 8
            | u64::from(self.claim) << 6
            | u64::from(self.turn) << 4
            | flags
    }
}

impl Client {
    fn packed(&self, kept: impl Fn(u8) -> u64) -> u64 {
        let mut bits = Bits::default();
        bits.add(u64::from(self.begun), 2);
        bits.add(u64::from(self.dead), 1);
        bits.add(u64::from(self.unaware), 1);
        bits.add(u64::from(self.ask.is_some()), 1);
        if let Some(ask) = self.ask {
            bits.add(u64::from(ask.sent), 1);
            bits.add(u64::from(ask.age), 3);
            bits.add(u64::from(ask.suspicion), 1);
            bits.add(u64::from(ask.signal), 1);
            bits.add(kept(ask.fence), 5);
        }
        bits.add(u64::from(self.hold.is_some()), 1);
        if let Some(hold) = self.hold {
            bits.add(u64::from(hold.claim), 2);
            bits.add(u64::from(hold.valid), 3);
            bits.add(u64::from(hold.turn), 2);
            bits.add(kept(hold.fence), 5);
            bits.add(hold.call as u64, 2);
            bits.add(u64::from(hold.age), 3);
            bits.add(u64::from(hold.doubt), 1);
            bits.add(u64::from(hold.given_in_doubt), 1);
            bits.add(hold.entered as u64, 2);
            bits.add(hold.entering as u64, 2);
            bits.add(u64::from(hold.old_right), 1);
        }
        for release in self.releases {
            bits.add(release.leaving as u64, 2);
            bits.add(u64::from(release.turn), 2);
            bits.add(u64::from(release.freed), 1);
        }
        let (claim, turn) = self.named.unwrap_or((0, 0));
        bits.add(u64::from(claim), 2);
        bits.add(u64::from(turn), 2);
        bits.words[0]
    }
}

/// Numbers of few bits, one after the other.
#[derive(Default)]
struct Bits {
    words: Key,
    at: usize,
}

impl Bits {
    fn add(&mut self, value: u64, bits: usize) {
        debug_assert!(value < 1 << bits, "{value} has more than {bits} bits");
        let (word, from) = (self.at / 64, self.at % 64);
        self.words[word] |= value << from;
        if from + bits > 64 {
            self.words[word + 1] |= value >> (64 - from);
        }
        self.at += bits;
    }
}
