//! The local state of one hold, shared by its guards, the keeper and the gate.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::{Claim, Clock, Durability, Fence, Kind, Liveness, Lost, LostReason, Result, Time};
use crate::engine::acquisition::{Acquisition, Flow};
use crate::engine::agenda::Place;
use crate::engine::leases::Leases;
use crate::engine::mailbox::{Grant, Mailbox};
use crate::engine::relay::Passing;
use crate::engine::terms::Terms;
use crate::engine::worker::wake_all;

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) claim: Arc<Claim>,
    pub(crate) fence: Option<Fence>,
    pub(crate) backend: &'static str,
    /// The flow that acquired it, to detect tasks that wait for themselves or for each other.
    pub(crate) flow: Flow,
    /// Whether its owner also re-entered it from another flow.
    shared: AtomicBool,
    pub(crate) owner: Option<u64>,
    pub(crate) since: Time,
    /// The mailboxes of waiters that it was granted to and that have not collected it.
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
    clock: Clock,
    /// Whether it lives as long as a session: then the core enforces a lease, and verifies it even if it is not
    /// renewed.
    session: bool,
    until: AtomicU64,
    renew_at: AtomicU64,
    /// When it must be verified, renewed or not.
    prove_at: AtomicU64,
    /// Whether the store may have lost it: there was a suspicion, and it was not verified since.
    suspected: AtomicBool,
    pub(crate) leases: Leases,
    pub(crate) passing: Passing,
    collect_by: AtomicU64,
    /// When to log that it has been held for long.
    warn_at: AtomicU64,
    /// Where it is in the keeper's agenda.
    pub(crate) place: Place,
    phase: AtomicU8,
    /// Whether its last renewal failed.
    failing: AtomicBool,
    share: Mutex<Share>,
    lost: Notify,
}

/// State shared by the guards of one hold.
#[derive(Debug)]
struct Share {
    guards: u32,
    /// How many guards have no fixed lease: while there is one, the hold is renewed.
    renewing: u32,
    /// The claim sent by renewals.
    renewal: Arc<Claim>,
    /// When the `max_hold` of each guard that has one ends.
    limits: Vec<Time>,
    /// When the last fixed lease ends, on a store where holds live as long as the session.
    leased: Option<Time>,
}

impl Share {
    fn max_at(&self) -> Time {
        self.limits.iter().copied().min().unwrap_or(Time::MAX)
    }

    /// The end of the fixed lease that the core enforces.
    fn lease_at(&self) -> Time {
        self.leased.filter(|_| self.renewing == 0).unwrap_or(Time::MAX)
    }
}

const HELD: u8 = 0;
const LEFT: u8 = 1;
const EXPIRED: u8 = 2;
const GONE: u8 = 3;
const MAX_HOLD: u8 = 4;
const CLOSED: u8 = 5;

fn reason(phase: u8) -> Option<LostReason> {
    match phase {
        EXPIRED => Some(LostReason::Expired),
        GONE => Some(LostReason::Gone),
        MAX_HOLD => Some(LostReason::MaxHold),
        CLOSED => Some(LostReason::Closed),
        _ => None,
    }
}

/// The contribution of one guard to its hold, which is removed when it leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    renewed: bool,
    limit: Option<Time>,
}

/// What has to happen when a guard leaves.
pub(crate) enum Leave {
    /// The hold is already lost.
    Lost(Lost),
    /// This many other guards remain.
    Inner(u32),
    /// It was the last guard.
    Last,
}

/// What the keeper has to do about a hold.
pub(crate) enum Due {
    Nothing,
    Renew(Ask),
    /// Renew it because the store may have lost it.
    Prove(Ask),
    Lose(LostReason),
    Reclaim,
}

/// A renewal to be sent.
pub(crate) struct Ask {
    pub(crate) claim: Arc<Claim>,
    /// The lease that its guards get. They get nothing where a fixed lease is only verified, or kept for its minimum.
    pub(crate) lease: Option<Duration>,
}

/// When to renew a hold that ends at `until`: a session may end sooner than the lease.
fn third(now: Time, lease: Duration, until: Time) -> Time {
    now.after(lease.min(until.since(now)) / 3)
}

/// Until when guards count on a lease that the store has granted until `until`. Not on the longer one that a minimum
/// asks for: whether it is still theirs shows as soon as it does without a minimum.
fn counted(session: bool, until: Time, from: Time, lease: Duration) -> Time {
    if session { until } else { until.min(from.after(lease)) }
}

impl Hold {
    pub(crate) fn new(
        asked: &Acquisition,
        claim: Arc<Claim>,
        fence: Option<Fence>,
        until: Time,
        now: Time,
    ) -> Self {
        let (info, terms) = (asked.core().backend.info(), asked.terms);
        let session = info.liveness == Liveness::Session;
        let granted = claim.lease;
        let claim = match granted == terms.lease {
            true => claim,
            // For a minimum the store was asked for a longer one.
            false => Arc::new(Claim { lease: terms.lease, ..(*claim).clone() }),
        };
        let until = counted(session, until, now, terms.lease);
        let renew_at = if terms.renewed || session { third(now, claim.lease, until) } else { Time::MAX };
        Self {
            fence,
            backend: info.scheme,
            flow: asked.flow,
            shared: AtomicBool::new(false),
            owner: asked.owner,
            since: now,
            mailboxes: Mutex::default(),
            clock: info.clock().clone(),
            session,
            until: AtomicU64::new(until.as_nanos()),
            renew_at: AtomicU64::new(renew_at.as_nanos()),
            prove_at: AtomicU64::new(u64::MAX),
            suspected: AtomicBool::new(false),
            leases: Leases::new(now, now.after(granted)),
            passing: Passing::default(),
            collect_by: AtomicU64::new(u64::MAX),
            warn_at: AtomicU64::new(u64::MAX),
            place: Place::nowhere(),
            phase: AtomicU8::new(HELD),
            failing: AtomicBool::new(false),
            share: Mutex::new(Share {
                guards: 1,
                renewing: u32::from(terms.renewed),
                renewal: claim.clone(),
                limits: terms.max_hold.map(|d| now.after(d)).into_iter().collect(),
                leased: (session && !terms.renewed).then(|| now.after(terms.lease)),
            }),
            lost: Notify::new(),
            claim,
        }
    }

    pub(crate) fn until(&self) -> Time {
        Time::from_nanos(self.until.load(SeqCst))
    }

    /// Records that a request will be sent that may extend it by `lease`, and that is executed within `within`.
    pub(crate) fn may_last(&self, lease: Duration, within: Duration) {
        self.leases.ask(self.clock.now(), lease, within);
    }

    /// The claim that releases it: its lease tells the store how long something of it may be left somewhere.
    pub(crate) fn to_release(&self) -> Arc<Claim> {
        let left = self.leases.asked_for(self.clock.now());
        match left > self.claim.lease {
            true => Arc::new(Claim { lease: left, ..(*self.claim).clone() }),
            false => self.claim.clone(),
        }
    }

    /// Keeps it for at least `d` from its grant on, whenever its last guard leaves. Returns whether the store has yet to
    /// be told, by a renewal that is due now.
    pub(crate) fn keep_at_least(&self, d: Duration) -> bool {
        self.leases.keep_for(d);
        let short = self.is_short();
        if short {
            self.renew_at.store(self.clock.now().as_nanos(), SeqCst);
        }
        short
    }

    /// Whether the store has not confirmed that it keeps it for its minimum.
    fn is_short(&self) -> bool {
        self.kept_until().is_some_and(|end| !self.leases.are_stored_until(end))
    }

    /// What is left of a minimum of `d`.
    pub(crate) fn rest_of(&self, d: Duration) -> Duration {
        self.since.after(d).since(self.clock.now())
    }

    /// Until when it has to be kept, if that is later than now.
    pub(crate) fn kept_until(&self) -> Option<Time> {
        self.leases.kept_until().filter(|end| *end > self.clock.now())
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.phase.load(SeqCst) != HELD {
            return Duration::ZERO;
        }
        let share = self.share.lock().unwrap();
        self.until().min(share.max_at()).min(share.lease_at()).since(self.clock.now())
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Fails unless it is certain to be held for another `d`.
    pub(crate) fn ensure(&self, d: Duration) -> Result<()> {
        // Read before `lost`: the hold may end in between, and a released hold has no time left but is not lost.
        let left = self.remaining();
        match self.lost() {
            Some(lost) => Err(lost.into()),
            None if left.is_zero() || left < d => Err(self.as_lost(LostReason::Expired).into()),
            None => Ok(()),
        }
    }

    /// The durability that its renewals ask for.
    pub(crate) fn durability(&self) -> Durability {
        self.share.lock().unwrap().renewal.durability
    }

    pub(crate) fn guards(&self) -> u32 {
        self.share.lock().unwrap().guards
    }

    /// Returns why it was lost. Computed at the call, so a guard does not depend on the keeper to notice that its time
    /// is over.
    pub(crate) fn lost(&self) -> Option<Lost> {
        let phase = self.phase.load(SeqCst);
        if let Some(reason) = reason(phase) {
            return Some(self.as_lost(reason));
        }
        if phase == LEFT {
            return None;
        }
        let over = self.over(self.clock.now(), &self.share.lock().unwrap());
        over.map(|reason| self.as_lost(reason))
    }

    /// Returns why it is over according to the clock.
    fn over(&self, now: Time, share: &Share) -> Option<LostReason> {
        if now >= self.until() || now >= share.lease_at() {
            Some(LostReason::Expired)
        } else if now >= share.max_at() {
            Some(LostReason::MaxHold)
        } else {
            None
        }
    }

    pub(crate) fn as_lost(&self, reason: LostReason) -> Lost {
        let end = self.until().min(self.share.lock().unwrap().lease_at());
        let ago = (reason == LostReason::Expired).then(|| self.clock.now().since(end));
        Lost { backend: self.backend, name: self.claim.name.clone(), hold: self.claim.id, reason, ago }
    }

    pub(crate) async fn wait_lost(&self) -> Lost {
        loop {
            let notified = self.lost.notified();
            if let Some(lost) = self.lost() {
                return lost;
            }
            notified.await;
        }
    }

    /// Marks it lost, once. Returns whether this call did it; the caller must then call [`Hold::tell_lost`].
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        let code = match reason {
            LostReason::Expired => EXPIRED,
            LostReason::Gone => GONE,
            LostReason::MaxHold => MAX_HOLD,
            LostReason::Closed => CLOSED,
        };
        self.phase.compare_exchange(HELD, code, SeqCst, SeqCst).is_ok()
    }

    /// Wakes the tasks that wait for its loss.
    pub(crate) fn tell_lost(&self) {
        wake_all(&self.lost);
    }

    /// Adds a guard that the store has already counted, valid until `until`. Returns `None` if the hold has ended
    /// meanwhile.
    pub(crate) fn enter(&self, terms: Terms, until: Time) -> Option<Part> {
        // Checked under the lock, so that what a guard has reported as lost is not extended after that.
        let mut share = self.share.lock().unwrap();
        let now = self.clock.now();
        if share.guards == 0 || self.phase.load(SeqCst) != HELD || self.over(now, &share).is_some() {
            return None;
        }
        share.guards += 1;
        let until = counted(self.session, until, now, terms.lease);
        self.until.fetch_max(until.as_nanos(), SeqCst);
        self.leases.confirm(self.since, terms.least);
        // The highest durability of any guard applies from now on.
        let durability = share.renewal.durability.max(terms.durability);
        if durability != share.renewal.durability {
            share.renewal = Arc::new(Claim { durability, ..(*share.renewal).clone() });
        }
        if terms.renewed {
            share.renewing += 1;
            if share.renewing == 1 {
                share.renewal = Arc::new(Claim { lease: terms.lease, ..(*share.renewal).clone() });
                self.renew_at.store(third(now, terms.lease, until).as_nanos(), SeqCst);
            }
        } else if self.session {
            share.leased = share.leased.max(Some(now.after(terms.lease)));
        }
        let limit = terms.max_hold.map(|d| now.after(d));
        share.limits.extend(limit);
        Some(Part { renewed: terms.renewed, limit })
    }

    /// Returns the part of the first guard.
    pub(crate) fn first(&self) -> Part {
        let share = self.share.lock().unwrap();
        Part { renewed: share.renewing > 0, limit: share.limits.first().copied() }
    }

    /// Removes a guard.
    pub(crate) fn leave(&self, part: Part) -> Leave {
        if let Some(lost) = self.lost() {
            return Leave::Lost(lost);
        }
        let mut share = self.share.lock().unwrap();
        share.guards -= 1;
        if let Some(at) = share.limits.iter().position(|l| Some(*l) == part.limit) {
            share.limits.swap_remove(at);
        }
        if part.renewed {
            share.renewing -= 1;
            if share.renewing == 0 && self.session {
                // The remaining guards get as much time as a renewal would have given.
                let lease = share.renewal.lease;
                share.leased = share.leased.max(Some(self.clock.now().after(lease)));
            } else if share.renewing == 0 {
                self.renew_at.store(u64::MAX, SeqCst);
            }
        }
        if share.guards > 0 {
            return Leave::Inner(share.guards);
        }
        let left = self.phase.compare_exchange(HELD, LEFT, SeqCst, SeqCst);
        drop(share);
        match left {
            Ok(_) => Leave::Last,
            Err(phase) => Leave::Lost(self.as_lost(reason(phase).unwrap_or(LostReason::Expired))),
        }
    }

    /// When a detached hold must be released, where the store would keep it for the whole session.
    pub(crate) fn left_alone(&self) -> Option<Time> {
        let share = self.share.lock().unwrap();
        self.session.then(|| share.leased.unwrap_or_else(|| self.clock.now().after(share.renewal.lease)))
    }

    /// When the keeper has to check it next.
    pub(crate) fn next_event(&self) -> Time {
        let asked = {
            let share = self.share.lock().unwrap();
            share.max_at().min(share.lease_at())
        };
        let at = |a: &AtomicU64| Time::from_nanos(a.load(SeqCst));
        let ours = at(&self.collect_by).min(at(&self.warn_at));
        at(&self.until).min(at(&self.renew_at)).min(at(&self.prove_at)).min(ours).min(asked)
    }

    /// Sets when it counts as held for long.
    pub(crate) fn warn_at(&mut self, at: Time) {
        *self.warn_at.get_mut() = at.as_nanos();
    }

    /// Whether to log now that it has been held for long. Returns `true` once.
    pub(crate) fn warns(&self, now: Time) -> bool {
        let due = |at| (now.as_nanos() >= at && at != u64::MAX).then_some(u64::MAX);
        self.warn_at.fetch_update(SeqCst, SeqCst, due).is_ok()
    }

    /// Records that its owner has entered it from this flow.
    pub(crate) fn entered_from(&self, flow: Flow) {
        self.shared.fetch_or(flow != self.flow, SeqCst);
    }

    pub(crate) fn is_of(&self, owner: u64, flow: Flow) -> bool {
        self.owner == Some(owner) && self.flow == flow
    }

    /// Whether it lasts until its owner releases it, from the flow that acquired it, as far as is known here.
    pub(crate) fn is_lasting(&self) -> bool {
        let asked_for = {
            let share = self.share.lock().unwrap();
            share.renewing > 0 && share.limits.is_empty()
        };
        asked_for
            && self.is_held()
            && !self.shared.load(SeqCst)
            && !self.suspected.load(SeqCst)
            && self.collect_by.load(SeqCst) == u64::MAX
    }

    /// Whether nothing about it is due or in flight.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_settled(&self, now: Time) -> bool {
        let renewing = self.renewing(&self.share.lock().unwrap());
        let unanswered = (renewing || self.is_short()) && self.renew_at.load(SeqCst) == u64::MAX;
        !unanswered && self.next_event() > now
    }

    /// Whether renewals are at least this frequent.
    pub(crate) fn is_renewed_within(&self, every: Duration) -> bool {
        let share = self.share.lock().unwrap();
        self.renewing(&share) && share.renewal.lease / 3 <= every
    }

    fn renewing(&self, share: &Share) -> bool {
        share.renewing > 0 || self.session
    }

    /// Whether its renewal is due.
    fn renews(&self, now: Time) -> bool {
        now.as_nanos() >= self.renew_at.load(SeqCst)
    }

    /// Returns what the keeper has to do now. A renewal is handed out once until it is answered. It is handed out a
    /// little early if `others` are renewed anyway, so that holds acquired one after the other are soon renewed in one
    /// batch.
    pub(crate) fn due(&self, now: Time, others: bool) -> Due {
        let share = self.share.lock().unwrap();
        if let Some(reason) = self.over(now, &share) {
            Due::Lose(reason)
        } else if now.as_nanos() >= self.collect_by.load(SeqCst) {
            self.collect_by.store(u64::MAX, SeqCst);
            Due::Reclaim
        } else if now.as_nanos() >= self.prove_at.load(SeqCst) {
            self.prove_at.store(u64::MAX, SeqCst);
            self.passing.asks();
            Due::Prove(if self.renewing(&share) {
                self.renew_at.store(u64::MAX, SeqCst);
                self.ask(now, &share)
            } else {
                // A fixed lease is not extended, only verified. Where others may have shortened what readers share, the
                // rest of it is asked for again.
                let shared = matches!(self.claim.kind, Kind::Read { .. });
                let lease = if shared { self.until().since(now) } else { Duration::ZERO };
                let claim = Arc::new(Claim { lease, ..(*share.renewal).clone() });
                Ask { claim, lease: None }
            })
        } else if self.renews(if others { now.after(share.renewal.lease / 10) } else { now }) {
            self.renew_at.store(u64::MAX, SeqCst);
            self.passing.asks();
            Due::Renew(self.ask(now, &share))
        } else {
            Due::Nothing
        }
    }

    /// What a renewal asks for: a lease, or what is left of the minimum if that is longer.
    fn ask(&self, now: Time, share: &Share) -> Ask {
        let lease = self.renewing(share).then_some(share.renewal.lease);
        let least = self.kept_until().map_or(Duration::ZERO, |end| end.since(now).max(Claim::MIN_LEASE));
        let asked = lease.unwrap_or_default().max(least);
        self.leases.ask(now, asked, share.renewal.lease / 3);
        let claim = match asked == share.renewal.lease {
            true => share.renewal.clone(),
            false => Arc::new(Claim { lease: asked, ..(*share.renewal).clone() }),
        };
        Ask { claim, lease }
    }

    /// Records the answer to a renewal. Returns `false` if it came too late to count.
    pub(crate) fn renewed(&self, sent: Time, until: Time) -> bool {
        let share = self.share.lock().unwrap();
        if self.clock.now() >= self.until() {
            return false;
        }
        match self.session {
            // Servers may grant less time to a session after a reconnect.
            true => self.until.store(until.as_nanos(), SeqCst),
            false => {
                let until = counted(false, until, sent, share.renewal.lease);
                self.until.fetch_max(until.as_nanos(), SeqCst);
            }
        }
        if self.renewing(&share) {
            // A minimum may have been asked for since it was sent.
            let due = third(sent, share.renewal.lease, self.until());
            let next = if self.is_short() { sent } else { due };
            self.renew_at.store(next.as_nanos(), SeqCst);
        }
        true
    }

    /// Schedules a verification at once, because the store may have lost it.
    pub(crate) fn suspect(&self, now: Time) {
        self.suspected.store(true, SeqCst);
        self.prove(now);
    }

    /// Schedules a verification at `at`.
    pub(crate) fn prove(&self, at: Time) {
        self.prove_at.store(at.as_nanos(), SeqCst);
    }

    /// Records that the store was asked whether it still has it, and does.
    pub(crate) fn proved(&self) {
        self.suspected.store(false, SeqCst);
    }

    /// Schedules the retry of a failed renewal at `next`.
    pub(crate) fn renew_again(&self, next: Time) {
        if self.renewing(&self.share.lock().unwrap()) || self.is_short() {
            self.renew_at.store(next.as_nanos(), SeqCst);
        }
    }

    /// Records whether its renewals fail. Returns whether that is new.
    pub(crate) fn set_failing(&self, failing: bool) -> bool {
        self.failing.swap(failing, SeqCst) != failing
    }

    /// Records that it is put into a mailbox. If it is not collected within `patience`, it goes to the next waiter.
    pub(crate) fn put_into(&self, mailbox: &Arc<Mailbox>, patience: Duration) {
        let mut mailboxes = self.mailboxes.lock().unwrap();
        mailboxes.push(Arc::downgrade(mailbox));
        self.collect_by.store(self.clock.now().after(patience).as_nanos(), SeqCst);
    }

    pub(crate) fn collected(&self) {
        let mut mailboxes = self.mailboxes.lock().unwrap();
        mailboxes.retain(|m| m.upgrade().is_some_and(|m| !m.is_over()));
        if mailboxes.is_empty() {
            self.collect_by.store(u64::MAX, SeqCst);
        }
    }

    /// Takes the uncollected grants out of their mailboxes. Dropping them releases them.
    pub(crate) fn uncollected(&self) -> Vec<Grant> {
        let mut mailboxes = self.mailboxes.lock().unwrap();
        let all = std::mem::take(&mut *mailboxes);
        // One that nothing was put into yet is looked at again.
        let is_empty = |mailbox: &Weak<Mailbox>| mailbox.upgrade().is_some_and(|m| m.is_waiting());
        let (empty, filled): (Vec<_>, Vec<_>) = all.into_iter().partition(is_empty);
        if !empty.is_empty() {
            let again = self.clock.now().after(Duration::from_millis(50));
            self.collect_by.store(again.as_nanos(), SeqCst);
        }
        *mailboxes = empty;
        drop(mailboxes);
        filled.iter().filter_map(Weak::upgrade).filter_map(|m| m.reclaim()).collect()
    }
}
