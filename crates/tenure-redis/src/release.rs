//! Release: one script call for each kind.

use tenure_core::backend::Released;
use tenure_core::{Claim, Error, Kind, Result};

use crate::keys::Keys;
use crate::scripts;
use crate::store::{Redis, millis, words};
use crate::transport::{Answer, Call, Failure, Order, Script, Value};

impl Redis {
    pub(crate) async fn release_redisson(&self, claim: &Claim, left: u32) -> Result<Released> {
        let keys = self.keys(&claim.name)?;
        let (id, left, lease) = (claim.id.to_string(), left.to_string(), millis(claim.lease).to_string());
        let publish = self.transport.publish_command();
        let name = keys.name();
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        match claim.kind {
            Kind::Lock | Kind::Leader => {
                let leader = if claim.kind == Kind::Leader { keys.leader_channel() } else { String::new() };
                let channel = keys.lock_channel();
                let args = [&*id, &left, &lease, publish, &channel, &leader];
                let on = [name, &about, &waiters, &stamps];
                self.send_release(claim, &keys, &scripts::LOCK_RELEASE, &words(&on), &words(&args)).await
            }
            Kind::FairLock => {
                let (queue, scores, channel) = (keys.queue(), keys.scores(), keys.fair_channel(""));
                let args = [&*id, &left, &lease, publish, &channel];
                let on = [name, &about, &queue, &scores, &stamps];
                self.send_release(claim, &keys, &scripts::FAIR_RELEASE, &words(&on), &words(&args)).await
            }
            Kind::Read { .. } | Kind::Write => {
                let reads = claim.kind != Kind::Write;
                let field = if reads { id.clone() } else { format!("{id}:write") };
                let timeout = if reads { keys.reader(claim.id) } else { name.to_owned() };
                let (writers, channel, base) = (keys.writers(), keys.rw_channel(), keys.base());
                let args = [&*id, &field, &left, &lease, publish, &channel, &base];
                let on = [name, &about, &waiters, &writers, &stamps, &timeout];
                self.send_release(claim, &keys, &scripts::RW_RELEASE, &words(&on), &words(&args)).await
            }
            Kind::Permit { n, .. } => {
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let n = n.to_string();
                let slack = millis(self.slack).to_string();
                let args = [&*id, &n, publish, &channel, &slack];
                let on = [name, &ends, &ours, &about, &waiters, &stamps];
                self.send_release(claim, &keys, &scripts::PERMIT_RELEASE, &words(&on), &words(&args)).await
            }
            other => Err(self.info.unknown(other)),
        }
    }

    pub(crate) async fn send_release(
        &self,
        claim: &Claim,
        keys: &Keys,
        script: &'static Script,
        on: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Released> {
        let order = Order::AfterAttempt(claim.id);
        let sent = self.transport.call(Call { script, keys: on, args, order }).await;
        self.release_outcome(claim, keys, sent)
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
