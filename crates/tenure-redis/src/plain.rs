//! The plain layout: a lock is a string whose value is the holder's token, shared with all who use
//! `SET key token NX PX ms`.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Claim, HoldId};

use crate::acquire::{is_brief, order};
use crate::keys::Keys;
use crate::record::describe;
use crate::renew::{Batch, build_call};
use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Call, Order};

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
    /// The call that makes an attempt.
    pub(crate) fn plain_attempt(&self, claim: &Claim, keys: &Keys) -> Call {
        let (token, id) = token_and_id(claim);
        let (lease, holds, who) = (millis(claim.lease).to_string(), claim.holds.to_string(), describe(claim));
        let recorded = claim.wait.filter(|_| !is_brief(claim));
        let stamp = recorded.map_or_else(String::new, |_| millis(claim.stamp).to_string());
        let args = [&*token, &id, &lease, &holds, &who, &stamp];
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        let on = [keys.name(), &about, &waiters, &stamps];
        Call::new(&scripts::PLAIN_ACQUIRE, &on, &args, order(claim))
    }

    /// The call that releases a claim.
    pub(crate) fn plain_release(&self, claim: &Claim, left: u32, keys: &Keys) -> Call {
        let (token, id) = token_and_id(claim);
        let (left, lease) = (left.to_string(), millis(claim.lease).to_string());
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        let (publish, channel) = (self.transport.publish_command(), keys.plain_channel());
        let args = [&*token, &id, &left, &lease, publish, &channel];
        let on = [keys.name(), &about, &waiters, &stamps];
        Call::new(&scripts::PLAIN_RELEASE, &on, &args, Order::Unordered)
    }

    pub(crate) fn plain_renewal_call(&self, batch: &Batch, claims: &[Arc<Claim>], keys: &[Keys]) -> Call {
        let (mut on, mut args, mut essential) = (Vec::new(), Vec::new(), 0);
        for at in &batch.claims {
            let (claim, keys) = (&claims[*at], &keys[*at]);
            let (token, id) = token_and_id(claim);
            // If the token differs from the id, only the record beside it says which hold it belongs to.
            essential = if claim.token.is_some() && !id.is_empty() { 2 } else { 1 };
            on.extend([keys.name().to_owned(), keys.about(), keys.waiters(), keys.stamps()]);
            let lease = if claim.lease.is_zero() { 0 } else { millis(claim.lease) };
            args.extend([token, id, lease.to_string(), millis(claim.stamp).to_string()]);
        }
        build_call(&scripts::PLAIN_RENEW, on, args, batch.keys_may_be_split.then_some(essential))
    }
}
