//! A server: the ledgers of the memory store behind a border of messages. It has no threads and no clock of its own; each
//! request comes with the time at which it arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Attempt, Process, Renewal, Signal, Snapshot};
use tenure_core::ledger::{Effects, Found, Ledger, Now, Outcome};
use tenure_core::{Claim, ClientId, Error, HoldId, Kind, Name, Result, Time};

use crate::message::{Reply, Request, Signalled, Topic};

/// The name of the store in errors.
pub(crate) const SCHEME: &str = "simulated";
/// The wall clock at the beginning, in microseconds: only fences have it.
const WALL: u64 = 1_700_000_000_000_000;

/// A mistake for the seeds to find: a release of a fair lock that arrives twice is not asked whose hold it ends, if
/// somebody else got the name in the same millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plant;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    ledgers: BTreeMap<Name, Ledger>,
    watches: BTreeMap<(u32, u64), (ClientId, Name, Topic)>,
    process: Arc<Process>,
    /// How much faster than the others its clock runs.
    rate: f64,
    /// How long it refuses after it lost its memory, in milliseconds.
    restart_delay: u64,
    restarted: Option<u64>,
    plant: Option<Plant>,
    /// The last grant of each name, and which releases have arrived: for the planted mistake.
    granted: BTreeMap<Name, (HoldId, u64)>,
    released: BTreeSet<HoldId>,
}

impl Server {
    pub(crate) fn new(rate: f64, restart_delay: u64, plant: Option<Plant>) -> Self {
        Self {
            ledgers: BTreeMap::new(),
            watches: BTreeMap::new(),
            process: Arc::new(Process { host: "simulated".into(), pid: 1 }),
            rate,
            restart_delay,
            restarted: None,
            plant,
            granted: BTreeMap::new(),
            released: BTreeSet::new(),
        }
    }

    /// Loses its memory.
    pub(crate) fn forget(&mut self, at: u64) {
        self.ledgers.clear();
        self.restarted = Some(at);
    }

    /// Loses the watches of a client, or of all.
    pub(crate) fn cut(&mut self, client: Option<u32>) {
        self.watches.retain(|(of, _), _| client.is_some_and(|client| client != *of));
    }

    fn now(&self, at: u64) -> Now {
        let tick = (at as f64 * 1000.0 * self.rate) as u64;
        Now { clock: 0, tick, wall: WALL + at * 1000 }
    }

    fn refusal(&self, at: u64) -> Result<()> {
        let Some(restarted) = self.restarted.filter(|_| self.restart_delay > 0) else { return Ok(()) };
        match (restarted + self.restart_delay).saturating_sub(at) {
            0 => Ok(()),
            left => Err(Error::unavailable(SCHEME, "acquire", "restarted")
                .ready_after(Some(Duration::from_millis(left)))),
        }
    }

    /// Executes a request of the call `call` of `client`. Returns the answer, and whom it wakes.
    pub(crate) fn execute(
        &mut self,
        client: u32,
        call: u64,
        request: &Request,
        at: u64,
    ) -> (Reply, Vec<Signalled>) {
        let (now, process, mut woken) = (self.now(at), self.process.clone(), Vec::new());
        let refusal = self.refusal(at);
        let reply = match request {
            Request::Attempt(claim) => Reply::Attempt(refusal.and_then(|()| {
                let (outcome, last) = self.change(&claim.name, &mut woken, |ledger| {
                    (ledger.attempt(claim, &process, now), ledger.fence)
                });
                let outcome = outcome?;
                if let Outcome::Granted(_) = outcome {
                    self.note_grant(claim, at);
                }
                Ok(attempt(outcome, claim, last))
            })),
            Request::Renew(claims) => Reply::Renew(refusal.map(|()| {
                let each = claims.iter().map(|claim| {
                    let found = self.change(&claim.name, &mut woken, |ledger| ledger.renew([&**claim], now));
                    found.first().map_or(Renewal::Gone, renewal)
                });
                each.collect()
            })),
            Request::Release(claim, left) => {
                let taken = self.planted(claim, at);
                let claim = taken.as_ref().unwrap_or(claim);
                Reply::Release(Ok(
                    self.change(&claim.name, &mut woken, |ledger| ledger.release(claim, *left, now))
                ))
            }
            Request::Count(name, counter, op, id) => Reply::Count(
                self.change(name, &mut woken, |ledger| ledger.count(name, *counter, *op, *id, now)),
            ),
            Request::Watch(name, id, topic) => {
                self.watches.insert((client, call), (*id, name.clone(), *topic));
                Reply::Watch(Ok(()))
            }
            Request::Inspect(name) => Reply::Inspect(self.inspect(name, at)),
        };
        (reply, woken)
    }

    /// What there is of a name.
    pub(crate) fn inspect(&self, name: &Name, at: u64) -> Option<Snapshot> {
        self.ledgers.get(name)?.clone().snapshot(name, self.now(at))
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        self.ledgers.keys()
    }

    /// A watch has ended.
    pub(crate) fn unwatch(&mut self, client: u32, call: u64) {
        self.watches.remove(&(client, call));
    }

    fn change<R>(
        &mut self,
        name: &Name,
        woken: &mut Vec<Signalled>,
        change: impl FnOnce(&mut Ledger) -> R,
    ) -> R {
        let ledger = self.ledgers.entry(name.clone()).or_default();
        let result = change(ledger);
        let effects = std::mem::take(&mut ledger.effects);
        if !effects.admit.is_empty() || effects.count || effects.holder {
            let concerned = self
                .watches
                .iter()
                .filter(|(_, (id, of, topic))| of == name && concerns(&effects, *id, *topic));
            let signal = if effects.open { Signal::Open } else { Signal::Changed };
            woken.extend(concerned.map(|((client, call), _)| Signalled {
                client: *client,
                call: *call,
                signal,
            }));
        }
        result
    }

    fn note_grant(&mut self, claim: &Claim, at: u64) {
        let last = self.granted.entry(claim.name.clone()).or_insert((claim.id, at));
        if last.0 != claim.id {
            *last = (claim.id, at);
        }
    }

    /// The planted mistake: the claim that is released instead.
    fn planted(&mut self, claim: &Claim, at: u64) -> Option<Claim> {
        self.plant.filter(|_| claim.kind == Kind::FairLock)?;
        let is_second = !self.released.insert(claim.id);
        let (last, since) = *self.granted.get(&claim.name)?;
        let hits = is_second && last.client != claim.id.client && since == at;
        hits.then(|| Claim { id: last, ..claim.clone() })
    }
}

fn concerns(effects: &Effects, id: ClientId, topic: Topic) -> bool {
    match topic {
        Topic::Admissions => effects.admit.contains(&id),
        Topic::Count => effects.count,
        Topic::Holder => effects.holder,
    }
}

/// Until when it is valid is for the client to say.
fn attempt(outcome: Outcome, claim: &Claim, last: u64) -> Attempt {
    match outcome {
        Outcome::Granted(fence) => {
            let spare = u32::try_from(last.saturating_sub(fence.0)).unwrap_or(u32::MAX).min(claim.reserve);
            Attempt::Granted { fence: Some(fence), until: Time::MAX, spare }
        }
        Outcome::Busy { retry_after, behind, position } => Attempt::Busy { retry_after, behind, position },
        Outcome::Gone => Attempt::Gone,
    }
}

fn renewal(found: &Found) -> Renewal {
    match found {
        Found::Held => Renewal::Held { until: Time::MAX },
        Found::Queued => Renewal::Queued,
        Found::Gone => Renewal::Gone,
    }
}
