//! Release: one script call for each kind.

use tenure_core::backend::Released;
use tenure_core::{Claim, Error, Kind, Result};

use crate::keys::Keys;
use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Answer, Call, Failure, Order, Value};

impl Redis {
    /// The call that releases a claim in Redisson's layout.
    pub(crate) fn redisson_release(&self, claim: &Claim, left: u32, keys: &Keys) -> Result<Call> {
        let (id, left, lease) = (claim.id.to_string(), left.to_string(), millis(claim.lease).to_string());
        let publish = self.transport.publish_command();
        let (name, order) = (keys.name(), Order::Unordered);
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        Ok(match claim.kind {
            Kind::Lock | Kind::Leader => {
                let leader = if claim.kind == Kind::Leader { keys.leader_channel() } else { String::new() };
                let channel = keys.lock_channel();
                let args = [&*id, &left, &lease, publish, &channel, &leader];
                Call::new(&scripts::LOCK_RELEASE, &[name, &about, &waiters, &stamps], &args, order)
            }
            Kind::FairLock => {
                let (queue, scores, channel) = (keys.queue(), keys.scores(), keys.fair_channel(""));
                let (fence, keep) = self.fence(keys);
                let args = [&*id, &left, &lease, publish, &channel, &keep];
                let on = [name, &about, &queue, &scores, &stamps, &fence];
                Call::new(&scripts::FAIR_RELEASE, &on, &args, order)
            }
            Kind::Read { .. } | Kind::Write => {
                let reads = claim.kind != Kind::Write;
                let field = if reads { id.clone() } else { format!("{id}:write") };
                let timeout = if reads { keys.reader(claim.id) } else { keys.writer() };
                let (writers, channel, base) = (keys.writers(), keys.rw_channel(), keys.base());
                let args = [&*id, &field, &left, &lease, publish, &channel, &base];
                let on = [name, &about, &waiters, &writers, &stamps, &timeout];
                Call::new(&scripts::RW_RELEASE, &on, &args, order)
            }
            Kind::Permit { n, .. } => {
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let n = n.to_string();
                let slack = millis(self.slack).to_string();
                let args = [&*id, &n, publish, &channel, &slack];
                let on = [name, &ends, &ours, &about, &waiters, &stamps];
                Call::new(&scripts::PERMIT_RELEASE, &on, &args, order)
            }
            other => return Err(self.info.unknown(other)),
        })
    }

    /// Maps the reply to a release: 1 if the hold or waiter existed, 0 if not.
    pub(crate) fn release_outcome(
        &self,
        claim: &Claim,
        keys: &Keys,
        sent: std::result::Result<Answer, Failure>,
    ) -> Result<Released> {
        let context = self.context("release", &claim.name, keys);
        let answer = sent.map_err(|failure| context.to_error(failure))?;
        match answer.value {
            Value::Int(1) => Ok(Released::Freed),
            // The attempt was sent on a connection that broke: it may still arrive after this release.
            Value::Int(0) if !answer.certain => Err(Error::unknown(
                self.info.scheme,
                format!("release {}", claim.name),
                "the acquire was sent on a connection that broke, and may still be executed",
            )),
            Value::Int(0) => Ok(Released::Gone),
            other => Err(context.unexpected_reply(other)),
        }
    }
}
