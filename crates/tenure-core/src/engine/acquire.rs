//! From a request to an entry: the first attempt, in the caller's task. If that is busy, the caller waits at the gate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Attempt, Claim, Durability, Error, Fence, Kind, Name, Owner, Result, Time};
use crate::engine::Deadlocks;
use crate::engine::acquisition::Acquisition;
use crate::engine::core::{Core, Engine};
use crate::engine::entry::Entry;
use crate::engine::gate::{self, Waiter, Want};
use crate::engine::hold::Hold;
use crate::engine::in_flight::{InFlight, Ran, Undo};
use crate::engine::limit::{Limit, RETRIES, Wait};
use crate::engine::mailbox::Grant;
use crate::engine::reentry::{Slot, SlotUse};
use crate::engine::relay::Relay;
use crate::engine::telemetry::{AcquireStats, AcquireTrace};
use crate::engine::terms::Terms;

/// The content of a template: a name, a kind and options. No I/O.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) engine: Arc<Engine>,
    pub(crate) name: Result<Name>,
    pub(crate) kind: Kind,
    pub(crate) lease: Option<Duration>,
    /// A renewed lease is not longer than this.
    pub(crate) longest_lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) owner: Option<Owner>,
    pub(crate) note: Option<Arc<str>>,
    pub(crate) durability: Option<Durability>,
    pub(crate) token: Option<Arc<str>>,
}

/// The result of one attempt.
pub(crate) enum Tried {
    Granted(Entry),
    /// Others hold it or are ahead. `may_be_queued`: an earlier send of this id was not answered, and may still be executed.
    Busy {
        may_be_queued: bool,
        /// The position in the store's queue, if it has one.
        position: Option<u64>,
    },
    /// The future was not polled for too long and the attempt was undone: start again.
    Revoked,
}

impl Request {
    pub(crate) fn new(engine: &Arc<Engine>, name: Result<Name>, kind: Kind) -> Self {
        Self {
            engine: engine.clone(),
            name,
            kind,
            lease: None,
            longest_lease: None,
            max_hold: None,
            owner: None,
            note: None,
            durability: None,
            token: None,
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.engine.core
    }

    pub(crate) fn name(&self) -> Result<&Name> {
        self.name.as_ref().map_err(Clone::clone)
    }

    fn owner(&self) -> Option<u64> {
        if !self.kind.is_reentrant() {
            return None;
        }
        self.owner.as_ref().map(Owner::id).or_else(Owner::ambient)
    }

    fn terms(&self, least: Option<Duration>) -> Result<Terms> {
        let settings = &self.core().settings;
        let longest = self.longest_lease.unwrap_or(Duration::MAX);
        let lease = self.lease.unwrap_or_else(|| settings.lease.min(longest));
        if lease < Claim::MIN_LEASE {
            let min = Claim::MIN_LEASE;
            return Err(Error::Config(format!("a lease of {lease:?} is too short: {min:?} at least")));
        }
        let durability = self.durability.unwrap_or(settings.durability);
        let least = least.unwrap_or_default();
        Ok(Terms { lease, least, renewed: self.lease.is_none(), max_hold: self.max_hold, durability })
    }

    /// How long a grant may stay uncollected.
    pub(crate) fn patience(&self) -> Duration {
        self.core().patience(self.lease.or(self.longest_lease).unwrap_or(Duration::MAX))
    }

    fn claim(&self, name: &Name, kind: Kind, terms: Terms, wait: Option<Duration>) -> Arc<Claim> {
        let core = self.core();
        Arc::new(Claim {
            id: core.fresh_id(),
            name: name.clone(),
            kind,
            holds: 1,
            // So that it lasts even if this process ends at once.
            lease: terms.lease.max(terms.least),
            wait,
            stamp: core.stamp(kind),
            brief: false,
            watched: None,
            reserve: 0,
            durability: terms.durability,
            note: self.note.clone(),
            token: self.token.clone(),
        })
    }

    /// Begins the trace of an acquire, which makes it visible to telemetry.
    pub(crate) fn ask(&self) -> Result<AcquireTrace<'_>> {
        let core = self.core();
        core.check_open()?;
        Ok(AcquireTrace::begin(core, self.kind.into(), self.name()?, self.owner()))
    }

    /// The only entry point. Returns `None` if it is busy or the wait timed out. All steps before the store's answer
    /// share one limit, `by` if that is earlier; no answer until then is an error, not *busy*. The store keeps a grant
    /// for `least`.
    pub(crate) async fn acquire(
        &self,
        wait: Wait,
        by: Option<Instant>,
        least: Option<Duration>,
        trace: &AcquireTrace<'_>,
    ) -> Result<Option<Entry>> {
        let core = self.core();
        let (name, owner) = (trace.name, trace.owner);
        let terms = self.terms(least)?;
        core.backend.info().require(self.kind.family())?;
        core.backend.info().require_durability(terms.durability)?;
        if let Some(token) = &self.token {
            core.backend.info().require_token(token)?;
        }
        core.ensure_threads()?;
        let deadline = wait.deadline();
        let waits = wait.as_duration();
        // Only queued kinds take a queue position at once; for other kinds one waiter per process does, at the gate.
        let place = waits.filter(|_| self.kind.is_queued());
        let asked = Acquisition::new(&self.engine, terms, owner, deadline);
        let mut heard = true;
        // Behind those who wait already: the store is not asked once more for each, and nobody is overtaken.
        let joins = self.kind == Kind::Lock
            && (wait, by, owner) == (Wait::Forever, None, None)
            && core.gates.is_joined(name, terms.durability);
        let (mut claim, may_be_queued, mut position) = loop {
            if joins {
                heard = false;
                break (self.claim(name, self.kind, terms, waits), false, None);
            }
            // Computed again when a revoked attempt starts again.
            let limit = wait.limit(deadline.or(by), &core.settings);
            core.settle(name, limit.end).await;
            core.check_open()?;
            let claim = self.claim(name, self.kind, terms, place);
            let tried = match owner {
                None => first(&asked, &claim, &trace.stats, limit).await,
                Some(owner) => enter_or_first(&asked, owner, &claim, &trace.stats, limit).await,
            };
            match tried {
                Ok(Tried::Granted(entry)) => return Ok(Some(entry)),
                Ok(Tried::Busy { may_be_queued, position }) => break (claim, may_be_queued, position),
                Ok(Tried::Revoked) => {}
                // The store is not ready and knows when it will be, so it is worth waiting.
                Err(error) if error.retry_after().is_some() && waits.is_some() => {
                    heard = false;
                    // A new id, because an earlier attempt with this one may have been undone.
                    break (self.claim(name, self.kind, terms, None), false, None);
                }
                Err(error) => return Err(error),
            }
        };
        let Some(wait) = waits else {
            if may_be_queued {
                core.leave_claim(claim);
            }
            return Ok(None);
        };
        loop {
            let want = Want::Claim(match claim.wait {
                Some(_) => claim.clone(),
                None => Arc::new(Claim { wait: Some(wait), ..(*claim).clone() }),
            });
            let waiting = Waiter::new(&asked, want, position);
            if may_be_queued {
                waiting.place();
            }
            let waiting = if heard { waiting } else { waiting.unheard() };
            match gate::wait(core, name, waiting, trace).await? {
                gate::Waited::Granted(Grant::Entry(entry)) => return Ok(Some(entry)),
                gate::Waited::TimedOut => return Ok(None),
                // A new wait needs a new claim: the release of the old one has been sent.
                _ => (claim, position, heard) = (self.claim(name, self.kind, terms, None), None, false),
            }
        }
    }
}

impl Undo for Arc<Claim> {
    fn undo(self, core: &Arc<Core>) {
        core.leave_claim(self);
    }
}

/// Makes one attempt, retried with the same id until it is answered or until `limit`. If the future is not polled, it
/// is undone after a third of its lease, like a grant in a mailbox.
async fn first(asked: &Acquisition, claim: &Arc<Claim>, stats: &AcquireStats, limit: Limit) -> Result<Tried> {
    let core = asked.core();
    let mut attempt = InFlight::new(core, claim);
    // Whether one of the failed attempts may have been executed.
    let mut unknown = false;
    let (mut backoff, mut last) = (RETRIES, None);
    loop {
        let seen = core.suspicions();
        stats.attempt();
        let call = core.backend.try_acquire(claim);
        let error = match attempt.run(limit.cut, core.patience(claim.lease), call).await? {
            Ran::Done(Ok(Attempt::Granted { fence, until, .. })) => {
                attempt.keep();
                let entry = admit(asked, claim, fence, until, None)?;
                core.suspect_since(seen, entry.hold());
                return Ok(Tried::Granted(entry));
            }
            Ran::Done(Ok(other)) => {
                let mut place = None;
                if let Attempt::Busy { behind, position, .. } = other {
                    stats.busy(behind);
                    place = position;
                }
                // The queue position now belongs to the caller, which joins the gate without an await in between.
                attempt.keep();
                return Ok(Tried::Busy { may_be_queued: unknown, position: place });
            }
            Ran::Done(Err(error)) => error,
            Ran::Revoked => return Ok(Tried::Revoked),
            // An earlier error of the store says more than that the time is over.
            Ran::OutOfTime => {
                return Err(last.unwrap_or_else(|| core.out_of_time(format_args!("acquire {}", claim.name))));
            }
        };
        unknown |= error.is_unknown();
        if limit.ends_with(&error) || error.retry_after().is_some() {
            if !unknown {
                attempt.keep();
            }
            return Err(error);
        }
        let slept = core.sleep(backoff.failed_by(core.chance()));
        match attempt.run(Some(limit.end), core.patience(claim.lease), slept).await? {
            Ran::Revoked => return Ok(Tried::Revoked),
            Ran::Done(slept) => slept?,
            Ran::OutOfTime if unknown => return Err(error),
            Ran::OutOfTime => {
                attempt.keep();
                return Err(error);
            }
        }
        last = Some(error);
    }
}

impl Core {
    /// How long a grant may stay uncollected.
    pub(crate) fn patience(&self, lease: Duration) -> Duration {
        lease.min(self.settings.lease) / 3
    }
}

/// Turns a grant into an entry, unless it has already expired.
pub(crate) fn admit(
    asked: &Acquisition,
    claim: &Arc<Claim>,
    fence: Option<Fence>,
    until: Time,
    relay: Option<Relay>,
) -> Result<Entry> {
    let core = asked.core();
    let now = core.clock.now();
    if now >= until {
        core.leave_claim(claim.clone());
        let what = format!("acquire {}", claim.name);
        let lease = claim.lease;
        return Err(core
            .backend
            .info()
            .unavailable(what, format!("the answer took longer than the lease of {lease:?}")));
    }
    let mut hold = Hold::new(asked, claim.clone(), fence, until, now);
    hold.passing.relay = relay;
    if let Some(limit) = core.settings.warn_held {
        hold.warn_at(now.after(limit));
    }
    let hold = Arc::new(hold);
    if core.settings.deadlocks == Deadlocks::Report {
        core.waits.add_hold(&hold);
    }
    // From here on it is released by its entry, whatever happens.
    let entry = Entry::new(asked.engine.clone(), hold.clone(), hold.first());
    core.keeper.register(&hold);
    core.telemetry.held(&hold);
    core.prove_shared(&hold, now);
    // A client closed meanwhile has not seen this hold; dropping the entry releases it.
    core.check_open()?;
    Ok(entry)
}

/// For an explicit owner: re-enters its hold, or makes a first attempt.
async fn enter_or_first(
    asked: &Acquisition,
    owner: u64,
    claim: &Arc<Claim>,
    stats: &AcquireStats,
    limit: Limit,
) -> Result<Tried> {
    let core = asked.core();
    // Another task of this owner may be waiting for what it can re-enter afterwards.
    let slot = SlotUse::new(core, owner, &claim.name, true);
    // Tasks of one owner take turns, but a task that is no longer polled must not block the others.
    let _turn = match slot.entering.try_lock() {
        Ok(turn) => Some(turn),
        Err(_) => {
            let patience = Instant::now() + core.settings.lease / 3;
            let turn = core.by(Some(limit.end.min(patience)), slot.entering.lock()).await?;
            if turn.is_none() && limit.end <= patience {
                let what = format!("acquire {}", claim.name);
                return Err(core
                    .backend
                    .info()
                    .unavailable(what, "another task of its owner is still entering"));
            }
            turn
        }
    };
    enter_into(asked, &slot, claim, stats, limit).await
}

/// Re-enters the owner's hold, or makes a first attempt. The caller has the turn of that owner.
pub(crate) async fn enter_into(
    asked: &Acquisition,
    slot: &Slot,
    claim: &Arc<Claim>,
    stats: &AcquireStats,
    limit: Limit,
) -> Result<Tried> {
    let tried = match standing(&slot.held(), claim)? {
        Standing::Inside(hold) => match reenter(asked, &hold, stats, limit).await? {
            Some(entry) => return Ok(Tried::Granted(entry)),
            None => first(asked, claim, stats, limit).await?,
        },
        Standing::UnderWrite(write) => {
            let kind = Kind::Read { under_write: Some(write) };
            let under = Arc::new(Claim { kind, ..(**claim).clone() });
            first(asked, &under, stats, limit).await?
        }
        Standing::Outside => first(asked, claim, stats, limit).await?,
    };
    if let Tried::Granted(entry) = &tried {
        slot.add(entry.hold());
    }
    Ok(tried)
}

/// How a claim relates to the holds of its owner.
enum Standing {
    Inside(Arc<Hold>),
    UnderWrite(crate::backend::HoldId),
    Outside,
}

fn standing(holds: &[Arc<Hold>], claim: &Claim) -> Result<Standing> {
    let find = |wanted: fn(&Kind) -> bool| holds.iter().find(|h| wanted(&h.claim.kind));
    let read = find(|k| matches!(k, Kind::Read { .. }));
    let write = find(|k| matches!(k, Kind::Write));
    let inside = match claim.kind {
        Kind::Read { .. } => read,
        Kind::Write => write,
        _ => find(|k| matches!(k, Kind::Lock | Kind::FairLock | Kind::Leader)),
    };
    Ok(match (claim.kind, inside, write) {
        (_, Some(hold), _) => Standing::Inside(hold.clone()),
        (Kind::Read { .. }, None, Some(write)) => Standing::UnderWrite(write.claim.id),
        (Kind::Write, None, _) if read.is_some() => {
            return Err(Error::Config(format!(
                "{} is read by this owner, which cannot become its writer: release the read lock first, or take the \
                 write lock and read under it",
                claim.name
            )));
        }
        _ => Standing::Outside,
    })
}

/// Re-enters a hold. Returns `None` if it no longer exists.
async fn reenter(
    asked: &Acquisition,
    hold: &Arc<Hold>,
    stats: &AcquireStats,
    limit: Limit,
) -> Result<Option<Entry>> {
    let (core, terms) = (asked.core(), asked.terms);
    let durability = hold.durability().max(terms.durability);
    // Never 1, which could create a new hold if the last entry has just left.
    let holds = hold.guards().max(1) + 1;
    let lease = terms.lease.max(hold.rest_of(terms.least));
    let claim = Claim { holds, lease, durability, ..(*hold.claim).clone() };
    let call_timeout = core.settings.call_timeout;
    let answer = loop {
        let seen = core.suspicions();
        stats.attempt();
        let last = Mutex::new(None);
        let call = core.ask_until(limit, async || {
            // The store may keep it for that long even if this request is never answered.
            hold.may_last(lease, call_timeout);
            core.backend.try_acquire(&claim).await.inspect_err(|e| *last.lock().unwrap() = Some(e.clone()))
        });
        let Some(answer) = core.by(limit.cut, call).await? else {
            let last = last.into_inner().unwrap();
            return Err(last.unwrap_or_else(|| core.out_of_time(format_args!("enter {} again", claim.name))));
        };
        let answer = answer?;
        // After a suspicion the store may have lost the extension, even if it still has the hold.
        if core.suspicions() == seen {
            break answer;
        }
    };
    match answer {
        Attempt::Granted { until, .. } => {
            let Some(part) = hold.enter(terms, until) else { return Ok(None) };
            hold.entered_from(asked.flow);
            core.keeper.sooner(hold);
            Ok(Some(Entry::new(asked.engine.clone(), hold.clone(), part)))
        }
        _ => {
            core.lose(hold, crate::backend::LostReason::Gone);
            Ok(None)
        }
    }
}
