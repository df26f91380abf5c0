//! Acquire attempts: one script call for each kind.

use std::time::Duration;

use tenure_core::backend::{Attempt, Time};
use tenure_core::ledger::in_use;
use tenure_core::{Claim, Durability, Error, Family, Fence, Kind, Result};

use crate::error::code;
use crate::keys::Keys;
use crate::options::{Fences, Layout};
use crate::plain::poll_delay;
use crate::record::describe;
use crate::scripts;
use crate::store::{Redis, millis, words};
use crate::transport::{Call, Failure, Order, To, Value, Word};

/// The timeout of `WAIT` for replicas to confirm a grant.
pub(crate) const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);
/// When a waiter whose wait was brief tries again, to be recorded.
const RECORDED_AFTER: Duration = Duration::from_millis(200);
/// How long a waiter for a fair lock without a timeout keeps its queue position; Redisson's default.
const PATIENCE: Duration = Duration::from_secs(300);

/// The most permits of one hold. Each permit is a member of a sorted set, and a script that iterates over them blocks
/// the server.
const MAX_PERMITS: u32 = 1000;

impl Redis {
    /// The call that makes an attempt in Redisson's layout.
    pub(crate) fn redisson_attempt(&self, claim: &Claim, keys: &Keys) -> Result<Call> {
        if let Kind::Lock | Kind::Leader = claim.kind {
            return Ok(self.lock_attempt(claim, keys));
        }
        let (fence, keep) = self.fence(keys);
        let (id, lease) = (claim.id.to_string(), millis(claim.lease).to_string());
        let (holds, who) = (claim.holds.to_string(), describe(claim));
        let stamp = claim.wait.map_or_else(String::new, |_| millis(claim.stamp).to_string());
        let publish = self.transport.publish_command();
        let (name, order) = (keys.name(), order(claim));
        let (id, lease, holds, keep, who, stamp) = (&*id, &*lease, &*holds, &*keep, &*who, &*stamp);
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        Ok(match claim.kind {
            Kind::FairLock => {
                let patience = claim.wait.map_or(PATIENCE, |wait| wait.min(PATIENCE));
                let patience = millis(patience).to_string();
                let mark = waiting_mark(claim);
                let args = [id, lease, holds, keep, who, stamp, &patience, &mark];
                let (queue, scores) = (keys.queue(), keys.scores());
                let on = [name, &fence, &about, &queue, &scores, &stamps];
                Call::new(&scripts::FAIR_ACQUIRE, &on, &args, order)
            }
            Kind::Read { under_write } => {
                let (writers, timeout) = (keys.writers(), keys.reader(claim.id));
                let writer = under_write.map_or_else(String::new, |w| w.to_string());
                let field = under_write.map_or_else(String::new, |w| format!("{w}:write"));
                let args = [id, lease, holds, keep, who, stamp, &field, &writer];
                let record = keys.writer();
                let on = [name, &fence, &about, &waiters, &writers, &stamps, &timeout, &record];
                Call::new(&scripts::READ_ACQUIRE, &on, &args, order)
            }
            Kind::Write => {
                let (writers, record, base) = (keys.writers(), keys.writer(), keys.base());
                let args = [id, lease, holds, keep, who, stamp, &base];
                let on = [name, &fence, &about, &waiters, &writers, &stamps, &record];
                Call::new(&scripts::WRITE_ACQUIRE, &on, &args, order)
            }
            Kind::Permit { n, .. } if n > MAX_PERMITS => {
                return Err(Error::Config(format!(
                    "{}: {n} permits of {} requested at once: at most {MAX_PERMITS} are possible, because the server stores \
                     each one separately",
                    self.info.scheme, claim.name
                )));
            }
            Kind::Permit { n, limit } => {
                let (n, limit, slack) = (n.to_string(), limit.to_string(), millis(self.slack).to_string());
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let args = [id, lease, &n, &limit, &slack, keep, who, stamp, publish, &channel];
                let mark = keys.mark();
                let on = [name, &ends, &ours, &fence, &about, &waiters, &stamps, &mark];
                Call::new(&scripts::PERMIT_ACQUIRE, &on, &args, order)
            }
            other => return Err(self.info.unknown(other)),
        })
    }

    /// The call that makes an attempt on a lock or an election. Only a recorded wait needs all keys.
    fn lock_attempt(&self, claim: &Claim, keys: &Keys) -> Call {
        let (fence, keep) = match self.fences {
            Fences::Ours { retention } => (keys.fence_word(), millis(retention)),
            Fences::Redisson => (keys.token_word(), 0),
        };
        let leader = if claim.kind == Kind::Leader { keys.leader_channel() } else { String::new() };
        let who = describe(claim);
        let stamp = match claim.wait {
            Some(_) if !is_brief(claim) => Some(millis(claim.stamp)),
            _ => None,
        };
        let args = [
            Word::Hold(claim.id),
            Word::Number(millis(claim.lease)),
            Word::Number(claim.holds.into()),
            Word::Number(keep),
            Word::Text(&who),
            stamp.map_or(Word::Text(""), Word::Number),
            Word::Text(self.transport.publish_command()),
            Word::Text(&leader),
            Word::Number(claim.reserve.into()),
        ];
        let name = Word::Text(keys.name());
        if stamp.is_none() {
            return Call::of_words(&scripts::LOCK_ACQUIRE, [name, fence], args, order(claim));
        }
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        let keys = [name, fence, Word::Text(&about), Word::Text(&waiters), Word::Text(&stamps)];
        Call::of_words(&scripts::LOCK_ACQUIRE, keys, args, order(claim))
    }

    /// Reads the reply to an attempt; a grant is valid until `until`.
    pub(crate) fn read_attempt(
        &self,
        claim: &Claim,
        keys: &Keys,
        reply: Value,
        until: Time,
    ) -> Result<Attempt> {
        let context = || self.context("acquire", &claim.name, keys);
        let Value::Array(parts) = &reply else { return Err(context().unexpected_reply(reply)) };
        let text = |at: usize| parts.get(at).and_then(Value::text).filter(|t| !t.is_empty());
        let size_at = |at: usize| {
            let size = parts.get(at).and_then(Value::int).and_then(|size| u64::try_from(size).ok());
            size.into_iter().for_each(|size| self.info.sizes.check(self.info.scheme, claim, size));
        };
        match (parts.first().and_then(Value::int), parts.get(1)) {
            (Some(1), _) => {
                if claim.kind.family() == Family::Permit {
                    size_at(2);
                }
                let spare = match self.layout {
                    Layout::Plain => claim.reserve,
                    Layout::Redisson => spare(claim, parts.get(2)),
                };
                Ok(Attempt::Granted { fence: text(1).and_then(|t| t.parse().ok()).map(Fence), until, spare })
            }
            (Some(0), Some(left)) => {
                size_at(4);
                let left = left.int().and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
                let behind = text(2).and_then(|id| id.parse().ok());
                let retry_after = match self.layout {
                    // A holder that is none of ours does not publish its release.
                    Layout::Plain if behind.is_none() => Some(poll_delay(left)),
                    _ => left,
                };
                let soon = is_brief(claim).then_some(RECORDED_AFTER);
                let retry_after = retry_after.into_iter().chain(soon).min();
                let position = text(3).and_then(|micros| micros.parse().ok());
                Ok(Attempt::Busy { retry_after, behind, position })
            }
            (Some(2), _) => Ok(Attempt::Gone),
            (Some(3), _) => Err(self.info.locate(kind_conflict(claim, text(1)))),
            (Some(5), Some(left)) => Err(Error::Config(format!(
                "{}: the semaphore {} has a TTL and expires in {} ms, before a lease of {:?} would end: use a shorter lease, \
                 or a semaphore without a TTL",
                self.info.scheme,
                claim.name,
                left.int().unwrap_or(0),
                claim.lease
            ))),
            (Some(6), Some(size)) => Err(self.info.locate(too_many(claim, size.int().unwrap_or(0)))),
            (Some(4), _) => Err(Error::Config(format!(
                "{}: {} is held by a key without a TTL: {:?} was written by another program and would never expire; set a \
                 TTL on it, or use another name",
                self.info.scheme,
                claim.name,
                keys.name()
            ))),
            _ => Err(context().unexpected_reply(reply)),
        }
    }

    /// Maps a failed attempt to an error. If the key has another type, the server is asked what is there.
    pub(crate) async fn acquire_error(&self, claim: &Claim, keys: &Keys, failure: Failure) -> Error {
        let context = self.context("acquire", &claim.name, keys);
        match &failure {
            Failure::Refused(reply) if code(reply) == "WRONGTYPE" => {}
            _ => return context.to_error(failure),
        }
        let (permit, wanted) = (matches!(claim.kind, Kind::Permit { .. }), claim.kind.family());
        let to = To::Key(keys.name().as_bytes());
        let kind = self.transport.command(to, &words(&["TYPE", keys.name()])).await;
        match (kind.as_ref().ok().and_then(Value::text), self.layout) {
            (Some("string"), Layout::Redisson) if permit => context.foreign_key("text"),
            (Some(kind @ ("string" | "hash")), Layout::Redisson) => {
                match self.inspect_name(&claim.name).await {
                    // A lock that is a string is one of the other layout.
                    Ok(Some(found))
                        if found.family != wanted && (kind, found.family) != ("string", Family::Lock) =>
                    {
                        self.info.locate(in_use(&claim.name, found.family, wanted))
                    }
                    _ => context.other_layout(self.layout),
                }
            }
            (Some("hash"), Layout::Plain) => context.other_layout(self.layout),
            (Some(kind @ ("list" | "set" | "zset" | "stream")), _) => context.foreign_key(kind),
            _ => context.to_error(failure),
        }
    }

    /// Sends an attempt, and waits for as many replicas as the claim asks for.
    pub(crate) async fn send_attempt(&self, claim: &Claim, keys: &Keys, call: Call) -> Result<Value> {
        let Durability::Replicas(n) = claim.durability else {
            return match self.transport.call(call).await {
                Ok(reply) => Ok(reply),
                Err(failure) => Err(Box::pin(self.acquire_error(claim, keys, failure)).await),
            };
        };
        let sent = Box::pin(self.transport.call_and_wait(call, n, REPLICA_TIMEOUT)).await;
        let (reply, have) = match sent {
            Ok(answer) => answer,
            Err(failure) => return Err(Box::pin(self.acquire_error(claim, keys, failure)).await),
        };
        let granted = reply.array().and_then(|parts| parts.first()).and_then(Value::int) == Some(1);
        if granted && have < n {
            // The master has it, but it is not granted yet: repeating the attempt with the same id writes and waits
            // again, and a caller that gives up releases it.
            let reason =
                format!("only {have} of {n} replicas confirmed the write within {REPLICA_TIMEOUT:?}");
            return Err(Error::unknown(self.info.scheme, format!("acquire {}", claim.name), reason));
        }
        Ok(reply)
    }
}

/// What stands in place of the fence in the record of a fair waiter: whether a release may grant to it, for how long, and
/// the attempt to name then. Not where replicas have to confirm a grant. Nor if the lease could end before the waiter
/// looks again, at the poll cap: its place, which lasts for three of them, would be lost with a message.
fn waiting_mark(claim: &Claim) -> String {
    match claim.watched {
        Some(attempt) if claim.durability == Durability::Master && claim.lease >= claim.stamp / 3 => {
            format!("-{}:{attempt}", millis(claim.lease))
        }
        _ => "-".to_owned(),
    }
}

/// Whether the claim waits and its wait need not be recorded yet: for these kinds nobody but people looks at the record.
pub(crate) fn is_brief(claim: &Claim) -> bool {
    claim.brief && claim.wait.is_some() && matches!(claim.kind, Kind::Lock | Kind::Leader)
}

/// How many fences a grant has reserved.
fn spare(claim: &Claim, reserved: Option<&Value>) -> u32 {
    let reserved = reserved.and_then(Value::int).and_then(|n| u32::try_from(n).ok());
    reserved.filter(|_| claim.kind == Kind::Lock).unwrap_or(0)
}

/// The order of the attempt of a claim.
pub(crate) fn order(claim: &Claim) -> Order {
    Order::Attempt { id: claim.id, lease: claim.lease }
}

fn too_many(claim: &Claim, size: i64) -> Error {
    let n = if let Kind::Permit { n, .. } = claim.kind { n } else { 0 };
    tenure_core::ledger::too_many(&claim.name, n, size.max(0) as u64)
}

fn kind_conflict(claim: &Claim, is: Option<&str>) -> Error {
    let used = match (claim.kind, is) {
        (_, Some("latch")) => Family::Latch,
        (_, Some("semaphore")) => Family::Count,
        (Kind::Read { .. } | Kind::Write, _) => Family::Lock,
        _ => Family::ReadWrite,
    };
    in_use(&claim.name, used, claim.kind.family())
}
