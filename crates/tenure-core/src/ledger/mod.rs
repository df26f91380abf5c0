//! The rules of every kind over plain data: the holders of a name, its waiters, its fence, its count.
//!
//! Pure: the store passes its own `now`, and decides how to persist the data. One rule, `InTheWay::admits`, decides who
//! is granted, given everyone who is ahead.

mod admission;
mod count;
mod entries;
mod expiry;
mod memory;
mod records;
mod size;
mod snapshot;
mod store;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::admission::InTheWay;
use self::size::IDLE;
use crate::backend::{
    Claim, ClientId, Counter, Error, Family, Fence, HoldId, Kind, Name, Process, Released, Result,
};

pub use admission::admits;
pub use count::{Count, Ops};
pub use entries::Entries;
pub use expiry::{Expiry, Now};
pub use memory::{Memory, MemoryStore};
pub use store::{LedgerStore, Ledgered, Watched};

/// The state of one name: its holders, its waiters, its fence, its count. A store keeps one per name, and passes each
/// request to it inside a transaction.
///
/// ```
/// # use std::collections::HashSet;
/// # use std::time::Duration;
/// # use tenure_core::backend::{
/// #     Claim, ClientId, CountOp, Counter, Family, HoldId, Kind, Name, OpId, Process, Released,
/// # };
/// # use tenure_core::ledger::{Found, Ledger, Now, Outcome};
/// let (client, name) = (ClientId::new(), Name::new("orders/42")?);
/// let now = Now { clock: 0, tick: 1_000_000, wall: 1_700_000_000_000_000 };
/// let mut ledger = Ledger::above(41); // fences begin with 42
/// let first = Claim::of(HoldId { client, n: 1 }, name.clone(), Kind::Lock);
/// let second = Claim { wait: Some(Duration::MAX), ..Claim::of(HoldId { client, n: 2 }, name.clone(), Kind::Lock) };
///
/// assert!(matches!(ledger.attempt(&first, Process::current(), now)?, Outcome::Granted(_)));
/// assert!(matches!(ledger.attempt(&second, Process::current(), now)?, Outcome::Busy { .. }));
/// assert_eq!(ledger.family(), Some(Family::Lock));
/// assert_eq!(ledger.snapshot(&name, now).map(|seen| (seen.holders.len(), seen.waiters.len())), Some((1, 1)));
/// assert_eq!(ledger.renew([&first, &second], now), [Found::Held, Found::Queued]);
///
/// assert_eq!(ledger.release(&first, 0, now), Released::Freed);
/// assert_eq!(ledger.effects.admit, [client]); // the store wakes this client: its turn has come
/// ledger.each_admitted(|next| next == client);
/// ledger.forget_waiters(&HashSet::from([client])); // it is dead
/// assert!(ledger.is_idle());
///
/// // A latch: a number instead of holders.
/// ledger.watch(client, now); // wakes this client when the number changes
/// let op = OpId { client, n: 1, settled: 1 };
/// assert!(ledger.count(&name, Counter::Latch, CountOp::Init(3), op, now)?.applied);
/// ledger.prune(Now { tick: now.tick + 60_000_000, ..now }); // a minute later
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The last fence that was issued.
    pub fence: u64,
    /// Size of a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// When the size is forgotten unless somebody uses the semaphore: only if it came with a claim, which the next claim
    /// brings again. One that was set explicitly stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Expiry>,
    /// Number of a latch or counting semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
    /// The current holders.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub holders: Entries<Holder>,
    /// The waiters, in order of arrival.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub waiters: Entries<Waiter>,
    /// Operations on counts that may be repeated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<Ops>,
    /// Clients that watch the count or the holder from another process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<Watcher>,
    /// The effects of the last change, for the store to persist and to signal.
    #[serde(skip)]
    pub effects: Effects,
}

/// A holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of the hold.
    pub id: HoldId,
    /// How it shares the name.
    pub kind: Kind,
    /// The re-entry count.
    pub holds: u32,
    /// Its fence.
    pub fence: u64,
    /// How long it lasts without renewal.
    pub lease: Duration,
    /// When it ends.
    pub expiry: Expiry,
    /// Wall clock at the time of the grant.
    pub since: u64,
    /// A note for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<Arc<str>>,
    /// The process of the holder.
    pub process: Arc<Process>,
}

/// A waiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiter {
    /// The id of the claim.
    pub id: HoldId,
    /// How it will share the name.
    pub kind: Kind,
    /// How long its queue position lasts without a refresh.
    pub stamp: Duration,
    /// When its queue position expires.
    pub expiry: Expiry,
    /// Wall clock at the time of arrival, unique in the queue.
    pub since: u64,
    /// A note for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<Arc<str>>,
    /// The process of the waiter.
    pub process: Arc<Process>,
}

/// A client that subscribes to changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watcher {
    /// The client.
    pub client: ClientId,
    /// When its subscription expires.
    pub expiry: Expiry,
}

/// The effects of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Whether there is something to persist.
    pub dirty: bool,
    /// Clients with a waiter that would now be admitted.
    pub admit: Vec<ClientId>,
    /// Whether the count changed.
    pub count: bool,
    /// Whether the latch opened.
    pub open: bool,
    /// Whether a leader came or went.
    pub holder: bool,
}

/// The answer to an attempt, in terms of the store's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is held.
    Granted(Fence),
    /// Others hold it or are ahead in the queue.
    Busy {
        /// When the first of them expires; `None` if only the size of the semaphore blocks it.
        retry_after: Option<Duration>,
        /// The first of them.
        behind: Option<HoldId>,
        /// The position in the queue, if it waits: lower is earlier.
        position: Option<u64>,
    },
    /// The hold to re-enter does not exist.
    Gone,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is held.
    Held,
    /// It is waiting.
    Queued,
    /// Neither.
    Gone,
}

/// Returns the error for a claim of more permits than the stored size of a semaphore: it would wait forever.
///
/// ```
/// # use tenure_core::{Name, ledger::too_many};
/// let error = too_many(&Name::new("db")?, 11, 10);
/// assert!(error.to_string().starts_with("db: 11 permits were asked for, but the semaphore has 10"));
/// # Ok::<(), tenure_core::Error>(())
/// ```
pub fn too_many(name: &Name, n: u32, size: u64) -> Error {
    Error::Config(format!(
        "{name}: {n} permits were asked for, but the semaphore has {size}: that is its size in the store, whatever limit \
         is given later; resize changes it"
    ))
}

/// The error for a name that is in use as another kind.
///
/// ```
/// # use tenure_core::{Name, backend::Family, ledger::in_use};
/// let error = in_use(&Name::new("db")?, Family::Permit, Family::Lock);
/// assert!(error.to_string().starts_with("db is in use as a "));
/// # Ok::<(), tenure_core::Error>(())
/// ```
pub fn in_use(name: &Name, used: Family, wanted: Family) -> Error {
    let is = |family| if family == Family::Leader { format!("an {family}") } else { format!("a {family}") };
    Error::Config(format!(
        "{name} is in use as {} and cannot be {} too: use another name",
        is(used),
        is(wanted)
    ))
}

impl Ledger {
    /// Creates an empty ledger whose fences start above `floor`.
    pub fn above(floor: u64) -> Self {
        Self { fence: floor, ..Self::default() }
    }

    /// Whether it contains nothing but its last fence.
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty()
            && self.waiters.is_empty()
            && self.size.is_none()
            && self.count.is_none()
            && self.ops.is_empty()
            && self.watchers.is_empty()
    }

    /// Returns the family that the name is used as, if it is in use.
    pub fn family(&self) -> Option<Family> {
        if let Some(count) = &self.count {
            return Some(match count.of {
                Counter::Latch => Family::Latch,
                _ => Family::Count,
            });
        }
        if self.size.is_some() {
            return Some(Family::Permit);
        }
        let kinds = self.holders.iter().map(|h| &h.kind).chain(self.waiters.iter().map(|w| &w.kind));
        kinds.map(Kind::family).next()
    }

    /// Removes what has expired, and grants one full term from now to what was stamped under another clock.
    pub fn prune(&mut self, now: Now) {
        let (mut gone, mut readers_only, mut leader) = (false, true, false);
        let mut dirty = self.holders.prune(now, |holder| {
            (gone, readers_only) = (true, readers_only & holder.kind.is_read());
            leader |= holder.kind == Kind::Leader;
        });
        dirty |= self.waiters.prune(now, |w| (gone, readers_only) = (true, readers_only & w.kind.is_read()));
        self.watchers.retain_mut(|w| {
            dirty |= w.expiry.adopt(now, WATCHER);
            let alive = !w.expiry.is_over(now);
            dirty |= !alive;
            alive
        });
        dirty |= self.prune_ops(now);
        dirty |= self.prune_size(now);
        self.effects.dirty |= dirty | gone;
        self.effects.holder |= leader;
        if gone {
            self.admit_after(readers_only);
        }
    }

    /// Makes one attempt for `claim`.
    ///
    /// # Errors
    /// `Config` if the name is in use as another kind, if more permits are requested than it has, or if its data are
    /// damaged.
    pub fn attempt(&mut self, claim: &Claim, process: &Arc<Process>, now: Now) -> Result<Outcome> {
        self.prune(now);
        let held = self.holders.update(claim.id, |holder| {
            if claim.holds > 1 {
                holder.holds = claim.holds;
            }
            holder.extend(claim.lease, now);
            Fence(holder.fence)
        });
        if let Some(fence) = held {
            self.effects.dirty = true;
            return Ok(Outcome::Granted(fence));
        }
        if claim.holds > 1 {
            return Ok(Outcome::Gone);
        }
        self.clash(&claim.name, claim.kind.family())?;
        self.check_numbers(&claim.name)?;
        let place = self.waiters.find(claim.id);
        if let Kind::Permit { n, limit } = claim.kind {
            if n > self.size.unwrap_or(limit) {
                if let Some(place) = place {
                    self.waiters.remove(place);
                    self.effects.dirty = true;
                    self.admit_next();
                }
                return Err(too_many(&claim.name, n, self.size.unwrap_or(limit).into()));
            }
            if self.size.is_none() {
                (self.size, self.idle) = (Some(limit), Some(Expiry::new(now, IDLE)));
                self.effects.dirty = true;
            }
        }
        let ahead = self.ahead_of(place);
        let in_the_way = match claim.kind {
            // A read under the owner's own write is always granted.
            Kind::Read { under_write: Some(own) } if self.holders.find(own).is_some() => Ok(()),
            kind => ahead.admits(&kind, self.size.unwrap_or(0)),
        };
        match in_the_way {
            Ok(()) => Ok(Outcome::Granted(self.grant(claim, place, process, now))),
            Err(behind) => {
                let retry_after = self.first_end(ahead.waiter_ahead_of(&claim.kind), now);
                let position = claim.wait.map(|_| self.queue(claim, process, now));
                Ok(Outcome::Busy { retry_after, behind, position })
            }
        }
    }

    /// Refuses a ledger whose fences or queue positions cannot grow any more: no store comes to such numbers by itself,
    /// and a fence that begins again would let an old holder pass for a new one.
    fn check_numbers(&self, name: &Name) -> Result<()> {
        let last = self.waiters.last().map_or(0, |waiter| waiter.since).max(self.fence);
        if last < u64::MAX {
            return Ok(());
        }
        Err(Error::Config(format!(
            "{name}: its stored data are damaged: the last fence or queue position is {last}"
        )))
    }

    fn grant(&mut self, claim: &Claim, place: Option<u64>, process: &Arc<Process>, now: Now) -> Fence {
        let since = now.wall;
        if let Some(place) = place {
            self.waiters.remove(place);
        }
        let under = match claim.kind {
            Kind::Read { under_write: Some(own) } => self.holders.get(own),
            _ => None,
        };
        // A read under the owner's own write keeps the writer's fence.
        let fence = under.map_or_else(|| now.wall.max(self.fence + 1), |writer| writer.fence);
        self.fence = self.fence.max(fence);
        if claim.kind == Kind::Lock {
            // From the clock, so that the last fence does not run away from it, however often this is done.
            self.fence = self.fence.max(now.wall.saturating_add(claim.reserve.into()));
        }
        self.holders.push(Holder {
            id: claim.id,
            kind: claim.kind,
            holds: claim.holds,
            fence,
            lease: claim.lease,
            expiry: Expiry::new(now, claim.lease),
            since,
            note: claim.note.clone(),
            process: process.clone(),
        });
        self.stay(now);
        self.effects.dirty = true;
        self.effects.holder |= claim.kind == Kind::Leader;
        // A reader that leaves the queue unblocks nobody: the waiters behind it were not blocked by it.
        if place.is_some() && !claim.kind.is_read() {
            self.admit_next();
        }
        Fence(fence)
    }

    /// Refreshes the queue position of a claim, or adds it to the queue. Returns the position: its arrival time, unique
    /// in the queue.
    fn queue(&mut self, claim: &Claim, process: &Arc<Process>, now: Now) -> u64 {
        let queued = self.waiters.update(claim.id, |waiter| {
            // Refreshed only when a third of the time is used up, so that most polls cost no write.
            if waiter.expiry.left(now) < claim.stamp * 2 / 3 {
                waiter.expiry.extend(now, claim.stamp);
                self.effects.dirty = true;
            }
            waiter.since
        });
        if let Some(since) = queued {
            return since;
        }
        let since = self.waiters.last().map_or(now.wall, |last| now.wall.max(last.since + 1));
        self.waiters.push(Waiter {
            id: claim.id,
            kind: claim.kind,
            stamp: claim.stamp,
            expiry: Expiry::new(now, claim.stamp),
            since,
            note: claim.note.clone(),
            process: process.clone(),
        });
        self.effects.dirty = true;
        since
    }

    /// Extends holders and refreshes waiters. A holder whose claim has a lease of zero is only verified.
    pub fn renew<'a>(&mut self, claims: impl IntoIterator<Item = &'a Claim>, now: Now) -> Vec<Found> {
        self.prune(now);
        let mut found = Vec::new();
        for claim in claims {
            if claim.lease.is_zero() && self.holders.find(claim.id).is_some() {
                found.push(Found::Held);
                continue;
            }
            if self.holders.update(claim.id, |holder| holder.extend(claim.lease, now)).is_some() {
                found.push(Found::Held);
            } else if self.waiters.update(claim.id, |w| w.expiry.extend(now, claim.stamp)).is_some() {
                found.push(Found::Queued);
            } else {
                found.push(Found::Gone);
                continue;
            }
            self.effects.dirty = true;
        }
        found
    }

    /// Removes a hold or a waiter, or writes the count of a hold with entries left and extends it by its lease.
    pub fn release(&mut self, claim: &Claim, left: u32, now: Now) -> Released {
        self.prune(now);
        if left > 0 {
            let inner = self.holders.update(claim.id, |holder| {
                holder.holds = left;
                holder.extend(claim.lease, now);
            });
            if inner.is_none() {
                return Released::Gone;
            }
        } else if let Some(gone) = self.holders.find(claim.id).and_then(|at| self.holders.remove(at)) {
            self.effects.holder |= gone.kind == Kind::Leader;
            self.admit_after(gone.kind.is_read());
        } else if let Some(gone) = self.waiters.find(claim.id).and_then(|at| self.waiters.remove(at)) {
            self.admit_after(gone.kind.is_read());
        } else {
            return Released::Gone;
        }
        self.stay(now);
        self.effects.dirty = true;
        Released::Freed
    }

    /// Removes the waiters and watchers of dead clients.
    pub fn forget_waiters(&mut self, dead: &HashSet<ClientId>) {
        let before = self.waiters.len() + self.watchers.len();
        self.waiters.retain(|w| !dead.contains(&w.id.client));
        self.watchers.retain(|w| !dead.contains(&w.client));
        if self.waiters.len() + self.watchers.len() < before {
            self.effects.dirty = true;
            self.admit_next();
        }
    }

    /// Registers a client of another process as a watcher of the count or the holder.
    pub fn watch(&mut self, client: ClientId, now: Now) {
        self.prune(now);
        match self.watchers.iter_mut().find(|w| w.client == client) {
            Some(watcher) => watcher.expiry.extend(now, WATCHER),
            None => self.watchers.push(Watcher { client, expiry: Expiry::new(now, WATCHER) }),
        }
        self.effects.dirty = true;
    }

    fn inside(&self) -> InTheWay {
        InTheWay {
            holder: self.holders.first().map(|h| h.id),
            exclusive: self.holders.first_barring().map(|(_, h)| h.id),
            used: self.holders.permits(),
            ..InTheWay::default()
        }
    }

    /// Returns what blocks a waiter at `place`; without one, a claim that comes last.
    fn ahead_of(&self, place: Option<u64>) -> InTheWay {
        let mut ahead = self.inside();
        let is_ahead = |(number, _): &(u64, &Waiter)| place.is_none_or(|place| *number < place);
        // The first waiter, and the first that blocks more than the first does: no other waiter makes a difference.
        for (_, waiter) in
            self.waiters.first_numbered().into_iter().chain(self.waiters.first_barring()).filter(is_ahead)
        {
            ahead.ahead(waiter.id, &waiter.kind);
        }
        ahead
    }

    /// Determines which clients to wake after holders or waiters are gone, which may have been readers only.
    fn admit_after(&mut self, readers_only: bool) {
        if !readers_only {
            return self.admit_next();
        }
        // A reader is in nobody's way but that of a writer that is the first. Readers that are in front were told when
        // the last writer before them went: to tell them all each time that one leaves would cost the square of their
        // number. The first is told again when the name is free. If it has died since, this is noticed, and those
        // behind it need not wait until its stamp has expired.
        let first = self.waiters.first().filter(|_| self.holders.is_empty()).map(|first| first.id.client);
        if let Some(client) = first.filter(|client| !self.effects.admit.contains(client)) {
            self.effects.admit.push(client);
        }
    }

    /// Determines which clients to wake: those whose waiters would be granted if they all tried now, in queue order.
    fn admit_next(&mut self) {
        let mut admit = Vec::new();
        self.each_admitted(|client| {
            // There are few clients, usually with long runs of waiters.
            if admit.last() != Some(&client) && !admit.contains(&client) {
                admit.push(client);
            }
            true
        });
        self.effects.admit = admit;
    }

    /// Calls `reach` with the clients of the waiters that would be granted now, in queue order. `reach` returns whether
    /// the client was reached; if not, the next waiter takes its turn. Includes waiters for more permits than there
    /// are, so that they are refused.
    pub fn each_admitted(&self, mut reach: impl FnMut(ClientId) -> bool) {
        if self.waiters.is_empty() {
            return;
        }
        let mut in_the_way = self.inside();
        for waiter in self.waiters.iter() {
            let size = match waiter.kind {
                Kind::Permit { n, limit } => {
                    let size = self.size.unwrap_or(limit);
                    if n > size {
                        reach(waiter.id.client);
                        continue;
                    }
                    size
                }
                _ if in_the_way.blocks_all() => break,
                _ => 0,
            };
            if in_the_way.admits(&waiter.kind, size).is_err() {
                in_the_way.ahead(waiter.id, &waiter.kind);
            } else if reach(waiter.id.client) {
                in_the_way.inside(waiter.id, &waiter.kind);
            }
        }
    }

    /// Returns when to try again: when the first holder ends, or the waiter that blocks the claim.
    fn first_end(&self, waiter: Option<HoldId>, now: Now) -> Option<Duration> {
        let inside = self.holders.first_end(now);
        let outside = waiter.and_then(|id| self.waiters.get(id)).map(|waiter| &waiter.expiry);
        inside.into_iter().chain(outside).map(|expiry| expiry.left(now)).min()
    }

    fn clash(&self, name: &Name, wanted: Family) -> Result<()> {
        let mutex = |f: Family| matches!(f, Family::Lock | Family::Fair | Family::Leader);
        match self.family() {
            Some(used) if used != wanted && !(mutex(used) && mutex(wanted)) => {
                Err(in_use(name, used, wanted))
            }
            _ => Ok(()),
        }
    }
}

/// How long a watcher in another process is remembered without a refresh.
const WATCHER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
