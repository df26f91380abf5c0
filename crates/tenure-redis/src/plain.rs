//! The plain layout: a lock is a string whose value is the holder's token, shared with all who use
//! `SET key token NX PX ms`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tenure_core::backend::Attempt;
use tenure_core::{Claim, Durability, HoldId, Result};

use crate::acquire::{is_brief, order};
use crate::described::Described;
use crate::error::code;
use crate::keys::Keys;
use crate::record::describe;
use crate::renew::{Batch, build_call};
use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Call, Failure, Order, Value};

/// The poll interval, in ms, while the holder is one that will not publish its release.
const POLL_MS: std::ops::Range<u64> = 50..250;

/// The token in the store, and the hold id it belongs to: empty if only the token is known.
pub(crate) fn token_and_id(claim: &Claim) -> (String, String) {
    let id = if claim.id == HoldId::NONE { String::new() } else { claim.id.to_string() };
    (claim.token.as_deref().map_or_else(|| id.clone(), str::to_owned), id)
}

/// When to poll again for a holder that will not publish its release and has `left` of its TTL.
pub(crate) fn poll_delay(left: Option<Duration>) -> Duration {
    let look = Duration::from_millis(fastrand::u64(POLL_MS));
    left.unwrap_or(look).min(look)
}

impl Redis {
    /// An attempt by the command that everybody uses; `None` if only the script can decide. Not for what a string cannot
    /// say, nor for one who waits: these are recorded, or have lost to somebody already.
    pub(crate) async fn plain_first(&self, claim: &Claim, keys: &Keys) -> Result<Option<Attempt>> {
        let durable = claim.durability != Durability::Master;
        if claim.wait.is_some() || is_described(claim) || durable || self.no_set_get.load(Relaxed) {
            return Ok(None);
        }
        let (token, lease) = (claim.id.to_string(), millis(claim.lease).to_string());
        let until = self.info.drift.until(self.info.clock().now(), claim.lease);
        let set = ["SET", keys.name(), &token, "NX", "GET", "PX", &lease];
        match self.send_command(keys, &set, order(claim)).await {
            Ok(Value::Nil) => Ok(Some(Attempt::Granted { fence: None, until, spare: claim.reserve })),
            Ok(Value::Bulk(held)) => {
                let behind = std::str::from_utf8(&held).ok().and_then(|held| held.parse().ok());
                // A repeat: the script extends what this claim has already. A token that is no id may be that of a hold.
                if behind.is_none() || behind == Some(claim.id) {
                    return Ok(None);
                }
                Ok(Some(Attempt::Busy { retry_after: None, behind, position: None }))
            }
            // Redis 6.2 cannot do both, nor tell of another type.
            Err(Failure::Refused(reply)) if code(&reply) == "ERR" => {
                self.no_set_get.store(true, Relaxed);
                Ok(None)
            }
            Err(failure) => Err(self.acquire_error(claim, keys, failure).await),
            Ok(other) => Err(self.context("acquire", &claim.name, keys).unexpected_reply(other)),
        }
    }

    /// The call that makes an attempt.
    pub(crate) fn plain_attempt(&self, claim: &Claim, keys: &Keys) -> Call {
        let (token, id) = token_and_id(claim);
        let (lease, holds) = (millis(claim.lease).to_string(), claim.holds.to_string());
        let recorded = claim.wait.filter(|_| !is_brief(claim));
        let stamp = recorded.map_or_else(String::new, |_| millis(claim.stamp).to_string());
        let described = recorded.is_some() || is_described(claim);
        let who = if described { describe(claim) } else { "".into() };
        if described {
            self.described.note(claim, self.info.clock().now());
        }
        let lasts = millis(Described::lasts(claim)).to_string();
        let args = [&*token, &id, &lease, &holds, &who, &stamp, &lasts];
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        let on = [keys.name(), &about, &waiters, &stamps];
        Call::new(&scripts::PLAIN_ACQUIRE, &on, &args, order(claim))
    }

    /// The call that releases a claim.
    pub(crate) fn plain_release(&self, claim: &Claim, left: u32, keys: &Keys) -> Call {
        let (token, id) = token_and_id(claim);
        let (left_text, lease) = (left.to_string(), millis(claim.lease).to_string());
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        let (publish, channel) = (self.transport.publish_command(), keys.plain_channel());
        let described = if left == 0 && self.described.has(claim.id) { "1" } else { "" };
        let args = [&*token, &id, &left_text, &lease, publish, &channel, described];
        let on = [keys.name(), &about, &waiters, &stamps];
        Call::new(&scripts::PLAIN_RELEASE, &on, &args, Order::Unordered)
    }

    pub(crate) fn plain_renewal_call(&self, batch: &Batch, claims: &[Arc<Claim>], keys: &[Keys]) -> Call {
        let (mut on, mut args, mut essential) = (Vec::new(), Vec::new(), 0);
        let now = self.info.clock().now();
        for at in &batch.claims {
            let (claim, keys) = (&claims[*at], &keys[*at]);
            let (token, id) = token_and_id(claim);
            // If the token differs from the id, only the record beside it says which hold it belongs to.
            essential = if claim.token.is_some() && !id.is_empty() { 2 } else { 1 };
            on.extend([keys.name().to_owned(), keys.about(), keys.waiters(), keys.stamps()]);
            let lease = if claim.lease.is_zero() { 0 } else { millis(claim.lease) };
            let (lease, stamp) = (lease.to_string(), millis(claim.stamp).to_string());
            let due = !batch.keys_may_be_split && self.described.is_due(claim, now);
            let who = if due { describe(claim).into_owned() } else { String::new() };
            let lasts = millis(Described::lasts(claim)).to_string();
            args.extend([token, id, lease, stamp, who, lasts]);
        }
        build_call(&scripts::PLAIN_RENEW, on, args, batch.keys_may_be_split.then_some(essential))
    }
}

/// Whether a hold is described from its beginning: it has more to say than its id.
fn is_described(claim: &Claim) -> bool {
    claim.note.is_some() || claim.token.is_some() || claim.holds > 1
}
